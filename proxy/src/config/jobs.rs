//! Tasks beside the configuration thread's own work: fetches of key sets, and DNS lookups.

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};

/// Running tasks, and the job that each of them does, which is told also if the task panics.
#[derive(Debug)]
pub(super) struct Jobs<J, T> {
    tasks: JoinSet<T>,
    jobs: HashMap<Id, J>,
}

impl<J, T: Send + 'static> Jobs<J, T> {
    pub(super) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            jobs: HashMap::new(),
        }
    }

    pub(super) fn start(&mut self, job: J, task: impl Future<Output = T> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.jobs.insert(id, job);
    }

    /// Waits for the next one to end; `None` if none is running. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<(J, Result<T, JoinError>)> {
        let ended = self.tasks.join_next_with_id().await?;
        self.ended(ended)
    }

    /// One that has ended, without waiting.
    pub(super) fn try_next(&mut self) -> Option<(J, Result<T, JoinError>)> {
        let ended = self.tasks.try_join_next_with_id()?;
        self.ended(ended)
    }

    fn ended(&mut self, ended: Result<(Id, T), JoinError>) -> Option<(J, Result<T, JoinError>)> {
        let (id, result) = match ended {
            Ok((id, value)) => (id, Ok(value)),
            Err(error) => (error.id(), Err(error)),
        };
        Some((self.jobs.remove(&id)?, result))
    }
}

#[cfg(test)]
mod tests {
    use super::Jobs;

    #[tokio::test]
    async fn a_job_ends_by_its_name_whether_or_not_its_task_panics() {
        let mut jobs = Jobs::new();
        jobs.start("fails", async { panic!("as it should") });
        let (job, result) = jobs.next().await.expect("it runs");
        assert!(job == "fails" && result.is_err_and(|error| error.is_panic()));
        jobs.start("ends", async { 7 });
        let (job, result) = jobs.next().await.expect("it runs");
        assert_eq!((job, result.ok()), ("ends", Some(7)));
        assert!(jobs.next().await.is_none() && jobs.try_next().is_none());
    }
}

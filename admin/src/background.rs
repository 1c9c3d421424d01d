//! Low-priority threads for expensive responses, so that they do not take CPU time from requests.

use std::sync::Arc;
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::limits::{BACKGROUND_JOBS, BACKGROUND_NICENESS};
use crate::priority;

/// Runs up to [`BACKGROUND_JOBS`] jobs at a time, each on a thread of its own.
#[derive(Debug, Clone)]
pub(crate) struct Background(Arc<Semaphore>);

impl Default for Background {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BACKGROUND_JOBS)))
    }
}

/// A permit to run one job.
pub(crate) struct JobPermit {
    _permit: OwnedSemaphorePermit,
}

impl Background {
    /// A slot, or None where all are in use.
    pub(crate) fn slot(&self) -> Option<JobPermit> {
        let permit = Arc::clone(&self.0).try_acquire_owned();
        permit.ok().map(|permit| JobPermit { _permit: permit })
    }

    /// Waits for a slot. None only where the server is shutting down.
    pub(crate) async fn wait(&self) -> Option<JobPermit> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        permit.ok().map(|permit| JobPermit { _permit: permit })
    }
}

impl JobPermit {
    /// Runs a job, and returns its result. None where it panics, or no thread can be started.
    pub(crate) async fn result_of<T: Send + 'static>(
        self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, result) = oneshot::channel();
        self.run(move || {
            // Fails if nobody waits for it any more.
            let _ = sender.send(job());
        });
        result.await.ok()
    }

    /// Runs a job. Where it panics, or no thread can be started, the channels it owns are closed.
    pub(crate) fn run(self, job: impl FnOnce() + Send + 'static) {
        let run = move || {
            priority::lower(BACKGROUND_NICENESS);
            job();
            drop(self);
        };
        let started = thread::Builder::new()
            .name("background".to_owned())
            .spawn(run);
        if let Err(error) = started {
            tracing::error!(%error, "cannot start a background thread");
        }
    }
}

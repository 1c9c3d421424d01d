//! Threads of low priority, for what takes long: a request core never waits for them.

use std::sync::Arc;
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{BACKGROUND_JOBS, BACKGROUND_NICENESS};
use crate::priority;

/// Runs so many jobs at a time, each on a thread of its own.
#[derive(Debug, Clone)]
pub(crate) struct Background(Arc<Semaphore>);

impl Default for Background {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BACKGROUND_JOBS)))
    }
}

/// Leave to run a job.
pub(crate) struct Slot {
    _leave: OwnedSemaphorePermit,
}

impl Background {
    /// Leave to run a job, unless too many run already.
    pub(crate) fn slot(&self) -> Option<Slot> {
        let leave = Arc::clone(&self.0).try_acquire_owned();
        leave.ok().map(|leave| Slot { _leave: leave })
    }

    /// Leave to run a job, when there is room.
    pub(crate) async fn wait(&self) -> Option<Slot> {
        let leave = Arc::clone(&self.0).acquire_owned().await;
        leave.ok().map(|leave| Slot { _leave: leave })
    }
}

impl Slot {
    /// Runs a job. Whoever waits for its result learns by a closed channel that it panicked, or
    /// that there is no thread left.
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
            tracing::error!(%error, "no thread for a long answer");
        }
    }
}

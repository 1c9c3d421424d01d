//! When the API server was last heard.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When the watch of a kind last received something from the API server: its start, an event, a bookmark, a
/// page of a list, its end, or the answer that it is not permitted. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Heard(Arc<Mutex<Instant>>);

impl Default for Heard {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Heard {
    /// Records that it was heard.
    pub(crate) fn mark(&self) {
        *self.last() = Instant::now();
    }

    /// For how long it has not been heard.
    pub(crate) fn silence(&self) -> Duration {
        self.last().elapsed()
    }

    /// Has it not been heard for this long.
    #[cfg(test)]
    pub(crate) fn set_silence(&self, silence: Duration) {
        *self.last() = Instant::now() - silence;
    }

    fn last(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

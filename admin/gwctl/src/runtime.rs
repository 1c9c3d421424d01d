//! The async runtime that the I/O of a command runs on.

use std::sync::Arc;

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};

/// A runtime. A clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Blocking(Arc<Inner>);

/// None only while this is dropped.
#[derive(Debug)]
struct Inner(Option<Runtime>);

impl Blocking {
    /// Starts one, without threads of its own.
    ///
    /// # Errors
    /// The kernel has no resources for it.
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self(Arc::new(Inner(Some(runtime)))))
    }

    /// Runs a future to its end. The future must have timeouts of its own.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.0.0.as_ref().expect("present until drop");
        runtime.block_on(future)
    }
}

impl Drop for Inner {
    /// Does not wait for a pending name lookup: the resolver blocks a thread of its own, for longer
    /// than our timeout.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::Blocking;

    #[test]
    fn dropping_a_runtime_does_not_wait_for_a_name_lookup() {
        let timeout = Duration::from_secs(20);
        let runtime = Blocking::new().expect("a runtime");
        let (_never, answer) = mpsc::channel::<()>();
        // Name lookups run on such a thread, and may block for longer than our timeout.
        runtime.block_on(async {
            let (started, has_started) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _ = started.send(());
                answer.recv_timeout(timeout)
            });
            has_started.await.expect("it starts");
        });
        let started = Instant::now();
        drop(runtime);
        assert!(started.elapsed() < timeout);
    }
}

//! Threads of their own for what a test does beside its measurements: making and sending large objects takes a
//! while, and clients in the same thread would count it as time of the gateway.

use std::io;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::task::{LocalSet, spawn_blocking};

use anyhow::{Context as _, Result, anyhow};

/// Work in a thread of its own, until [`Self::stop`]. The work is told to stop too if this is dropped.
pub(super) struct Apart<T> {
    stop: Sender<()>,
    thread: JoinHandle<io::Result<T>>,
}

impl<T: Send + 'static> Apart<T> {
    /// Begins the work, which ends when its argument does: in a runtime of its own, in a `LocalSet`.
    pub(super) fn start<F: Future<Output = T>>(
        work: impl FnOnce(Receiver<()>) -> F + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            Ok(LocalSet::new().block_on(&runtime, work(stopped)))
        };
        let thread = thread::Builder::new().spawn(run);
        let thread = thread.context("cannot start a thread")?;
        Ok(Self { stop, thread })
    }

    /// Ends the work, and returns its result.
    pub(super) async fn stop(self) -> Result<T> {
        let Self { stop, thread } = self;
        drop(stop);
        let joined = spawn_blocking(move || thread.join()).await?;
        let ended = joined.map_err(|_| anyhow!("a thread of the test panicked"))?;
        ended.context("a thread of the test has no runtime")
    }
}

//! The controller as source of the configuration, over xDS.
//!
//! The way of a change: `link` connects and receives, `xds::delta::Client` collects the parts of a
//! batch and keeps the books, and `worker` has `apply` put the batch in force and answers it. What
//! cannot be carried out (`check`) is refused by name. `keeper` keeps what is in force (`last_good`) for
//! the next process, which may start while the controller is away; `state` is what others see.

mod backoff;
mod check;
mod keeper;
mod last_good;
mod link;
mod state;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thiserror::Error;
use tokio::sync::oneshot;
use xds::model::ObjectName;
use xds_grpc::client::Controller;

use self::worker::Worker;
use super::Published;
use super::apply::Binder;
use super::compile::CompileOptions;
use super::dns::Resolver;
use super::in_force::InForce;

pub use self::state::{Connection, ControllerState, TypeState};

/// What the source is told at the start.
#[derive(Debug, Clone)]
pub struct XdsConfig {
    /// The controller.
    pub controller: Controller,
    /// The Gateway that this proxy serves.
    pub gateway: ObjectName,
    /// The proxy's own name.
    pub proxy: String,
    /// The folder in which the last configuration is kept; nowhere without one.
    pub cache: Option<PathBuf>,
    /// How snapshots are compiled.
    pub compile: CompileOptions,
    /// Where others see what is in force.
    pub in_force: InForce,
    /// Where others see how the controller is.
    pub state: ControllerState,
}

/// Why the source cannot start.
#[derive(Debug, Error)]
#[error("the configuration thread could not start: {0}")]
pub struct StartError(#[from] io::Error);

/// The running configuration thread. It ends when this is dropped.
#[derive(Debug)]
pub struct XdsHandle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Puts the last configuration in force, if one was kept, then follows the controller on a thread of
/// its own. A controller that is away is waited for.
///
/// # Errors
/// The system has no thread or descriptor left.
pub fn start(
    config: XdsConfig,
    published: Published,
    binder: Binder,
) -> Result<XdsHandle, StartError> {
    let (stop, stopped) = oneshot::channel();
    let (restored, restoring) = mpsc::sync_channel(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = move || {
        runtime.block_on(async move {
            let mut worker = Worker::new(config, published, binder, Resolver::system());
            worker.restore().await;
            // Whoever started us waits for it, or is gone and stops us.
            let _ = restored.send(());
            tokio::select! {
                never = worker.run() => match never {},
                _ = stopped => {}
            }
            worker.finish().await;
        });
    };
    let thread = thread::Builder::new()
        .name("config".to_owned())
        .spawn(run)?;
    let handle = XdsHandle {
        stop: Some(stop),
        thread: Some(thread),
    };
    let panicked = |_| io::Error::other("it panicked; please report the message above");
    restoring.recv().map_err(panicked)?;
    Ok(handle)
}

impl Drop for XdsHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by its thread.
            let _ = thread.join();
        }
    }
}

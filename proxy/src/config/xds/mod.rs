//! The configuration from a controller, over xDS.
//!
//! The steps of a change: `link` connects and receives, `xds::delta::Client` collects the parts of
//! a batch and tracks versions, and `worker` has `apply` apply the batch and acknowledges it.
//! Resources that cannot be applied (`check`) are rejected by name, and those that had no room
//! (`shortage`) are requested again. `keeper` saves the current
//! configuration (`last_good`) for the next process, which may start while the controller is
//! unreachable; `state` is for the admin server. `symptoms` tells the controller what only this proxy sees.

mod backoff;
mod check;
mod keeper;
mod last_good;
mod link;
mod shortage;
mod state;
mod symptoms;
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
use super::session_keys::OwnSessionKeys;

pub use self::state::{Connection, ControllerState, TypeState};

/// Options of the xDS source.
#[derive(Debug, Clone)]
pub struct XdsConfig {
    /// Address of the controller, and the credentials to connect with.
    pub controller: Controller,
    /// The Gateway that this proxy serves.
    pub gateway: ObjectName,
    /// The proxy's own name.
    pub proxy: String,
    /// The folder for the saved configuration; `None` saves nothing.
    pub cache: Option<PathBuf>,
    /// How snapshots are compiled.
    pub compile: CompileOptions,
    /// The session keys until the controller gives some; those of files instead of the controller's.
    pub session_keys: OwnSessionKeys,
    /// Where the current configuration is published.
    pub in_force: InForce,
    /// Where the state of the connection is published.
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

/// Applies the saved configuration, if there is one, then follows the controller on a thread of its
/// own. An unreachable controller is retried.
///
/// # Errors
/// No thread or file descriptor is left.
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
            let mut worker =
                Worker::new(config, published, binder, Resolver::system().for_cluster());
            worker.restore().await;
            // The receiver waits for it, or has gone and stops this thread.
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
            // The thread has reported its panic.
            let _ = thread.join();
        }
    }
}

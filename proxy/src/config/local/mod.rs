//! Local mode: the configuration thread for files of Gateway API YAML.
//!
//! The steps of a change: `watch` notices it, `files` reads, `admit` keeps what is valid,
//! `translate` makes the model, and `apply` applies the difference. Each finding is logged once.

mod load;
mod report;
mod worker;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thiserror::Error;
use tokio::sync::oneshot;
use translate::files::UnknownFields;

use super::Published;
use super::apply::Binder;
use super::compile::CompileOptions;
use super::dns::Resolver;
use super::in_force::InForce;
use super::session_keys::OwnSessionKeys;
use worker::Worker;

/// Options of local mode.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// Files, and folders with `.yaml` and `.yml` files, to read.
    pub paths: Vec<PathBuf>,
    /// How objects with unknown fields are treated.
    pub unknown_fields: UnknownFields,
    /// Added to ports under 1024.
    pub port_offset: u16,
    /// Ports that no listener may use: the proxy's own.
    pub reserved_ports: BTreeSet<u16>,
    /// How snapshots are compiled.
    pub compile: CompileOptions,
    /// The session keys.
    pub session_keys: OwnSessionKeys,
    /// Where the current configuration is published.
    pub in_force: InForce,
}

/// Why local mode cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Nothing could be read.
    #[error(
        "no configuration could be read from {0}: name a file of Gateway API YAML, or a folder with .yaml, .yml or .json files in it"
    )]
    NothingRead(String),
    /// None of the listening sockets could be opened.
    #[error("no listener could be started: {0}")]
    NoListener(String),
    /// No thread or file descriptor is left.
    #[error("the configuration thread could not start: {0}")]
    Thread(#[from] io::Error),
}

/// The running configuration thread. It ends when this is dropped.
#[derive(Debug)]
pub struct LocalHandle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Loads and applies the configuration, then follows its changes on a thread of its own.
///
/// # Errors
/// No file can be read, or no bind succeeds. The valid parts of a configuration are
/// served.
pub fn start(
    config: LocalConfig,
    published: Published,
    binder: Binder,
) -> Result<LocalHandle, StartError> {
    start_with(config, published, binder, Resolver::system)
}

fn start_with(
    config: LocalConfig,
    published: Published,
    binder: Binder,
    resolver: impl FnOnce() -> Resolver + Send + 'static,
) -> Result<LocalHandle, StartError> {
    let (stop, stopped) = oneshot::channel();
    let (loaded, loading) = mpsc::sync_channel(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = move || {
        runtime.block_on(async move {
            let mut worker = Worker::new(config, published, binder, resolver());
            let result = worker.load_first().await;
            let is_loaded = result.is_ok();
            // The receiver waits for it, or has gone and stops this thread.
            let _ = loaded.send(result);
            if is_loaded {
                tokio::select! {
                    never = worker.run() => match never {},
                    _ = stopped => {}
                }
            }
        });
    };
    let thread = thread::Builder::new()
        .name("config".to_owned())
        .spawn(run)?;
    let handle = LocalHandle {
        stop: Some(stop),
        thread: Some(thread),
    };
    match loading.recv() {
        Ok(result) => result.map(|()| handle),
        Err(_) => Err(io::Error::other("it panicked; please report the message above").into()),
    }
}

impl Drop for LocalHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has reported its panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;

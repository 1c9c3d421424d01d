//! The servers: sockets, the admin thread, and HTTP/1.

mod bound;
mod connection;
mod connections;
mod guard;
mod write_timeout;

use std::io;
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::endpoint::{self, Context, Endpoint};
use crate::handles::Handles;
use crate::limits;
use crate::priority;

pub use bound::{BindError, BoundSockets, bind};

/// The listening sockets of each server; empty for one that is disabled.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Sockets of the admin server.
    pub admin: BoundSockets,
    /// Sockets of the metrics server.
    pub metrics: BoundSockets,
    /// Sockets of the server for probes.
    pub readiness: BoundSockets,
}

/// The running servers. Dropping it stops them.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// One of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Admin,
    Metrics,
    Readiness,
    /// The admin server of a process other than the proxy.
    Process,
    /// The server for probes of a process other than the proxy.
    Probes,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin | Self::Process => "admin",
            Self::Metrics => "metrics",
            Self::Readiness => "readiness",
            Self::Probes => "health",
        }
    }

    /// Timeout for a request head.
    fn head_timeout(self) -> Duration {
        match self {
            Self::Admin | Self::Process => limits::HEAD_TIMEOUT,
            Self::Metrics | Self::Readiness | Self::Probes => limits::PROBE_HEAD_TIMEOUT,
        }
    }

    /// The endpoint at a path.
    fn endpoint(self, path: &str) -> Option<&'static Endpoint> {
        let tables: &[&'static [Endpoint]] = match self {
            Self::Admin => &[endpoint::ADMIN, endpoint::PAGE],
            Self::Metrics => &[endpoint::METRICS],
            Self::Readiness => &[endpoint::READINESS],
            Self::Process => &[endpoint::PROCESS],
            Self::Probes => &[endpoint::PROBES],
        };
        let mut endpoints = tables.iter().copied().flatten();
        endpoints.find(|endpoint| endpoint.path == path)
    }
}

/// Starts the servers on a thread of their own. The admin server accepts IP addresses, `localhost` and
/// `hosts` as its `Host`.
///
/// # Errors
/// The thread or its runtime cannot be created.
pub fn start(sockets: Sockets, handles: Handles, hosts: Vec<String>) -> io::Result<Server> {
    let servers = vec![
        (Kind::Readiness, sockets.readiness),
        (Kind::Metrics, sockets.metrics),
        (Kind::Admin, sockets.admin),
    ];
    start_all(servers, handles, hosts)
}

/// Starts the servers of a process other than the proxy: the admin server with its log level, its memory
/// and CPU profiles; its metrics; and `/healthz` and `/readyz` for probes.
///
/// # Errors
/// The thread or its runtime cannot be created.
pub fn start_for_process(sockets: Sockets, handles: Handles) -> io::Result<Server> {
    let servers = vec![
        (Kind::Probes, sockets.readiness),
        (Kind::Metrics, sockets.metrics),
        (Kind::Process, sockets.admin),
    ];
    start_all(servers, handles, Vec::new())
}

fn start_all(
    servers: Vec<(Kind, BoundSockets)>,
    handles: Handles,
    hosts: Vec<String>,
) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let run = move || {
        priority::lower(limits::ADMIN_NICENESS);
        let local = LocalSet::new();
        let context = Rc::new(Context::new(handles, hosts));
        local.block_on(&runtime, async move {
            for (kind, bound) in servers {
                connection::listen(&context, kind, bound);
            }
            // Both a message and a dropped sender mean shutdown.
            let _ = stopped.await;
        });
    };
    let thread = thread::Builder::new().name("admin".to_owned()).spawn(run)?;
    Ok(Server {
        stop: Some(stop),
        thread: Some(thread),
    })
}

/// Whether the admin server allows a request with this target and these headers.
pub(crate) fn allows(uri: &http::Uri, headers: &http::HeaderMap) -> bool {
    guard::check(uri, headers, &[]).is_ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been logged already.
            let _ = thread.join();
        }
    }
}

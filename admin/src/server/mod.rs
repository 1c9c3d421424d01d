//! The servers: sockets, the admin thread, and HTTP/1 on it.

mod answer;
mod body;
mod bound;
mod connection;
mod guard;
mod made;
mod patience;
mod tasks;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;

use crate::background::Background;
use crate::endpoint::{self, Endpoint};
use crate::handles::Handles;
use crate::limits::{ADMIN_NICENESS, TRACES};
use crate::priority;

pub(crate) use answer::{Answer, ErrorForm, JSON, Refusal, TEXT};
pub(crate) use body::{Body, Piece};
pub use bound::{BindError, Bound, bind};
pub(crate) use made::{Encoding, made};
pub(crate) use tasks::Tasks;

/// The sockets of the servers.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Of the admin server.
    pub admin: Bound,
    /// Of the metrics.
    pub metrics: Bound,
    /// Of readiness.
    pub readiness: Bound,
}

/// The running servers. They end when this is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the endpoints of all servers share.
pub(crate) struct Shared {
    pub(crate) handles: Arc<Handles>,
    /// Hosts, beside addresses and `localhost`, by which the admin server may be addressed.
    pub(crate) hosts: Vec<String>,
    /// For the answers of the admin server.
    pub(crate) background: Background,
    /// For scrapes, which do not wait for dumps.
    pub(crate) scrapes: Background,
    /// What the admin thread is at.
    pub(crate) tasks: Tasks,
    /// Traces armed.
    pub(crate) traces: Arc<Semaphore>,
}

impl Shared {
    fn new(handles: Handles, hosts: Vec<String>) -> Self {
        Self {
            handles: Arc::new(handles),
            hosts,
            background: Background::default(),
            scrapes: Background::default(),
            tasks: Tasks::default(),
            traces: Arc::new(Semaphore::new(TRACES)),
        }
    }
}

/// Which of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Admin,
    Metrics,
    Readiness,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Metrics => "metrics",
            Self::Readiness => "readiness",
        }
    }

    /// What is at a path.
    fn endpoint(self, path: &str) -> Option<&'static Endpoint> {
        let tables: &[&'static [Endpoint]] = match self {
            Self::Admin => &[endpoint::ADMIN, endpoint::PAGE],
            Self::Metrics => &[endpoint::METRICS],
            Self::Readiness => &[endpoint::READINESS],
        };
        let mut endpoints = tables.iter().copied().flatten();
        endpoints.find(|endpoint| endpoint.path == path)
    }
}

/// Serves on these sockets, on a thread of its own. The admin server answers to addresses,
/// `localhost` and `hosts`.
///
/// # Errors
/// The system has no thread or descriptor left.
pub fn start(sockets: Sockets, handles: Handles, hosts: Vec<String>) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let run = move || {
        priority::lower(ADMIN_NICENESS);
        let local = LocalSet::new();
        let shared = Rc::new(Shared::new(handles, hosts));
        local.block_on(&runtime, async move {
            for (kind, bound) in [
                (Kind::Readiness, sockets.readiness),
                (Kind::Metrics, sockets.metrics),
                (Kind::Admin, sockets.admin),
            ] {
                connection::listen(&shared, kind, bound);
            }
            // An error means that the handle is gone: the same.
            let _ = stopped.await;
        });
    };
    let thread = thread::Builder::new().name("admin".to_owned()).spawn(run)?;
    Ok(Server {
        stop: Some(stop),
        thread: Some(thread),
    })
}

/// Whether the admin server lets in a request of this target and these headers.
pub(crate) fn lets_in(uri: &http::Uri, headers: &http::HeaderMap) -> bool {
    guard::check(uri, headers, &[]).is_ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by its thread.
            let _ = thread.join();
        }
    }
}

//! One HTTP/2 connection: how long it may be silent and how long it may live.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::admission::Stranger;
use super::budget::Budget;
use super::limits::{CALLS, CALLS_PER_SECOND, Limits};
use super::{Server, is_set, locked};

/// What the calls of a connection share.
pub(super) struct Connection {
    pub(super) server: Arc<Server>,
    pub(super) address: SocketAddr,
    /// How many calls are under way.
    calls: watch::Sender<usize>,
    /// Whether it is to end when its streams have finished what is under way.
    retiring: watch::Sender<bool>,
    /// Ends it at once.
    broken: Notify,
    stranger: Mutex<Option<Stranger>>,
    budget: Mutex<Budget>,
}

/// A call that is under way.
pub(super) struct Call(Arc<Connection>);

/// Why a connection was closed.
#[derive(Debug, Error)]
pub(super) enum Closed {
    #[error("HTTP/2 error: {0}")]
    Protocol(#[from] hyper::Error),
    #[error("no call within the timeout")]
    Idle,
    #[error("timeout: it neither read nor acknowledged responses")]
    Unresponsive,
}

/// Serves a connection until it ends.
pub(super) async fn run<I>(
    server: &Arc<Server>,
    io: I,
    address: SocketAddr,
    stranger: Stranger,
) -> Result<(), Closed>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &server.limits;
    let connection = Arc::new(Connection {
        server: Arc::clone(server),
        address,
        calls: watch::Sender::new(0),
        retiring: watch::Sender::new(false),
        broken: Notify::new(),
        stranger: Mutex::new(Some(stranger)),
        budget: Mutex::new(Budget::new(CALLS, CALLS_PER_SECOND, Instant::now())),
    });
    let shared = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let connection = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let mut http = pin!(builder(limits).serve_connection(TokioIo::new(io), service));
    tokio::select! {
        ended = &mut http => return Ok(ended?),
        () = connection.broken.notified() => return Err(Closed::Unresponsive),
        () = connection.is_idle() => return Err(Closed::Idle),
        () = connection.is_retiring() => {}
    }
    http.as_mut().graceful_shutdown();
    tokio::select! {
        ended = &mut http => Ok(ended?),
        () = connection.broken.notified() => Err(Closed::Unresponsive),
        () = sleep(limits.grace) => Err(Closed::Unresponsive),
    }
}

fn builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.keepalive_timeout)
        .max_concurrent_streams(limits.calls)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(limits.window_bytes)
        .initial_connection_window_size(limits.window_bytes);
    builder
}

impl Connection {
    /// Begins a call.
    pub(super) fn begin_call(self: &Arc<Self>) -> Call {
        self.calls
            .send_modify(|calls| *calls = calls.saturating_add(1));
        Call(Arc::clone(self))
    }

    /// Whether there may be another call by now.
    pub(super) fn may_call(&self) -> bool {
        locked(&self.budget).take(Instant::now())
    }

    /// Notes that the caller is known.
    pub(super) fn introduce(&self) {
        locked(&self.stranger).take();
    }

    /// Ends the connection when its streams have finished what is under way.
    pub(super) fn retire(&self) {
        self.retiring.send_replace(true);
    }

    /// Tells when the connection is to end.
    pub(super) fn follow_retirement(&self) -> watch::Receiver<bool> {
        self.retiring.subscribe()
    }

    /// Ends the connection at once.
    pub(super) fn break_off(&self) {
        self.broken.notify_one();
    }

    /// Ends when no call has been under way for too long.
    async fn is_idle(&self) {
        let mut calls = self.calls.subscribe();
        loop {
            let is_none = *calls.borrow_and_update() == 0;
            let changed = calls.changed();
            if !is_none {
                let _ = changed.await;
            } else if timeout(self.server.limits.idle, changed).await.is_err() {
                return;
            }
        }
    }

    /// Ends when it is time to retire: of age, told so, or with the server.
    async fn is_retiring(&self) {
        tokio::select! {
            () = sleep(age(&self.server.limits)) => {}
            () = is_set(self.follow_retirement()) => {}
            () = is_set(self.server.closing.subscribe()) => {}
        }
        self.retire();
    }
}

/// How long a connection lives.
fn age(limits: &Limits) -> Duration {
    let Limits {
        age, age_jitter, ..
    } = limits;
    let least = age.saturating_sub(*age_jitter);
    let most = age.saturating_add(*age_jitter);
    rand::random_range(least..=most)
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0
            .calls
            .send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

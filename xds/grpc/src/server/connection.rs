//! One HTTP/2 connection: its idle timeout and its maximum age.

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

use super::admission::UnauthenticatedSlot;
use super::budget::Budget;
use super::limits::{CALLS, CALLS_PER_SECOND, Limits};
use super::{Server, is_set, locked};

/// State shared by the calls of a connection.
pub(super) struct Connection {
    pub(super) server: Arc<Server>,
    pub(super) address: SocketAddr,
    /// Number of calls in progress.
    calls: watch::Sender<usize>,
    /// Whether to close the connection once its streams have finished their batches.
    retiring: watch::Sender<bool>,
    /// Closes the connection immediately.
    broken: Notify,
    slot: Mutex<Option<UnauthenticatedSlot>>,
    budget: Mutex<Budget>,
}

/// A call in progress.
pub(super) struct Call(Arc<Connection>);

/// Why a connection was closed.
#[derive(Debug, Error)]
pub(super) enum CloseReason {
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
    slot: UnauthenticatedSlot,
) -> Result<(), CloseReason>
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
        slot: Mutex::new(Some(slot)),
        budget: Mutex::new(Budget::new(CALLS, CALLS_PER_SECOND, Instant::now())),
    });
    let shared = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let connection = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(connection.respond(request).await) }
    });
    let mut http = pin!(builder(limits).serve_connection(TokioIo::new(io), service));
    tokio::select! {
        ended = &mut http => return Ok(ended?),
        () = connection.broken.notified() => return Err(CloseReason::Unresponsive),
        () = connection.is_idle() => return Err(CloseReason::Idle),
        () = connection.is_retiring() => {}
    }
    http.as_mut().graceful_shutdown();
    tokio::select! {
        ended = &mut http => Ok(ended?),
        () = connection.broken.notified() => Err(CloseReason::Unresponsive),
        () = sleep(limits.grace) => Err(CloseReason::Unresponsive),
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
    pub(super) fn begin_call(self: &Arc<Self>) -> Call {
        self.calls
            .send_modify(|calls| *calls = calls.saturating_add(1));
        Call(Arc::clone(self))
    }

    /// Whether the rate limit permits another call.
    pub(super) fn may_call(&self) -> bool {
        locked(&self.budget).take(Instant::now())
    }

    /// Marks the caller as authenticated.
    pub(super) fn set_authenticated(&self) {
        locked(&self.slot).take();
    }

    /// Closes the connection once its streams have finished their batches.
    pub(super) fn retire(&self) {
        self.retiring.send_replace(true);
    }

    /// Reports when the connection begins to close.
    pub(super) fn follow_retirement(&self) -> watch::Receiver<bool> {
        self.retiring.subscribe()
    }

    /// Closes the connection immediately.
    pub(super) fn close_now(&self) {
        self.broken.notify_one();
    }

    /// Completes when no call has been in progress for the idle timeout.
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

    async fn is_sent_away(&self) {
        let Server {
            sends_away, limits, ..
        } = &*self.server;
        is_sent_away(sends_away.subscribe(), limits.sent_away).await;
    }

    /// Completes when the connection should retire: at its maximum age, on request, or at shutdown.
    async fn is_retiring(&self) {
        tokio::select! {
            () = sleep(age(&self.server.limits)) => {}
            () = self.is_sent_away() => {}
            () = is_set(self.follow_retirement()) => {}
            () = is_set(self.server.closing.subscribe()) => {}
        }
        self.retire();
    }
}

/// Completes at a random moment, at most `longest` after proxies are sent away, unless that ends before.
async fn is_sent_away(mut sends_away: watch::Receiver<bool>, longest: Duration) {
    loop {
        is_set(sends_away.clone()).await;
        let wait = rand::random_range(Duration::ZERO..=longest);
        tokio::select! {
            () = sleep(wait) => return,
            _ = sends_away.wait_for(|it| !*it) => {}
        }
    }
}

/// The maximum age of a connection, with jitter.
fn age(limits: &Limits) -> Duration {
    let Limits {
        age, age_jitter, ..
    } = limits;
    let least = age.saturating_sub(*age_jitter);
    let max = age.saturating_add(*age_jitter);
    rand::random_range(least..=max)
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0
            .calls
            .send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// As by a replica that hears the API server again: proxies that have not left by then stay.
    #[tokio::test(start_paused = true)]
    async fn a_connection_stays_if_it_is_sent_away_no_longer() {
        let longest = Duration::from_hours(1);
        let (sends_away, receiver) = watch::channel(false);
        let mut leaves = pin!(is_sent_away(receiver, longest));
        let mut poll = || {
            let context = &mut Context::from_waker(Waker::noop());
            leaves.as_mut().poll(context)
        };
        for _ in 0..3 {
            sends_away.send_replace(true);
            assert!(poll().is_pending(), "the moment is not now");
            sends_away.send_replace(false);
            assert!(poll().is_pending());
            tokio::time::advance(longest).await;
            assert!(poll().is_pending(), "it is called back");
        }
        sends_away.send_replace(true);
        assert!(poll().is_pending());
        tokio::time::advance(longest).await;
        assert!(poll().is_ready());
    }
}

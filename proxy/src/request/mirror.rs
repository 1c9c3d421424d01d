//! Copies of requests, sent elsewhere; nobody waits for their answers.
//!
//! A mirror has a task of its own, so it never delays its request. What it has not sent yet of the
//! body is bounded; a mirror that falls further behind is given up.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rand::RngExt;

use crate::config::{Cluster, ClusterIndex};
use crate::http::h1::encode;
use crate::http::head::Framing;
use crate::limits::{LINGER_TIMEOUT, MIRROR_BYTES};
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::shard::fence::fenced;
use crate::upstream::connect::connect;
use crate::upstream::pool::Connection;

use super::{Drawn, Exchange, Matched};

/// The request's end of a mirror.
pub(crate) struct Feed {
    shared: Rc<Shared>,
    chunked: bool,
}

#[derive(Default)]
struct Shared {
    /// What was not sent yet.
    pending: RefCell<Vec<u8>>,
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// More of the request may come.
    #[default]
    Open,
    /// It is complete.
    Complete,
    /// It will never be.
    GivenUp,
}

impl Feed {
    /// The next payload bytes.
    pub(crate) fn more(&mut self, payload: &[u8]) {
        if payload.is_empty() || self.shared.state.get() != State::Open {
            return;
        }
        let mut pending = self.shared.pending.borrow_mut();
        if pending.len() + payload.len() > MIRROR_BYTES + HEAD_BYTES {
            drop(pending);
            return self.end_as(State::GivenUp);
        }
        if self.chunked {
            encode::chunk_head(&mut pending, payload.len());
        }
        pending.extend_from_slice(payload);
        if self.chunked {
            pending.extend_from_slice(encode::CHUNK_END);
        }
        drop(pending);
        self.shared.wake();
    }

    /// The whole body.
    pub(crate) fn all(&mut self, payload: &[u8]) {
        self.more(payload);
        self.end();
    }

    /// The body's end.
    pub(crate) fn end(&mut self) {
        if self.chunked {
            encode::last_chunk(&mut self.shared.pending.borrow_mut(), b"");
        }
        self.end_as(State::Complete);
    }

    fn end_as(&self, state: State) {
        if self.shared.state.get() == State::Open {
            self.shared.state.set(state);
        }
        self.shared.wake();
    }
}

impl Drop for Feed {
    /// A request that breaks off takes its mirrors with it.
    fn drop(&mut self) {
        self.end_as(State::GivenUp);
    }
}

/// A mirror buffers a request's head beside its body.
const HEAD_BYTES: usize = crate::limits::MAX_HEAD_BYTES as usize;

impl<'a> Exchange<'a> {
    /// Starts the mirrors that the request's coins choose.
    pub(super) fn mirror(&mut self, matched: &Matched<'a>, drawn: Drawn<'a>) {
        let Some(policy) = drawn.backend.policy.as_deref() else {
            return;
        };
        for (mirror, target) in policy.mirrors.iter().zip(&drawn.backend.mirrors) {
            let coin = self.shard.with_rng(RngExt::random);
            if let (true, Ok(index)) = (mirror.coin.lands(coin), target) {
                self.start_mirror(*index, matched, drawn);
            }
        }
    }

    fn start_mirror(&mut self, index: ClusterIndex, matched: &Matched<'a>, drawn: Drawn<'a>) {
        // The connection ends with the answer, so that it does not wait for another request.
        let lines = self.work.request_lines.len();
        let close = b"Connection: close\r\n";
        self.work.request_lines.extend_from_slice(close);
        self.encode_head(drawn);
        self.work.request_lines.truncate(lines);
        let copy = Rc::new(Shared::default());
        copy.pending
            .borrow_mut()
            .extend_from_slice(&self.work.to_upstream);
        let chunked = self.received.head.framing == Framing::Chunked;
        self.mirrors.push(Feed {
            shared: Rc::clone(&copy),
            chunked,
        });
        let (shard, config) = (Rc::clone(self.shard), self.shard.config.load());
        let limits = matched.rule.limits;
        monoio::spawn(fenced(Rc::clone(&shard), async move {
            let cluster = config.cluster(index);
            let Some(connection) = reach(&shard, cluster, limits.connect_timeout).await else {
                return;
            };
            if copy
                .send(&connection, limits.write_idle_timeout)
                .await
                .is_some()
            {
                let patience = limits.response_head_timeout.unwrap_or(LINGER_TIMEOUT);
                connection.deadline.arm(Some(patience), Expiry::Disconnect);
                discard_answer(&shard, &connection).await;
            }
        }));
    }
}

async fn reach(
    shard: &Rc<Shard>,
    cluster: &Cluster,
    timeout: Option<Duration>,
) -> Option<Connection> {
    let now = Instant::now();
    let id = shard.with_rng(|rng| shard.endpoints.choose(&cluster.set, &[], now, rng))?;
    connect(shard, cluster, cluster.endpoint(id)?, timeout)
        .await
        .ok()
}

/// Reads until the backend closes or has said enough: closing at once would make it see a broken
/// request where there was none.
async fn discard_answer(shard: &Rc<Shard>, connection: &Connection) {
    let mut buffer = shard.buffers.take();
    while matches!(connection.stream.read(&mut buffer).await, Ok(1..)) {
        buffer.clear();
        connection
            .deadline
            .arm(Some(LINGER_TIMEOUT), Expiry::Disconnect);
    }
    shard.buffers.put(buffer);
}

impl Shared {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Sends the request as it comes; `None` where that broke off.
    async fn send(&self, connection: &Connection, timeout: Option<Duration>) -> Option<()> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            self.next(&mut bytes).await;
            if self.state.get() == State::GivenUp {
                return None;
            }
            if bytes.is_empty() {
                return Some(());
            }
            connection.deadline.arm(timeout, Expiry::Disconnect);
            connection.stream.write_vec(&mut bytes).await.ok()?;
            connection.deadline.disarm();
        }
    }

    /// Waits for bytes; without any, the request is at its end.
    async fn next(&self, bytes: &mut Vec<u8>) {
        poll_fn(|context| {
            std::mem::swap(bytes, &mut self.pending.borrow_mut());
            if !bytes.is_empty() || self.state.get() != State::Open {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

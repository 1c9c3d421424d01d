//! Copies of requests, sent elsewhere; nobody waits for their answers.
//!
//! A mirror has a task of its own, so it never delays its request. What it has not sent yet of the
//! body is bounded; a mirror that falls further behind is given up.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use http::Request;
use rand::RngExt;

use crate::channel::Channel;
use crate::config::{Cluster, ClusterIndex, Protection, Protocol};
use crate::http::h1::body::BodyDecoder;
use crate::http::h1::encode::{self, Persist};
use crate::http::h1::{Asked, HeadLimits, HeadScan, Progress, parse_response};
use crate::http::h2::encode::Switch;
use crate::http::h2::stream::{self as h2, Head};
use crate::http::head::{Framing, ResponseHead};
use crate::limits::{LINGER_TIMEOUT, Limits, MIRROR_ANSWER_BYTES, MIRROR_BYTES};
use crate::net::Buffer;
use crate::policy::proxy_protocol::Endpoints;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::shard::fence::fenced;
use crate::shard::tasks::Purpose;
use crate::upstream::connect::open;
use crate::upstream::pool::Connection;
use crate::upstream::retry::Replay;

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

/// The head of a copy.
enum CopyHead {
    /// It comes before the body's bytes, over a socket.
    AmongBytes,
    /// It goes by itself, over a stream.
    Apart(Box<Request<()>>),
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
        let copy = Rc::new(Shared::default());
        let target = self.snapshot.cluster(index);
        let protocol = matched.rule.protocol_to(target);
        let Some(head) = self.copy_head((protocol, &target.protection), drawn, &copy) else {
            return;
        };
        let framed = matches!(head, CopyHead::AmongBytes);
        self.mirrors.push(Feed {
            shared: Rc::clone(&copy),
            chunked: framed && self.received.head.framing == Framing::Chunked,
        });
        let (shard, config) = (Rc::clone(self.shard), self.shard.config.load());
        let (limits, asked) = (matched.rule.limits, self.received.asked());
        let wanted = (protocol, self.client.proxied_to(config.cluster(index)));
        monoio::spawn(fenced(&Rc::clone(&shard), Purpose::Mirror, async move {
            let cluster = config.cluster(index);
            // Boxed, so that requests without mirrors do not carry their room.
            Box::pin(carry(
                &shard,
                cluster,
                wanted,
                (head, &copy),
                &limits,
                asked,
            ))
            .await;
        }));
    }

    /// Writes the head of a copy. `None` where what the target speaks cannot carry it.
    fn copy_head(
        &mut self,
        (protocol, over): (Protocol, &Protection),
        drawn: Drawn<'a>,
        copy: &Shared,
    ) -> Option<CopyHead> {
        if protocol == Protocol::Http2 {
            let head = self.make_head(drawn, over, Switch::Ignored).ok()?;
            return Some(CopyHead::Apart(Box::new(head)));
        }
        self.encode_head(drawn);
        let mut pending = copy.pending.borrow_mut();
        pending.extend_from_slice(&self.work.to_upstream);
        Some(CopyHead::AmongBytes)
    }
}

/// Sends a copy and reads its answer; `None` where that broke off.
async fn carry(
    shard: &Rc<Shard>,
    cluster: &Cluster,
    (protocol, proxied): (Protocol, Option<Box<Endpoints>>),
    (head, copy): (CopyHead, &Shared),
    limits: &Limits,
    asked: Asked,
) -> Option<()> {
    let now = Instant::now();
    let id = shard.with_rng(|rng| shard.endpoints.choose(&cluster.set, &[], now, rng))?;
    let endpoint = cluster.endpoint(id)?;
    let client = proxied.as_deref();
    let pooled = match protocol {
        Protocol::Http1 => shard.pool.take(id, client, Replay::Impossible, now),
        Protocol::Http2 => None,
    };
    let connection = if let Some(connection) = pooled {
        connection
    } else {
        let wanted = (protocol, proxied);
        let opened = open(shard, cluster, endpoint, wanted, limits.connect_timeout);
        opened.await.ok()?
    };
    match (connection.stream.as_h2(), head) {
        (Some(stream), CopyHead::Apart(head)) => stream.put_request(*head),
        (None, CopyHead::AmongBytes) => {}
        // A stream gets a head of its own, a socket gets bytes.
        _ => return None,
    }
    copy.send(&connection, limits.write_idle_timeout).await?;
    let patience = limits.response_head_timeout.unwrap_or(LINGER_TIMEOUT);
    connection.deadline.arm(Some(patience), Expiry::Disconnect);
    let mut answer = Answer {
        connection: &connection,
        buffer: shard.buffers.take(),
        left: MIRROR_ANSWER_BYTES,
    };
    let ended = match connection.stream.as_h2() {
        Some(stream) => answer.discard_stream(stream).await,
        None => answer.discard(asked, &limits.response_head()).await,
    };
    let exact = answer.buffer.is_empty();
    shard.buffers.put(answer.buffer);
    if ended? == Persist::Keep && exact && !shard.draining.get() {
        shard.pool.put(id, connection, None, shard);
    }
    Some(())
}

/// An answer that nobody wants. It is read to its end all the same: its connection can be used
/// again, and closing at once would make the backend see a broken request where there was none.
struct Answer<'a> {
    connection: &'a Connection,
    buffer: Buffer,
    /// Bytes that are still read.
    left: usize,
}

impl Answer<'_> {
    /// As [`Answer::discard`], of a stream, whose connection lives on in any case.
    async fn discard_stream(&mut self, stream: &h2::Stream) -> Option<Persist> {
        while let Head::Interim(_) = stream.next_head().await.ok()? {}
        while self.more().await.is_some() {
            self.buffer.clear();
        }
        Some(Persist::Close)
    }

    /// Whether the connection may live on after it; `None` where it does not come to its end.
    async fn discard(&mut self, asked: Asked, limits: &HeadLimits) -> Option<Persist> {
        let head = self.head(asked, limits).await?;
        let mut body = BodyDecoder::new(head.framing);
        loop {
            let decoded = body.decode(self.buffer.filled_mut()).ok()?;
            self.buffer.consume(decoded.consumed);
            if decoded.done {
                break;
            }
            self.more().await?;
        }
        let keeps = head.keep_alive && head.status != 101;
        Some(if keeps { Persist::Keep } else { Persist::Close })
    }

    async fn head(&mut self, asked: Asked, limits: &HeadLimits) -> Option<ResponseHead> {
        let (mut scan, mut head) = (HeadScan::default(), ResponseHead::default());
        loop {
            let bytes = self.buffer.filled();
            match parse_response(bytes, asked, limits, &mut scan, &mut head).ok()? {
                Progress::Complete { len } => {
                    self.buffer.consume(len);
                    if !head.is_interim() {
                        return Some(head);
                    }
                }
                Progress::Partial => self.more().await?,
            }
        }
    }

    async fn more(&mut self) -> Option<()> {
        self.buffer.make_room();
        let read = self.connection.stream.read(&mut self.buffer).await.ok()?;
        self.left = self.left.checked_sub(read)?;
        let patience = Some(LINGER_TIMEOUT);
        self.connection.deadline.arm(patience, Expiry::Disconnect);
        (read > 0).then_some(())
    }
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
            let ends = bytes.is_empty();
            connection.deadline.arm(timeout, Expiry::Disconnect);
            match &connection.stream {
                Channel::Socket(_) if ends => {}
                Channel::Socket(socket) => socket.write_vec(&mut bytes).await.ok()?,
                Channel::H2(stream) => {
                    let end = ends.then_some(b"".as_slice());
                    stream.send(&bytes, end).await.ok()?;
                }
            }
            connection.deadline.disarm();
            if ends {
                return Some(());
            }
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

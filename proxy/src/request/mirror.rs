//! Mirrored requests, whose responses are ignored.
//!
//! A mirror has its own task, so it never delays its request. Its queue is bounded; a mirror that
//! falls behind is dropped.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::RngExt;

use crate::channel::Channel;
use crate::config::{Cluster, ClusterIndex, Protection, Protocol};
use crate::exchange::choice::choose;
use crate::exchange::feed::{Feed, MirrorQueue};
use crate::exchange::{Destination, Exchange, Matched};
use crate::http::engine::HeldHead;
use crate::http::engine::encode::Switch;
use crate::http::h1::body::BodyDecoder;
use crate::http::h1::encode::Persist;
use crate::http::h1::{HeadLimits, HeadScan, Progress, RequestKind, parse_response};
use crate::http::head::{Framing, ResponseHead};
use crate::http2 as h2;
use crate::limits::{LINGER_TIMEOUT, Limits, MIRROR_BYTES, MIRROR_RESPONSE_BYTES};
use crate::memory::{Buffer, Kept};
use crate::policy::hash_key::RequestKey;
use crate::policy::mutation::without;
use crate::policy::proxy_protocol::Endpoints;
use crate::shard::deadline::Expiry;
use crate::shard::fence::fenced;
use crate::shard::tasks::Purpose;
use crate::upstream::Upstreams;
use crate::upstream::connect::{ConnectTime, ConnectionRequirements, open};
use crate::upstream::picker::DESTINATION;
use crate::upstream::pool::Connection;

/// The head of a mirrored request.
enum CopyHead {
    /// Sent before the body, over a socket.
    InBuffer,
    /// Sent separately, over a stream.
    Separate(HeldHead),
}

impl<'a> Exchange<'a> {
    /// Starts the mirrors of the chosen destination.
    pub(super) fn mirror(&mut self, matched: &Matched<'a>, destination: Destination<'a>) {
        let Some(policy) = destination.backend.policy.as_deref() else {
            return;
        };
        for (mirror, target) in policy.mirrors.iter().zip(destination.backend.mirrors()) {
            let random = self.shard.with_rng(RngExt::random);
            if let (true, Ok(index)) = (mirror.rate.samples(random), target) {
                self.start_mirror(*index, matched, destination);
            }
        }
    }

    fn start_mirror(
        &mut self,
        index: ClusterIndex,
        matched: &Matched<'a>,
        destination: Destination<'a>,
    ) {
        let copy = Rc::new(MirrorQueue::new(self.shard));
        let Some(rule) = self.holds.rule.get() else {
            return;
        };
        let target = rule.cluster(index);
        let protocol = matched.rule.protocol_to(target);
        let own = self.hide_picked_endpoints();
        let head = self.copy_head((protocol, &target.protection), destination, &copy);
        if let Some(lines) = own {
            self.work.request_lines = lines;
        }
        let framed = matches!(head, CopyHead::InBuffer);
        let chunked = framed && self.framing() == Framing::Chunked;
        self.mirrors.push(Feed::new(&copy, chunked));
        let (proxy, rule) = (Rc::clone(self.proxy), Rc::clone(rule));
        let (limits, request_kind) = (*matched.rule.limits, self.received.request_kind());
        let persist = if self.received.has_undefined_content() {
            Persist::Close
        } else {
            Persist::Keep
        };
        let requirements = (protocol, self.client.proxied_to(target));
        let hashed = target.hashed.as_deref();
        let key = hashed.and_then(|hashed| self.hash_key(&hashed.keys, matched));
        let key = key.map(|(key, _)| key);
        monoio::spawn(fenced(self.shard, Purpose::Mirror, async move {
            let cluster = rule.cluster(index);
            // Boxed, so that requests without mirrors do not reserve the space.
            Box::pin(carry(
                &proxy.upstreams,
                (cluster, key),
                requirements,
                (head, &copy),
                &limits,
                (request_kind, persist),
            ))
            .await;
        }));
    }

    /// Removes the line that names the picked endpoints, which are not the mirror's, and returns all
    /// lines; `None` if there is no picker.
    fn hide_picked_endpoints(&mut self) -> Option<Vec<u8>> {
        self.picked.as_ref()?;
        let is_theirs = |name: &[u8]| name.eq_ignore_ascii_case(DESTINATION.as_bytes());
        let rest = without(&self.work.request_lines, is_theirs);
        Some(std::mem::replace(&mut self.work.request_lines, rest))
    }

    /// Writes the head of a mirrored request.
    fn copy_head(
        &mut self,
        (protocol, over): (Protocol, &Protection),
        destination: Destination<'a>,
        copy: &MirrorQueue,
    ) -> CopyHead {
        if protocol == Protocol::Http2 {
            let mut head = HeldHead::default();
            self.make_head(destination, over, Switch::Ignored, &mut head);
            return CopyHead::Separate(head);
        }
        self.encode_head(destination);
        copy.begin(&self.work.to_upstream);
        CopyHead::InBuffer
    }
}

/// Sends a mirrored request and reads its response; `None` if that failed.
async fn carry(
    upstreams: &Upstreams,
    (cluster, key): (&Cluster, Option<RequestKey>),
    (protocol, proxied): (Protocol, Option<Box<Endpoints>>),
    (head, copy): (CopyHead, &MirrorQueue),
    limits: &Limits,
    (request_kind, persist): (RequestKind, Persist),
) -> Option<()> {
    let (shard, now) = (&upstreams.shard, Instant::now());
    let (endpoint, _endpoint_use) =
        choose(upstreams, cluster, None, key, &mut Vec::new(), None, now).ok()?;
    let client = proxied.as_deref();
    let pooled = match protocol {
        Protocol::Http1 => upstreams.pool.take(endpoint.id, client),
        Protocol::Http2 => None,
    };
    let connection = if let Some(connection) = pooled {
        connection
    } else {
        let requirements = ConnectionRequirements {
            proxied,
            ..ConnectionRequirements::default()
        };
        let requirements = (protocol, requirements);
        let time = ConnectTime {
            each: limits.connect_timeout,
            until: None,
        };
        let opened = open(upstreams, cluster, endpoint, requirements, time);
        opened.await.ok()?
    };
    match (connection.stream.as_h2(), head) {
        (Some(stream), CopyHead::Separate(head)) => stream.put_request(request_kind, |held| {
            *held = head;
            Switch::Ignored
        }),
        (None, CopyHead::InBuffer) => {}
        // A stream takes a head, a socket takes bytes.
        _ => return None,
    }
    let bytes = Kept::new(&shard.buffers);
    send(copy, bytes, &connection, limits.write_idle_timeout).await?;
    let timeout = limits.response_head_timeout.unwrap_or(LINGER_TIMEOUT);
    connection.deadline.arm(Some(timeout), Expiry::Disconnect);
    let mut response = DiscardedResponse {
        connection: &connection,
        buffer: shard.buffers.take(),
        left: MIRROR_RESPONSE_BYTES,
    };
    let ended = match connection.stream.as_h2() {
        Some(stream) => response.discard_stream(stream).await,
        None => {
            response
                .discard(request_kind, &HeadLimits::of_response(limits))
                .await
        }
    };
    let exact = response.buffer.is_empty();
    shard.buffers.put(response.buffer);
    let keeps = ended? == Persist::Keep && persist == Persist::Keep;
    if keeps && exact && !shard.draining.get() {
        upstreams.pool.put(endpoint.id, connection, shard);
    }
    Some(())
}

/// A response that is discarded. It is still read to its end: its connection can be reused, and
/// closing early would look like a client error to the backend.
struct DiscardedResponse<'a> {
    connection: &'a Connection,
    buffer: Buffer,
    /// Bytes that are still read.
    left: usize,
}

impl DiscardedResponse<'_> {
    /// Like [`DiscardedResponse::discard`], for an HTTP/2 stream; its connection stays usable in
    /// any case.
    async fn discard_stream(&mut self, stream: &h2::Stream) -> Option<Persist> {
        while stream.next_head().await.ok()?.head.is_interim() {}
        while self.more().await.is_some() {
            self.buffer.clear();
        }
        Some(Persist::Close)
    }

    /// Whether the connection can be reused; `None` if the response did not end.
    async fn discard(&mut self, request_kind: RequestKind, limits: &HeadLimits) -> Option<Persist> {
        let head = self.head(request_kind, limits).await?;
        let mut body = BodyDecoder::of_response(head.framing);
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

    async fn head(
        &mut self,
        request_kind: RequestKind,
        limits: &HeadLimits,
    ) -> Option<ResponseHead> {
        let (mut scan, mut head) = (HeadScan::default(), ResponseHead::default());
        loop {
            let bytes = self.buffer.filled();
            match parse_response(bytes, request_kind, limits, &mut scan, &mut head).ok()? {
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
        let timeout = Some(LINGER_TIMEOUT);
        self.connection.deadline.arm(timeout, Expiry::Disconnect);
        (read > 0).then_some(())
    }
}

/// Sends the request as it is received; `None` if that failed.
async fn send(
    copied: &MirrorQueue,
    mut bytes: Kept,
    connection: &Connection,
    timeout: Option<Duration>,
) -> Option<()> {
    loop {
        bytes.clear(MIRROR_BYTES);
        copied.next(&mut bytes).await;
        if copied.is_aborted() {
            return None;
        }
        let ends = bytes.is_empty();
        connection.deadline.arm_write(timeout, None);
        match &connection.stream {
            Channel::Socket(_) if ends => {}
            Channel::Socket(socket) => socket.write_vec(bytes.lend()).await.ok()?,
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

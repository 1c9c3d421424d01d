//! Transfers the request body to the backend.

use std::cell::RefCell;

use crate::channel::Channel;
use crate::channel::relay::{OutgoingFraming, Relay, RelayError, Segment, Tap, Transferred};
use crate::config::{Cluster, Protocol, Rule};
use crate::exchange::Exchange;
use crate::exchange::feed::Feed;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::limits::{BUFFER_BYTES, SMALL_BUFFER_BYTES};
use crate::memory::{Buffer, Kept};
use crate::shard::Shard;
use crate::upstream::retry::Replay;

/// The parts of an exchange that its request body uses; the response uses the others.
pub(crate) struct RequestSide<'e> {
    /// Bytes read from the client.
    pub(crate) buffer: &'e mut Buffer,
    pub(crate) decoder: &'e mut BodyDecoder,
    /// Initially, the request head to send.
    pub(crate) out: &'e mut Vec<u8>,
}

/// A request body, over all attempts.
pub(crate) struct Upload {
    /// Decoded at the front of the client's buffer, and not sent yet.
    first: Decoded,
    /// The framing that the last attempt wrote into the buffer.
    sent: Segment,
    /// Whether the complete body was in the buffer from the start; most requests have none.
    pub(crate) whole: bool,
    pub(crate) outward: OutgoingFraming,
    pub(crate) moved: Transferred,
    /// Between attempts; during one, it belongs to the [`ReplayState`].
    kept: ReplayCopy,
    mirrors: Vec<Feed>,
    /// Whether 100 Continue was sent, or was not needed.
    continue_sent: bool,
}

/// The copy of a streamed body, to send it again: for retries, and for HTTP/2, where an endpoint may say
/// that it has not processed the request (RFC 9113 section 8.7).
enum ReplayCopy {
    /// None, since neither applies; nothing was sent yet.
    NotStarted,
    /// Everything sent so far, at most a buffer.
    SoFar(Kept),
    /// The whole body, which was received before.
    Whole(Buffer),
    /// The same, while it is sent.
    InUse,
    /// Incomplete, since more was sent than may be kept; or not needed any more.
    Lost,
}

impl ReplayCopy {
    /// Whether the request can be sent again.
    fn replay(&self) -> Replay {
        match self {
            Self::Lost => Replay::Impossible,
            Self::NotStarted | Self::SoFar(_) | Self::Whole(_) | Self::InUse => Replay::Possible,
        }
    }
}

impl Upload {
    /// Examines the part of the body that has arrived.
    ///
    /// # Errors
    ///
    /// Its framing is malformed.
    pub(crate) fn begin(
        exchange: &mut Exchange<'_>,
        rule: &Rule,
        cluster: &Cluster,
    ) -> Result<Self, Failure> {
        let picked = exchange.picked.as_mut();
        if let Some(body) = picked.and_then(|picked| picked.take_body()) {
            return Ok(Self::of_kept(exchange, body));
        }
        if let Some(body) = exchange
            .server_decision
            .as_mut()
            .and_then(|it| it.body.take())
        {
            let body = exchange.shard.buffers.holding(&body);
            return Ok(Self::of_kept(exchange, body));
        }
        if let Some(body) = Self::take_whole(exchange, rule.protocol_to(cluster))? {
            return Ok(Self::of_kept(exchange, body));
        }
        let decoder = &mut exchange.work.request_body;
        let first = decoder
            .decode(exchange.buffer.filled_mut())
            .map_err(|error| Failure::because(FailureKind::MalformedBody, error.reason()))?;
        let whole = first.done;
        let came_at_once = !first.payload.is_empty();
        let has_retries = rule.retry.as_ref().is_some_and(|retry| retry.attempts > 0);
        let kept = if !whole && (has_retries || rule.protocol_to(cluster) == Protocol::Http2) {
            ReplayCopy::SoFar(Kept::new(&exchange.shard.buffers))
        } else {
            ReplayCopy::NotStarted
        };
        let outward = OutgoingFraming::of(exchange.received.head.framing);
        Ok(Self {
            first,
            sent: Segment::default(),
            whole,
            outward,
            moved: Transferred::default(),
            kept,
            mirrors: std::mem::take(&mut exchange.mirrors),
            continue_sent: came_at_once,
        })
    }

    /// Reads what has arrived of a stream's body, and takes it if that is all: no more is to be read, and the
    /// copy for another attempt is the body itself.
    fn take_whole(
        exchange: &mut Exchange<'_>,
        protocol: Protocol,
    ) -> Result<Option<Buffer>, Failure> {
        let (stream, decoder) = (&exchange.client.stream, &mut exchange.work.request_body);
        if decoder.is_done() || stream.read_now(exchange.buffer, false).is_none() {
            return Ok(None);
        }
        let has_ended = stream.end_body(decoder);
        let has_ended = has_ended
            .map_err(|error| Failure::because(FailureKind::MalformedBody, error.reason()))?;
        Ok(has_ended.then(|| {
            let (buffers, bytes) = (&exchange.shard.buffers, exchange.buffer.filled());
            if bytes.len() >= SMALL_BUFFER_BYTES / 4 {
                return std::mem::replace(exchange.buffer, buffers.without_memory());
            }
            // It is kept until the response arrives, which may take long. A stream takes it as it is; in
            // front of it goes the head that is sent on a socket.
            let body = match protocol {
                Protocol::Http1 => buffers.holding(bytes),
                Protocol::Http2 => buffers.holding_only(bytes),
            };
            exchange.buffer.clear();
            exchange.buffer.release();
            body
        }))
    }

    /// A body that was received completely before.
    fn of_kept(exchange: &mut Exchange<'_>, body: Buffer) -> Self {
        for mut mirror in std::mem::take(&mut exchange.mirrors) {
            mirror.all(body.filled());
        }
        Self {
            first: Decoded::default(),
            sent: Segment::default(),
            // It is not in the client's buffer.
            whole: false,
            outward: OutgoingFraming::of(exchange.framing()),
            moved: Transferred::default(),
            kept: ReplayCopy::Whole(body),
            mirrors: Vec::new(),
            continue_sent: true,
        }
    }

    /// Whether the client may be waiting for 100 Continue; true only once.
    pub(crate) fn is_waited_for(&mut self) -> bool {
        !std::mem::replace(&mut self.continue_sent, true)
    }

    /// Whether a complete body may have to wait until the endpoint gives room for it, which one that
    /// responds early may never do. A socket takes as much as a buffer holds.
    pub(crate) fn may_wait_for_room(&self, endpoint: &Channel) -> bool {
        matches!(endpoint, Channel::H2(_)) && !self.first.payload.is_empty()
    }

    /// Whether the request can be sent again.
    pub(crate) fn replay(&self) -> Replay {
        self.kept.replay()
    }

    /// Lends the copy to an attempt, which gives it [back](Self::end_attempt).
    pub(crate) fn begin_attempt(&mut self) -> ReplayState {
        ReplayState(RefCell::new(std::mem::replace(
            &mut self.kept,
            ReplayCopy::Lost,
        )))
    }

    /// Takes the copy back, if there still is one.
    pub(crate) fn end_attempt(&mut self, replays: ReplayState) {
        self.kept = replays.0.into_inner();
    }

    /// Sends head and body: a complete body at once, any other while it is received.
    pub(crate) async fn send(
        &mut self,
        relay: &Relay<'_>,
        request: &mut RequestSide<'_>,
        replays: &ReplayState,
    ) -> Result<(), RelayError> {
        if self.whole {
            self.send_whole(relay, request).await
        } else {
            self.stream_body(relay, request, replays).await
        }
    }

    /// Sends head and body, if the body is complete. It is kept for retries.
    pub(crate) async fn send_whole(
        &mut self,
        relay: &Relay<'_>,
        request: &mut RequestSide<'_>,
    ) -> Result<(), RelayError> {
        let RequestSide {
            buffer,
            decoder,
            out,
        } = request;
        debug_assert!(self.whole, "the rest of the body would be left out");
        // Drops the framing written by an earlier attempt.
        buffer.consume(self.sent.front);
        self.moved = Transferred::default();
        let payload = buffer
            .filled()
            .get(self.first.payload.clone())
            .unwrap_or_default();
        self.mirrors
            .drain(..)
            .for_each(|mut feed| feed.all(payload));
        let first = std::mem::take(&mut self.first);
        let (segment, sent) = relay
            .send(out, buffer, decoder, first, &mut self.moved)
            .await;
        self.first = Decoded {
            payload: 0..segment.payload,
            consumed: segment.consumed - segment.front,
            done: true,
        };
        self.sent = segment;
        sent
    }

    /// Sends head and body while the body is received.
    async fn stream_body(
        &mut self,
        relay: &Relay<'_>,
        request: &mut RequestSide<'_>,
        replays: &ReplayState,
    ) -> Result<(), RelayError> {
        let RequestSide {
            buffer,
            decoder,
            out,
        } = request;
        let mut first = std::mem::take(&mut self.first);
        first.done = decoder.is_done();
        let pending = !first.payload.is_empty() || !first.done;
        self.moved = Transferred::default();
        if let Some(mut kept) = replays.take_bytes() {
            let done = !pending;
            let length = kept.len();
            let all = Decoded {
                payload: 0..length,
                consumed: length,
                done,
            };
            let (segment, sent) = relay
                .send(out, &mut kept, decoder, all, &mut self.moved)
                .await;
            // Framing is not kept.
            kept.consume(segment.front);
            kept.truncate(length);
            replays.return_bytes(kept);
            sent?;
            if done {
                relay.from.stream.give_back();
                self.mirrors.drain(..).for_each(|mut feed| feed.end());
                return Ok(());
            }
        }
        let mut taps = Taps {
            mirrors: &mut self.mirrors,
            replays,
        };
        let result = relay
            .run(out, buffer, decoder, first, &mut self.moved, &mut taps)
            .await;
        if result.is_ok() {
            self.mirrors.drain(..).for_each(|mut feed| feed.end());
        }
        result
    }

    /// Removes the decoded body and its framing from the client's buffer: what follows is the rest
    /// of the body, or the next request. Call it after every outcome.
    pub(crate) fn settle(&mut self, buffer: &mut Buffer) {
        buffer.consume(self.sent.front + self.first.consumed);
        self.first = Decoded::default();
        self.sent = Segment::default();
    }

    /// Settles the body, and returns the kept copy to the shard.
    pub(crate) fn finish(mut self, buffer: &mut Buffer, shard: &Shard) {
        self.settle(buffer);
        if let ReplayCopy::Whole(kept) = self.kept {
            shard.buffers.put(kept);
        }
    }
}

/// The copy of a request's body during an attempt, of which the response decides whether it is needed.
pub(crate) struct ReplayState(RefCell<ReplayCopy>);

impl ReplayState {
    /// Whether everything sent so far is kept.
    pub(crate) fn replay(&self) -> Replay {
        self.0.borrow().replay()
    }

    /// The response is passed on, so that the request is not sent again: drops the copy, which may be as
    /// large as a body can be, before a response that may last for long.
    pub(crate) fn settle(&self) {
        self.0.replace(ReplayCopy::Lost);
    }

    /// The bytes that earlier attempts sent or received, to send them again.
    fn take_bytes(&self) -> Option<Buffer> {
        let mut copy = self.0.borrow_mut();
        match &*copy {
            ReplayCopy::SoFar(kept) if !kept.is_empty() => Some(kept.to_buffer()),
            ReplayCopy::Whole(kept) if !kept.is_empty() => {
                match std::mem::replace(&mut *copy, ReplayCopy::InUse) {
                    ReplayCopy::Whole(kept) => Some(kept),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Keeps the bytes again, unless they are kept elsewhere or not needed any more.
    fn return_bytes(&self, bytes: Buffer) {
        let mut copy = self.0.borrow_mut();
        if matches!(*copy, ReplayCopy::InUse) {
            *copy = ReplayCopy::Whole(bytes);
        }
    }

    /// Keeps bytes that are sent for the first time.
    fn keep(&self, bytes: &[u8]) {
        let mut copy = self.0.borrow_mut();
        let is_kept = match &mut *copy {
            ReplayCopy::SoFar(kept) => {
                let fits = kept.len() + bytes.len() <= BUFFER_BYTES;
                if fits {
                    kept.append(bytes);
                }
                fits
            }
            ReplayCopy::NotStarted
            | ReplayCopy::Whole(_)
            | ReplayCopy::InUse
            | ReplayCopy::Lost => bytes.is_empty(),
        };
        if !is_kept {
            *copy = ReplayCopy::Lost;
        }
    }
}

struct Taps<'a> {
    mirrors: &'a mut Vec<Feed>,
    replays: &'a ReplayState,
}

impl Tap for Taps<'_> {
    fn payload(&mut self, bytes: &[u8]) {
        self.replays.keep(bytes);
        self.mirrors.iter_mut().for_each(|feed| feed.more(bytes));
    }
}

impl RelayError {
    /// The failure for a request body.
    pub(crate) fn of_upload(self) -> Failure {
        match self {
            Self::SenderGone | Self::Canceled => FailureKind::ClientGone.into(),
            Self::SenderStalled | Self::TooSlow => FailureKind::BodyTimeout.into(),
            Self::Malformed(error) => Failure::because(FailureKind::MalformedBody, error.reason()),
            Self::TooLarge => FailureKind::BodyTooLarge.into(),
            Self::ReceiverGone => FailureKind::UpstreamReset.into(),
            Self::ReceiverStalled => FailureKind::UpstreamTimeout.into(),
        }
    }

    /// The failure for a response body, whose status has been sent.
    pub(crate) fn of_download(self) -> Failure {
        match self {
            Self::SenderGone | Self::Canceled | Self::Malformed(_) | Self::TooLarge => {
                FailureKind::ResponseBroken.into()
            }
            Self::SenderStalled | Self::TooSlow => FailureKind::ResponseTimeout.into(),
            Self::ReceiverGone => FailureKind::ClientGone.into(),
            Self::ReceiverStalled => FailureKind::ClientStalled.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::{ReplayCopy, ReplayState};
    use crate::memory::{BufferPool, Kept};
    use crate::upstream::retry::Replay;

    #[test]
    fn the_copy_of_a_body_is_dropped_once_its_response_is_passed_on() {
        let pool = Rc::new(BufferPool::default());
        let replays = ReplayState(RefCell::new(ReplayCopy::SoFar(Kept::new(&pool))));
        replays.keep(&[1; 1000]);
        assert!(pool.lent() >= 1000, "{}", pool.lent());
        assert_eq!(replays.replay(), Replay::Possible);
        replays.settle();
        replays.keep(&[2; 1000]);
        assert_eq!((pool.lent(), replays.replay()), (0, Replay::Impossible));
    }

    #[test]
    fn a_whole_body_is_dropped_after_it_was_sent_if_its_response_is_passed_on() {
        let pool = Rc::new(BufferPool::default());
        for is_settled in [false, true] {
            let whole = ReplayCopy::Whole(pool.holding(&[1; 1000]));
            let replays = ReplayState(RefCell::new(whole));
            let sent = replays.take_bytes().expect("the body");
            assert_eq!(replays.replay(), Replay::Possible);
            if is_settled {
                replays.settle();
            }
            replays.return_bytes(sent);
            assert_eq!(pool.lent() == 0, is_settled);
        }
    }
}

//! Transfers the request body to the backend.

use std::cell::Cell;

use crate::channel::Channel;
use crate::channel::relay::{OutgoingFraming, Relay, RelayError, Segment, Tap, Transferred};
use crate::config::{Cluster, Protocol, Rule};
use crate::exchange::Exchange;
use crate::exchange::feed::Feed;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::limits::BUFFER_BYTES;
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
    /// Incomplete: more was sent than may be kept.
    Lost,
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
        match self.kept {
            ReplayCopy::Lost => Replay::Impossible,
            ReplayCopy::NotStarted | ReplayCopy::SoFar(_) | ReplayCopy::Whole(_) => {
                Replay::Possible
            }
        }
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
        let mut copy = match &mut self.kept {
            ReplayCopy::SoFar(kept) if !kept.is_empty() => Some(kept.to_buffer()),
            _ => None,
        };
        let kept = match (&mut self.kept, &mut copy) {
            (ReplayCopy::Whole(kept), _) if !kept.is_empty() => Some(kept),
            (_, copy) => copy.as_mut(),
        };
        if let Some(kept) = kept {
            let done = !pending;
            let length = kept.len();
            let all = Decoded {
                payload: 0..length,
                consumed: length,
                done,
            };
            let (segment, sent) = relay.send(out, kept, decoder, all, &mut self.moved).await;
            // Framing is not kept.
            kept.consume(segment.front);
            kept.truncate(length);
            sent?;
            if done {
                self.mirrors.drain(..).for_each(|mut feed| feed.end());
                return Ok(());
            }
        }
        let mut taps = Taps {
            kept: &mut self.kept,
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

/// What the response needs to know about the copy of the request's body, and decides about it.
pub(crate) struct ReplayState {
    /// Whether everything sent so far is kept.
    pub(crate) replay: Cell<Replay>,
    /// Whether the response is passed on, so that the request is not sent again.
    pub(crate) is_settled: Cell<bool>,
}

struct Taps<'a> {
    kept: &'a mut ReplayCopy,
    mirrors: &'a mut Vec<Feed>,
    replays: &'a ReplayState,
}

impl Tap for Taps<'_> {
    fn payload(&mut self, bytes: &[u8]) {
        let kept = match self.kept {
            ReplayCopy::SoFar(kept) => {
                let fits = kept.len() + bytes.len() <= BUFFER_BYTES;
                let keeps = fits && !self.replays.is_settled.get();
                if keeps {
                    kept.append(bytes);
                }
                keeps
            }
            ReplayCopy::NotStarted | ReplayCopy::Whole(_) | ReplayCopy::Lost => bytes.is_empty(),
        };
        if !kept {
            *self.kept = ReplayCopy::Lost;
            self.replays.replay.set(Replay::Impossible);
        }
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

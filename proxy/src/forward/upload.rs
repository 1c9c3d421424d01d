//! The request's body on its way to the backend.

use std::cell::Cell;

use crate::channel::relay::{Moved, Outward, Relay, RelayError, Segment, Tap};
use crate::config::Rule;
use crate::exchange::Exchange;
use crate::exchange::feed::Feed;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::memory::Buffer;
use crate::shard::Shard;
use crate::upstream::retry::Replay;

/// What a request's body needs of its exchange, apart from what the response needs.
pub(crate) struct RequestSide<'e> {
    /// What was read from the client.
    pub(crate) buffer: &'e mut Buffer,
    pub(crate) decoder: &'e mut BodyDecoder,
    /// The request's head, at first.
    pub(crate) out: &'e mut Vec<u8>,
}

/// A request's body, over all tries.
pub(crate) struct Upload {
    /// What is decoded at the front of the client's buffer and was not sent.
    first: Decoded,
    /// The framing of it that the last try wrote into the buffer.
    sent: Segment,
    /// Whether the whole body was in the buffer from the start: most have none at all.
    pub(crate) whole: bool,
    pub(crate) outward: Outward,
    pub(crate) moved: Moved,
    kept: Kept,
    mirrors: Vec<Feed>,
    /// Whether the client was told to go on, or did so by itself.
    goes_on: bool,
}

/// What is kept of a body that comes in pieces, to be sent again.
enum Kept {
    /// Nothing, since the rule does not retry; nothing was sent yet.
    Unasked,
    /// All that was sent.
    All(Buffer),
    /// Not all that was sent.
    Lost,
}

impl Upload {
    /// Looks at what of the body has come.
    ///
    /// # Errors
    /// Its framing is malformed.
    pub(crate) fn begin(exchange: &mut Exchange<'_>, rule: &Rule) -> Result<Self, Failure> {
        let picked = exchange.picked.as_mut();
        if let Some(body) = picked.and_then(|picked| picked.take_body()) {
            return Ok(Self::of_kept(exchange, body));
        }
        if let Some(body) = exchange.said.as_mut().and_then(|said| said.body.take()) {
            return Ok(Self::of_kept(exchange, Buffer::holding(&body)));
        }
        let decoder = &mut exchange.work.request_body;
        let first = decoder
            .decode(exchange.buffer.filled_mut())
            .map_err(|error| Failure::because(FailureKind::MalformedBody, error.reason()))?;
        let whole = first.done;
        let came_at_once = !first.payload.is_empty();
        let kept = match &rule.retry {
            Some(retry) if retry.attempts > 0 && !whole => {
                Kept::All(exchange.shard.buffers.without_memory())
            }
            _ => Kept::Unasked,
        };
        let outward = Outward::of(exchange.received.head.framing);
        Ok(Self {
            first,
            sent: Segment::default(),
            whole,
            outward,
            moved: Moved::default(),
            kept,
            mirrors: std::mem::take(&mut exchange.mirrors),
            goes_on: came_at_once,
        })
    }

    /// A body that has come already, all of it.
    fn of_kept(exchange: &mut Exchange<'_>, body: Buffer) -> Self {
        for mut mirror in std::mem::take(&mut exchange.mirrors) {
            mirror.all(body.filled());
        }
        Self {
            first: Decoded::default(),
            sent: Segment::default(),
            // It stands in no buffer of the client's.
            whole: false,
            outward: Outward::of(exchange.framing()),
            moved: Moved::default(),
            kept: Kept::All(body),
            mirrors: Vec::new(),
            goes_on: true,
        }
    }

    /// Whether the client may be waiting to be told to send its body; asked once.
    pub(crate) fn is_waited_for(&mut self) -> bool {
        !std::mem::replace(&mut self.goes_on, true)
    }

    /// Whether the request can be sent once more.
    pub(crate) fn replay(&self) -> Replay {
        match self.kept {
            Kept::Lost => Replay::Impossible,
            Kept::Unasked | Kept::All(_) => Replay::Possible,
        }
    }

    /// Sends head and body, where the body is all there. It stays, to be sent again.
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
        // Whatever an earlier try wrote in front is done with.
        buffer.consume(self.sent.front);
        self.moved = Moved::default();
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

    /// Sends head and body as the body comes.
    pub(crate) async fn send_as_it_comes(
        &mut self,
        relay: &Relay<'_>,
        request: &mut RequestSide<'_>,
        replay: &Cell<Replay>,
    ) -> Result<(), RelayError> {
        let RequestSide {
            buffer,
            decoder,
            out,
        } = request;
        let mut first = std::mem::take(&mut self.first);
        first.done = decoder.is_done();
        let pending = !first.payload.is_empty() || !first.done;
        self.moved = Moved::default();
        if let Kept::All(kept) = &mut self.kept
            && !kept.is_empty()
        {
            let done = !pending;
            let length = kept.len();
            let all = Decoded {
                payload: 0..length,
                consumed: length,
                done,
            };
            let (segment, sent) = relay.send(out, kept, decoder, all, &mut self.moved).await;
            // Our framing is not kept.
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
            replay,
        };
        let result = relay
            .run(out, buffer, decoder, first, &mut self.moved, &mut taps)
            .await;
        if result.is_ok() {
            self.mirrors.drain(..).for_each(|mut feed| feed.end());
        }
        result
    }

    /// Takes what was decoded of the body, and what we wrote around it, out of the client's buffer:
    /// what follows is the rest of the body, or the next request. To be called however it went.
    pub(crate) fn settle(&mut self, buffer: &mut Buffer) {
        buffer.consume(self.sent.front + self.first.consumed);
        self.first = Decoded::default();
        self.sent = Segment::default();
    }

    /// Settles the body, and gives what was kept of it back to the shard.
    pub(crate) fn finish(mut self, buffer: &mut Buffer, shard: &Shard) {
        self.settle(buffer);
        if let Kept::All(kept) = self.kept {
            shard.buffers.put(kept);
        }
    }
}

struct Taps<'a> {
    kept: &'a mut Kept,
    mirrors: &'a mut Vec<Feed>,
    replay: &'a Cell<Replay>,
}

impl Tap for Taps<'_> {
    fn payload(&mut self, bytes: &[u8]) {
        let kept = match self.kept {
            Kept::All(buffer) => {
                buffer.reserve(bytes.len());
                buffer.append(bytes)
            }
            Kept::Unasked | Kept::Lost => bytes.is_empty(),
        };
        if !kept {
            *self.kept = Kept::Lost;
            self.replay.set(Replay::Impossible);
        }
        self.mirrors.iter_mut().for_each(|feed| feed.more(bytes));
    }
}

impl RelayError {
    /// What it comes to, for a request's body.
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

    /// What it comes to, for a response's body: the status is out already.
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

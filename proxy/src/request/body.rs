//! Reads a request's body in full for a server that decides on the request before it is forwarded.

use std::ops::Range;
use std::time::Instant;

use crate::channel::relay::{OutgoingFraming, ReadMode, Relay, RelayError, Side};
use crate::exchange::{Client, Exchange};
use crate::failure::{Failure, FailureKind};
use crate::limits::{BODY_PIECE_BYTES, Limits};
use crate::memory::Kept;
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, ReadHandle};

/// A body as the client sends it.
pub(super) struct Body<'r> {
    relay: Relay<'r>,
    /// One for all reads: a cancellation between two of them ends the next one.
    handle: ReadHandle,
    /// Whether the part that arrived with the head was processed.
    has_begun: bool,
    started: Option<Instant>,
    /// Maximum length in bytes.
    max: u64,
    /// How much of a body that was read before has been returned; `None` for other bodies.
    returned: Option<usize>,
    /// The bytes received so far.
    pub(super) all: Kept,
    pub(super) done: bool,
}

impl<'r> Body<'r> {
    /// The body of a client's request, up to a limit, read until `reading` is cancelled.
    pub(super) fn of(
        shard: &Shard,
        client: &'r Client,
        limits: &Limits,
        max: u64,
        reading: &'r Deadline,
    ) -> Self {
        let from = Side {
            idle: limits.body_idle_timeout,
            ..Side::of(&client.stream, reading)
        };
        let allowed = limits.request_body_bytes.map_or(u64::MAX, u64::from);
        Self {
            relay: Relay {
                from,
                // Nothing is forwarded yet.
                to: from,
                outward: OutgoingFraming::Plain,
                limit: None,
                min_rate: limits.body_min_rate,
                read_mode: ReadMode::Cancelable,
                pipes: None,
            },
            handle: reading.read_handle(),
            has_begun: false,
            started: (limits.body_min_rate > 0).then(Instant::now),
            max: max.min(allowed),
            returned: None,
            all: Kept::new(&shard.buffers),
            done: false,
        }
    }

    /// A body that was read before.
    pub(super) fn received(self, all: Kept) -> Self {
        Self {
            returned: Some(0),
            all,
            ..self
        }
    }

    /// Whether it was read before, so that its client is not waited for.
    pub(super) fn was_read_before(&self) -> bool {
        self.returned.is_some()
    }

    /// Waits for the next bytes: a range of [`Self::all`], which is empty only at the end.
    pub(super) async fn next(
        &mut self,
        exchange: &mut Exchange<'_>,
    ) -> Result<Range<usize>, Failure> {
        if let Some(start) = self.returned {
            let end = self.all.len().min(start + BODY_PIECE_BYTES);
            self.returned = Some(end);
            self.done = end == self.all.len();
            return Ok(start..end);
        }
        let decoder = &mut exchange.work.request_body;
        let buffer = &mut *exchange.buffer;
        let start = self.all.len();
        while !self.done && self.all.len() == start {
            let piece = if std::mem::replace(&mut self.has_begun, true) {
                let handle = Some(self.handle.clone());
                let pace = (self.started, start as u64);
                self.relay.next_piece(buffer, decoder, handle, pace).await
            } else {
                let decoded = decoder.decode(buffer.filled_mut());
                decoded.map_err(RelayError::Malformed)
            };
            let piece = piece.map_err(RelayError::of_upload)?;
            let bytes = buffer.filled().get(piece.payload.clone());
            self.all.append(bytes.unwrap_or_default());
            buffer.consume(piece.consumed);
            self.done = piece.done;
            if piece.done {
                self.relay.from.stream.give_back();
            }
            let announced = decoder.announced().saturating_add(self.all.len() as u64);
            if announced > self.max {
                return Err(FailureKind::BodyTooLarge.into());
            }
        }
        Ok(start..self.all.len())
    }
}

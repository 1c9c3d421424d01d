//! Moves one message body from one channel to another, in the framing of the receiving side.
//!
//! One buffer, and one read or send in progress: a blocked receiver stops the sender
//! (backpressure). The payload stays where it was read, with framing written around it. The rest of
//! a long body is spliced from socket to socket.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::time::Instant;

use crate::channel::Channel;
use crate::http::h1::BodyError;
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::h1::encode;
use crate::http::head::Framing;
use crate::http2 as h2;
use crate::limits::{BYTES_PER_POLL, CLIENT_CHECK_INTERVAL};
use crate::memory::Buffer;
use crate::net::{Pipes, Stream};
use crate::shard::deadline::{Expiry, ReadHandle};

mod side;
mod splice;

pub(crate) use self::side::Side;

/// The framing of a body when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutgoingFraming {
    /// None: delimited by its length or the end of the connection.
    Plain,
    Chunked,
}

impl OutgoingFraming {
    /// The framing on a socket whose head says `framing`.
    pub(crate) fn of(framing: Framing) -> Self {
        match framing {
            Framing::Chunked => Self::Chunked,
            Framing::Empty | Framing::Length(_) | Framing::UntilClose => Self::Plain,
        }
    }
}

/// Whether a read can be cancelled without closing the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// It ends only with bytes or with the connection.
    Uncancelable,
    /// `Deadline::cancel_read` cancels it; costs some bookkeeping per read.
    Cancelable,
    /// It is also cancelled when the receiver turns out to be gone.
    UntilReceiverGone,
}

/// Why a body was not transferred.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The sender's connection failed, or ended within the body.
    SenderGone,
    /// The sender's idle timeout.
    SenderStalled,
    /// The sender's framing is malformed.
    Malformed(BodyError),
    /// The body exceeds the limit.
    TooLarge,
    /// The sender is below the minimum rate.
    TooSlow,
    /// The receiver's connection failed.
    ReceiverGone,
    /// The receiver's idle timeout or minimum rate.
    ReceiverStalled,
    /// Cancelled by the reader's canceller.
    Canceled,
}

/// The transfer of one body.
pub(crate) struct Relay<'a> {
    pub(crate) from: Side<'a>,
    pub(crate) to: Side<'a>,
    pub(crate) outward: OutgoingFraming,
    /// Maximum payload bytes; more is an error.
    pub(crate) limit: Option<u64>,
    /// Minimum rate in bytes per second, checked after the first idle timeout; 0 disables it.
    pub(crate) min_rate: u32,
    /// Whether reads can be cancelled.
    pub(crate) read_mode: ReadMode,
    /// Pipes for splicing a long body without tap, if its sockets are not used otherwise meanwhile.
    pub(crate) pipes: Option<&'a Pipes>,
}

/// What to do after sending a piece of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continuation {
    /// Nothing: the body is complete.
    Nothing,
    Later,
    /// More, which is spliced right away.
    AtOnce,
}

/// Amounts transferred so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Transferred {
    pub(crate) payload: u64,
}

/// The front of a buffer as sent: framing, payload, framing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Segment {
    /// Framing bytes in front of the payload.
    pub(crate) front: usize,
    /// Payload bytes, without chunk framing.
    pub(crate) payload: usize,
    /// Bytes that can be dropped, `front` included.
    pub(crate) consumed: usize,
}

/// Sees every payload byte of a body in passing.
pub(crate) trait Tap {
    /// The next payload bytes.
    fn payload(&mut self, bytes: &[u8]);
}

impl Tap for () {
    fn payload(&mut self, _bytes: &[u8]) {}
}

impl Relay<'_> {
    /// Decodes the part of a body that arrived with its head, and whatever has arrived since unless
    /// the rest is spliced.
    ///
    /// # Errors
    ///
    /// The body's framing is malformed.
    pub(crate) fn first(
        &self,
        buffer: &mut Buffer,
        decoder: &mut BodyDecoder,
    ) -> Result<Decoded, BodyError> {
        if self.bypass(decoder, buffer.len()).is_none() {
            self.from.stream.read_on(buffer);
        }
        self.decode(buffer, decoder)
    }

    /// Decodes the bytes that were read, and the end of the body if it has arrived with them.
    fn decode(&self, buffer: &mut Buffer, decoder: &mut BodyDecoder) -> Result<Decoded, BodyError> {
        let mut piece = decoder.decode(buffer.filled_mut())?;
        if !piece.done {
            piece.done = self.from.stream.end_body(decoder)?;
        }
        Ok(piece)
    }

    /// Transfers the rest of a body; `first` is what was decoded at the front of `buffer`. Sends
    /// the content of `out` first, and empties it. Bytes after the body stay in `buffer`.
    pub(crate) async fn run(
        &self,
        out: &mut Vec<u8>,
        buffer: &mut Buffer,
        decoder: &mut BodyDecoder,
        first: Decoded,
        moved: &mut Transferred,
        tap: &mut dyn Tap,
    ) -> Result<(), RelayError> {
        let started = (self.min_rate > 0).then(Instant::now);
        // One handle for all reads: a cancellation between two reads cancels the next one.
        let handle =
            (self.read_mode == ReadMode::Cancelable).then(|| self.from.deadline.read_handle());
        let mut piece = first;
        let mut since_turn = 0;
        loop {
            tap.payload(
                buffer
                    .filled()
                    .get(piece.payload.clone())
                    .unwrap_or_default(),
            );
            let done = piece.done;
            if let Some(bypass) = self.bypass(decoder, 0) {
                since_turn += self
                    .send_and_splice(bypass, out, buffer, decoder, piece, moved)
                    .await?;
                if decoder.is_done() {
                    return Ok(());
                }
            } else {
                let (segment, sent) = self.send(out, buffer, decoder, piece, moved).await;
                // The tap has seen it.
                buffer.consume(segment.consumed);
                sent?;
                if done {
                    self.from.stream.give_back();
                    return Ok(());
                }
                since_turn += segment.consumed;
            }
            if since_turn >= BYTES_PER_POLL {
                since_turn = 0;
                self.from.deadline.yield_turn().await;
                self.check_time()?;
            }
            let pace = (started, moved.payload);
            piece = self
                .next_piece(buffer, decoder, handle.clone(), pace)
                .await?;
        }
    }

    /// Waits for the next piece of a body and decodes it at the front of `buffer`. `handle` makes
    /// the read cancellable; `pace` is the body's start time and size so far.
    ///
    /// # Errors
    ///
    /// The sender failed or is too slow, or its framing is malformed.
    pub(crate) async fn next_piece(
        &self,
        buffer: &mut Buffer,
        decoder: &mut BodyDecoder,
        handle: Option<ReadHandle>,
        (started, payload): (Option<Instant>, u64),
    ) -> Result<Decoded, RelayError> {
        buffer.make_room();
        if self.fill(buffer, handle, decoder).await? == 0 {
            decoder.end_of_input().map_err(|_| RelayError::SenderGone)?;
            self.from.stream.pass_trailers(decoder);
            return Ok(Decoded {
                payload: 0..0,
                consumed: 0,
                done: true,
            });
        }
        self.check_rate(started, payload)?;
        self.decode(buffer, decoder).map_err(RelayError::Malformed)
    }

    /// Sends `out` and the payload at the front of `buffer`, in one piece if the framing fits
    /// around it. Consumes only framing, so that the payload can be sent again.
    pub(crate) fn send(
        &self,
        out: &mut Vec<u8>,
        buffer: &mut Buffer,
        decoder: &BodyDecoder,
        piece: Decoded,
        moved: &mut Transferred,
    ) -> impl Future<Output = (Segment, Result<(), RelayError>)> {
        let behind = if piece.done {
            Continuation::Nothing
        } else {
            Continuation::Later
        };
        self.send_before(behind, out, buffer, decoder, piece, moved)
    }

    async fn send_before(
        &self,
        behind: Continuation,
        out: &mut Vec<u8>,
        buffer: &mut Buffer,
        decoder: &BodyDecoder,
        piece: Decoded,
        moved: &mut Transferred,
    ) -> (Segment, Result<(), RelayError>) {
        let payload = piece.payload.len();
        let mut segment = Segment {
            front: 0,
            payload,
            consumed: piece.consumed,
        };
        if payload > 0 {
            buffer.consume(piece.payload.start);
            segment.consumed -= piece.payload.start;
        }
        let sent = self
            .send_framed(behind, out, buffer, decoder, &mut segment, moved)
            .await;
        (segment, sent)
    }

    async fn send_framed(
        &self,
        behind: Continuation,
        out: &mut Vec<u8>,
        buffer: &mut Buffer,
        decoder: &BodyDecoder,
        segment: &mut Segment,
        moved: &mut Transferred,
    ) -> Result<(), RelayError> {
        self.count(segment.payload, decoder, moved)?;
        let socket = match self.to.stream {
            Channel::Socket(socket) => socket,
            Channel::H2(stream) => {
                let payload = buffer.filled().get(..segment.payload).unwrap_or_default();
                let end = (behind == Continuation::Nothing).then(|| decoder.trailers());
                return self.send_on_stream(stream, payload, end).await;
            }
        };
        let ends_in_chunk =
            self.outward == OutgoingFraming::Chunked && behind == Continuation::Nothing;
        if segment.payload == 0 && behind != Continuation::AtOnce {
            // Framing alone is sent from where it was written: the buffer may be cold.
            if ends_in_chunk {
                encode::last_chunk(out, decoder.trailers());
            }
            return self.send_alone(socket, out).await;
        }
        if self.outward == OutgoingFraming::Chunked {
            debug_assert!(segment.payload > 0, "an empty chunk would be the last");
            encode::chunk_head(out, segment.payload);
        }
        if buffer.prepend(out) {
            segment.front = out.len();
            segment.consumed += out.len();
            out.clear();
        } else {
            self.send_alone(socket, out).await?;
        }
        let mut end = segment.front + segment.payload;
        if self.outward == OutgoingFraming::Chunked {
            out.extend_from_slice(encode::CHUNK_END);
            if ends_in_chunk {
                encode::last_chunk(out, decoder.trailers());
            }
            if buffer.put_behind(end, &mut segment.consumed, out) {
                end += out.len();
                out.clear();
            }
        }
        if end > 0 {
            let ahead = match behind {
                Continuation::Nothing | Continuation::Later => 0,
                Continuation::AtOnce => {
                    socket.send_ahead(buffer.filled().get(..end).unwrap_or_default())
                }
            };
            self.in_time(pin!(socket.write(buffer, ahead..end))).await?;
        }
        self.send_alone(socket, out).await
    }

    /// Sends on a stream.
    async fn send_on_stream(
        &self,
        stream: &h2::Stream,
        mut payload: &[u8],
        end: Option<&[u8]>,
    ) -> Result<(), RelayError> {
        let sending = poll_fn(|context| stream.poll_send(context, &mut payload, end));
        self.in_time(pin!(sending)).await
    }

    async fn send_alone(&self, socket: &Stream, out: &mut Vec<u8>) -> Result<(), RelayError> {
        if out.is_empty() {
            return Ok(());
        }
        let sent = self.in_time(pin!(socket.write_vec(out))).await;
        out.clear();
        sent
    }

    /// Completes a send within the timeout of the receiver, which is set if it waits.
    async fn in_time(
        &self,
        mut sending: Pin<&mut impl Future<Output = io::Result<()>>>,
    ) -> Result<(), RelayError> {
        let mut waits = false;
        let sent = poll_fn(|context| {
            let polled = sending.as_mut().poll(context);
            if polled.is_pending() && !std::mem::replace(&mut waits, true) {
                self.to.arm_write();
            }
            polled
        })
        .await;
        if waits {
            self.to.deadline.disarm();
        }
        sent.map_err(|_| self.receiver_failure())
    }

    async fn fill(
        &self,
        buffer: &mut Buffer,
        handle: Option<ReadHandle>,
        decoder: &BodyDecoder,
    ) -> Result<usize, RelayError> {
        let stream = self.from.stream;
        let watched = self.read_mode == ReadMode::UntilReceiverGone;
        if let Some(read) = stream.read_now(buffer, handle.is_some()) {
            self.from.deadline.disarm();
            if watched {
                self.to.deadline.disarm();
            }
            return Ok(read);
        }
        // A sender that timed out can still receive a response.
        self.from.arm(Expiry::StopReading);
        if watched {
            let other = stream.cutoff();
            self.to.deadline.watch(other, CLIENT_CHECK_INTERVAL);
        }
        let read = match handle {
            Some(handle) => stream.read_until_canceled(buffer, handle).await,
            None if self.bypass(decoder, 0).is_some() => stream.read_some(buffer).await,
            None => stream.read(buffer).await,
        };
        self.from.deadline.disarm();
        if watched {
            self.to.deadline.disarm();
            if self.to.deadline.expired() {
                return Err(RelayError::ReceiverGone);
            }
        }
        if self.from.deadline.expired() {
            return Err(RelayError::SenderStalled);
        }
        read.map_err(|error| match error.raw_os_error() {
            Some(libc::ECANCELED) => RelayError::Canceled,
            _ => RelayError::SenderGone,
        })
    }

    /// Adds to the payload count. A body that announces more than the limit fails before it is
    /// read.
    fn count(
        &self,
        payload: usize,
        decoder: &BodyDecoder,
        moved: &mut Transferred,
    ) -> Result<(), RelayError> {
        moved.payload = moved.payload.saturating_add(payload as u64);
        let announced = moved.payload.saturating_add(decoder.announced());
        match self.limit {
            Some(limit) if announced > limit => Err(RelayError::TooLarge),
            _ => Ok(()),
        }
    }

    /// Checks the deadline where operations complete without waiting, so that no timer fires.
    fn check_time(&self) -> Result<(), RelayError> {
        match self.from.until {
            Some(until) if Instant::now() >= until => Err(RelayError::SenderStalled),
            _ => Ok(()),
        }
    }

    fn check_rate(&self, started: Option<Instant>, payload: u64) -> Result<(), RelayError> {
        let Some(elapsed) = started.map(|started| started.elapsed()) else {
            return Ok(());
        };
        let grace = self.from.idle.unwrap_or_default();
        let least = u64::from(self.min_rate).saturating_mul(elapsed.as_secs());
        if elapsed > grace && payload < least {
            Err(RelayError::TooSlow)
        } else {
            Ok(())
        }
    }

    fn receiver_failure(&self) -> RelayError {
        if self.to.deadline.expired() {
            RelayError::ReceiverStalled
        } else {
            RelayError::ReceiverGone
        }
    }
}

#[cfg(test)]
mod tests;

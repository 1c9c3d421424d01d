//! Splices the rest of a long body from socket to socket.

use std::io::ErrorKind;

use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::limits::{
    BUFFER_BYTES, SPLICE_AFTER, SPLICE_BYTES_PER_POLL, SPLICE_FROM, SPLICE_PIPE_BYTES,
};
use crate::memory::Buffer;
use crate::net::{NonBlockingGuard, Pipe, Pipes, Stream};

use super::{Continuation, OutgoingFraming, Relay, RelayError, Transferred};

/// A path for bytes through a kernel pipe.
pub(super) struct SplicePath<'a> {
    pipes: &'a Pipes,
    from: &'a Stream,
    to: &'a Stream,
}

impl<'a> Relay<'a> {
    /// A pipe, if enough of the body remains to make splicing worthwhile; `held` bytes of it are in
    /// the buffer.
    pub(super) fn bypass(&self, decoder: &BodyDecoder, held: usize) -> Option<SplicePath<'a>> {
        let pipes = self.pipes?;
        let is_long = decoder.remaining()? >= SPLICE_FROM.saturating_add(held as u64);
        let is_free = self.outward == OutgoingFraming::Plain && self.min_rate == 0;
        let plain = |socket: &&Stream| is_long && is_free && socket.is_plain();
        Some(SplicePath {
            pipes,
            from: self.from.stream.as_socket().filter(plain)?,
            to: self.to.stream.as_socket().filter(plain)?,
        })
    }

    /// As [`Relay::send`], then splices the bytes of the body that are available. Returns the bytes
    /// moved since the last yield. Bytes that are not available yet are left to a read, which gets
    /// past urgent data; splice(2) does not.
    pub(super) async fn send_and_splice(
        &self,
        bypass: SplicePath<'_>,
        out: &mut Vec<u8>,
        buffer: &mut Buffer,
        decoder: &mut BodyDecoder,
        piece: Decoded,
        moved: &mut Transferred,
    ) -> Result<usize, RelayError> {
        let SplicePath { pipes, from, to } = bypass;
        let unblocked = [from, to].map(|socket| NonBlockingGuard::begin(socket.fd()));
        let free = unblocked.iter().all(Result::is_ok);
        let mut pipe = free.then(|| pipes.take()).flatten();
        let room = room(*moved).saturating_sub(buffer.len());
        let filled = pipe.as_mut().map(|pipe| fill(pipe, room, from, decoder));
        let behind = match filled {
            None | Some(0) => Continuation::Later,
            Some(_) => Continuation::AtOnce,
        };
        let (segment, sent) = self
            .send_before(behind, out, buffer, decoder, piece, moved)
            .await;
        buffer.consume(segment.consumed);
        sent?;
        let mut passed = segment.consumed;
        if let Some(mut pipe) = pipe {
            passed += self.pass(&mut pipe, from, to, decoder, moved).await?;
            pipes.put(pipe);
        }
        Ok(passed)
    }

    /// Empties and refills the pipe while bytes are available. Returns the bytes moved since the
    /// last yield.
    async fn pass(
        &self,
        pipe: &mut Pipe,
        from: &Stream,
        to: &Stream,
        decoder: &mut BodyDecoder,
        moved: &mut Transferred,
    ) -> Result<usize, RelayError> {
        let mut since_turn = 0;
        loop {
            while !pipe.is_empty() {
                match pipe.empty(to.fd()) {
                    Ok(count) => moved.payload = moved.payload.saturating_add(count as u64),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.to.arm_write();
                        let ready = to.writable().await;
                        self.to.deadline.disarm();
                        ready.map_err(|_| self.receiver_failure())?;
                    }
                    Err(_) => return Err(self.receiver_failure()),
                }
            }
            if since_turn >= SPLICE_BYTES_PER_POLL {
                since_turn = 0;
                self.from.deadline.wait_for_next_turn().await;
                self.check_time()?;
            }
            match fill(pipe, room(*moved), from, decoder) {
                0 => return Ok(since_turn),
                count => since_turn += count,
            }
        }
    }
}

/// Bytes of a body that may be held for a blocked receiver.
fn room(moved: Transferred) -> usize {
    if moved.payload < SPLICE_AFTER {
        BUFFER_BYTES
    } else {
        SPLICE_PIPE_BYTES.unsigned_abs() as usize
    }
}

/// Fills the pipe with available bytes of the body, at most `room`; returns how many. An end or an
/// error is left to the next read.
fn fill(pipe: &mut Pipe, room: usize, from: &Stream, decoder: &mut BodyDecoder) -> usize {
    let max = decoder.remaining().unwrap_or_default().min(room as u64);
    let count = pipe.fill(from.fd(), max).unwrap_or_default();
    decoder.skip(count);
    count
}

//! One side of an exchange: a TCP connection, or a stream of an HTTP/2 connection.
//!
//! Hides the difference from the forwarding code. Heads are messages on a stream and bytes on a
//! socket, so code that writes heads distinguishes the two; bodies are the same on both. A `relay`
//! moves one body from one channel to another, a `tunnel` moves bytes in both directions.

pub(crate) mod relay;
pub(crate) mod tunnel;

use std::io;
use std::ops::Range;
use std::rc::Rc;

use crate::http::h1::BodyError;
use crate::http::h1::body::BodyDecoder;
use crate::http::head::Framing;
use crate::http2 as h2;
use crate::memory::Buffer;
use crate::net::{Liveness, Stream};
use crate::shard::cutoff::Cutoff;
use crate::shard::deadline::ReadHandle;

/// A socket or an HTTP/2 stream.
pub(crate) enum Channel {
    /// A connection that carries one message at a time.
    Socket(Stream),
    /// One stream of a multiplexed connection.
    H2(h2::Stream),
}

impl From<Stream> for Channel {
    fn from(stream: Stream) -> Self {
        Self::Socket(stream)
    }
}

impl Channel {
    /// Cancels its pending operations from another task.
    pub(crate) fn cutoff(&self) -> Cutoff {
        match self {
            Self::Socket(stream) => Cutoff::Socket(stream.fd()),
            Self::H2(stream) => Cutoff::Stream(Rc::clone(stream.signals())),
        }
    }

    /// The socket, if it is one, for a TLS handshake.
    pub(crate) fn as_socket_mut(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Socket(stream) => Some(stream),
            Self::H2(_) => None,
        }
    }

    /// The socket, if it is one.
    pub(crate) fn as_socket(&self) -> Option<&Stream> {
        match self {
            Self::Socket(stream) => Some(stream),
            Self::H2(_) => None,
        }
    }

    /// The stream, if it is one.
    pub(crate) fn as_h2(&self) -> Option<&h2::Stream> {
        match self {
            Self::Socket(_) => None,
            Self::H2(stream) => Some(stream),
        }
    }

    /// Reads body bytes behind those in the buffer; 0 at the end.
    ///
    /// # Errors
    ///
    /// The connection or stream failed.
    pub(crate) async fn read(&self, buffer: &mut Buffer) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read(buffer).await,
            Self::H2(stream) => stream.read(buffer, h2::ReadMode::Uncancelable).await,
        }
    }

    /// What has arrived on a stream, as by [`Channel::read`] without waiting; nothing of a socket.
    pub(crate) fn read_now(&self, buffer: &mut Buffer, is_cancelable: bool) -> Option<usize> {
        let mode = if is_cancelable {
            h2::ReadMode::Cancelable
        } else {
            h2::ReadMode::Uncancelable
        };
        self.as_h2()?.read_now(buffer, mode)
    }

    /// As [`Channel::read`], but from a socket at most what [`Stream::read_some`] reads.
    ///
    /// # Errors
    ///
    /// The connection or stream failed.
    pub(crate) async fn read_some(&self, buffer: &mut Buffer) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read_some(buffer).await,
            Self::H2(stream) => stream.read(buffer, h2::ReadMode::Uncancelable).await,
        }
    }

    /// Takes bytes that are already available: of a socket after a read that has filled the buffer.
    pub(crate) fn read_on(&self, buffer: &mut Buffer) -> usize {
        match self {
            Self::Socket(stream) => stream.read_on(buffer),
            Self::H2(stream) => {
                let read = stream.read_now(buffer, h2::ReadMode::Uncancelable);
                read.unwrap_or(0)
            }
        }
    }

    /// Ends the decoder's body if it was read to its end, which only a stream tells with its last bytes.
    ///
    /// # Errors
    ///
    /// The body is incomplete by its framing.
    pub(crate) fn end_body(&self, decoder: &mut BodyDecoder) -> Result<bool, BodyError> {
        let has_ended = self.as_h2().is_some_and(h2::Stream::finish_reading);
        if has_ended {
            decoder.end_of_input()?;
            self.pass_trailers(decoder);
        }
        Ok(has_ended)
    }

    /// The last bytes that were read have been forwarded, and nothing follows them.
    pub(crate) fn give_back(&self) {
        if let Self::H2(stream) = self {
            stream.give_back();
        }
    }

    /// As [`Channel::read`], but ends with `ECANCELED` on cancellation.
    ///
    /// # Errors
    ///
    /// The connection or stream failed, or `ECANCELED`.
    pub(crate) async fn read_until_canceled(
        &self,
        buffer: &mut Buffer,
        handle: ReadHandle,
    ) -> io::Result<usize> {
        match (self, handle) {
            (Self::Socket(stream), ReadHandle::Socket(handle)) => {
                stream.read_until_canceled(buffer, handle).await
            }
            (Self::Socket(stream), ReadHandle::Stream) => {
                debug_assert!(false, "the handle is another channel's");
                stream.read(buffer).await
            }
            (Self::H2(stream), _) => stream.read(buffer, h2::ReadMode::Cancelable).await,
        }
    }

    /// The framing of the bytes that [`Channel::read`] returns, for a body whose head says
    /// `framing`: those of a stream are unframed and end with the stream.
    pub(crate) fn body_framing(&self, framing: Framing) -> Framing {
        match self {
            Self::Socket(_) => framing,
            Self::H2(stream) if stream.is_read() => Framing::Empty,
            Self::H2(_) if framing == Framing::Empty => Framing::Empty,
            Self::H2(_) => Framing::UntilClose,
        }
    }

    /// Passes the trailers of a stream's body to the decoder.
    pub(crate) fn pass_trailers(&self, decoder: &mut BodyDecoder) {
        if let Self::H2(stream) = self {
            stream.with_trailers(|lines| decoder.take_trailers(lines));
        }
    }

    /// Sends a range of the buffer, of a body without framing.
    ///
    /// # Errors
    ///
    /// The connection or stream failed.
    pub(crate) async fn write(&self, buffer: &mut Buffer, range: Range<usize>) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.write(buffer, range).await,
            Self::H2(stream) => {
                let bytes = buffer.filled().get(range).unwrap_or_default();
                stream.send(bytes, None).await
            }
        }
    }

    /// Sends all of `bytes`, of a body without framing.
    ///
    /// # Errors
    ///
    /// The connection or stream failed.
    pub(crate) async fn write_vec(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.write_vec(bytes).await,
            Self::H2(stream) => stream.send(bytes, None).await,
        }
    }

    /// Ends a body without framing.
    ///
    /// # Errors
    ///
    /// The connection or stream failed.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        match self {
            Self::Socket(stream) => {
                stream.shutdown_write().await;
                Ok(())
            }
            Self::H2(stream) => stream.send(&[], Some(&[])).await,
        }
    }

    /// Closes the sending direction.
    pub(crate) async fn shutdown_write(&self) {
        match self {
            Self::Socket(stream) => stream.shutdown_write().await,
            // END_STREAM has been sent already.
            Self::H2(_) => {}
        }
    }

    /// If this stream is reset later, uses the other stream's reset code.
    pub(crate) fn forward_reset(&self, other: &Self) {
        if let (Self::H2(stream), Self::H2(other)) = (self, other)
            && let Some(code) = other.reset_by_peer()
        {
            stream.set_reset(code);
        }
    }

    /// Waits until bytes are available, without holding a buffer.
    ///
    /// # Errors
    ///
    /// The connection or stream failed.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.readable().await,
            Self::H2(_) => Ok(()),
        }
    }

    /// Makes a close reset it, so that the peer does not take a truncated message for a complete
    /// one.
    pub(crate) fn reset_on_close(&self) {
        match self {
            Self::Socket(stream) => stream.reset_on_close(),
            Self::H2(stream) => stream.reset(),
        }
    }

    /// Resets the connection or stream; unsent data is discarded.
    pub(crate) fn reset(&self) {
        match self {
            Self::Socket(stream) => stream.reset(),
            Self::H2(stream) => {
                stream.reset();
                self.disconnect();
            }
        }
    }

    /// Whether the peer is still connected, without reading.
    pub(crate) fn liveness(&self) -> Liveness {
        if let Self::Socket(stream) = self {
            return stream.liveness();
        }
        self.cutoff().liveness()
    }

    /// Shuts down both directions: pending operations return.
    pub(crate) fn disconnect(&self) {
        self.cutoff().disconnect();
    }
}

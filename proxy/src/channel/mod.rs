//! One side of an exchange: a socket of its own, or a stream of an HTTP/2 connection.
//!
//! It is what the forwarding code sees of either. Heads go over a stream as heads, and over a socket
//! as bytes, so whoever writes one asks which it is; bodies do not tell. A `relay` moves one body from
//! one channel to another, a `tunnel` whatever comes, both ways.

pub(crate) mod relay;
pub(crate) mod tunnel;

use std::io;
use std::ops::Range;
use std::rc::Rc;

use crate::http::h1::body::BodyDecoder;
use crate::http::head::Framing;
use crate::http2::stream as h2;
use crate::memory::Buffer;
use crate::net::{CancelHandle, Liveness, Stream};
use crate::shard::cutoff::Cutoff;

/// One side of an exchange.
pub(crate) enum Channel {
    /// A socket that carries one message at a time.
    Socket(Stream),
    /// A stream among others.
    H2(Box<h2::Stream>),
}

impl From<Stream> for Channel {
    fn from(stream: Stream) -> Self {
        Self::Socket(stream)
    }
}

impl Channel {
    /// What ends it from outside of its task.
    pub(crate) fn cutoff(&self) -> Cutoff {
        match self {
            Self::Socket(stream) => Cutoff::Socket(stream.fd()),
            Self::H2(stream) => Cutoff::Stream(Rc::clone(stream.signals())),
        }
    }

    /// The socket, where it is one, to put TLS over it.
    pub(crate) fn as_socket_mut(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Socket(stream) => Some(stream),
            Self::H2(_) => None,
        }
    }

    /// The socket, where it is one.
    pub(crate) fn as_socket(&self) -> Option<&Stream> {
        match self {
            Self::Socket(stream) => Some(stream),
            Self::H2(_) => None,
        }
    }

    /// The stream, where it is one.
    pub(crate) fn as_h2(&self) -> Option<&h2::Stream> {
        match self {
            Self::Socket(_) => None,
            Self::H2(stream) => Some(stream),
        }
    }

    /// Reads body bytes into the room behind the buffer's; 0 at the end.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn read(&self, buffer: &mut Buffer) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read(buffer).await,
            Self::H2(stream) => stream.read(buffer, h2::Reads::ToTheEnd).await,
        }
    }

    /// As [`Channel::read`], but of a socket no more than [`Stream::read_some`] does.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn read_some(&self, buffer: &mut Buffer) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read_some(buffer).await,
            Self::H2(stream) => stream.read(buffer, h2::Reads::ToTheEnd).await,
        }
    }

    /// Takes what has come behind a read that has filled the buffer.
    pub(crate) fn read_on(&self, buffer: &mut Buffer) -> usize {
        match self {
            Self::Socket(stream) => stream.read_on(buffer),
            Self::H2(_) => 0,
        }
    }

    /// As [`Channel::read`], ended by a cancellation with `ECANCELED`.
    ///
    /// # Errors
    /// The peer broke off, or `ECANCELED`.
    pub(crate) async fn read_until_canceled(
        &self,
        buffer: &mut Buffer,
        handle: CancelHandle,
    ) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read_until_canceled(buffer, handle).await,
            Self::H2(stream) => stream.read(buffer, h2::Reads::UntilCanceled).await,
        }
    }

    /// Reads bytes that nobody wants; 0 at the end.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn discard(&self, buffer: &mut Buffer) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.discard(buffer).await,
            Self::H2(_) => Ok(0),
        }
    }

    /// How the bytes that [`Channel::read`] gives are delimited, of a body that its head says is
    /// `framing`: a stream's are bare, and its end is the body's.
    pub(crate) fn body_framing(&self, framing: Framing) -> Framing {
        match self {
            Self::Socket(_) => framing,
            Self::H2(stream) if stream.is_read() => Framing::Empty,
            Self::H2(_) if framing == Framing::Empty => Framing::Empty,
            Self::H2(_) => Framing::UntilClose,
        }
    }

    /// Takes over the trailers of a body that came to its end without framing.
    pub(crate) fn hand_over_trailers(&self, decoder: &mut BodyDecoder) {
        if let Self::H2(stream) = self {
            stream.with_trailers(|lines| decoder.take_trailers(lines));
        }
    }

    /// Sends a range of the buffer's bytes, of a body without framing.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn write(&self, buffer: &mut Buffer, range: Range<usize>) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.write(buffer, range).await,
            Self::H2(stream) => {
                let bytes = buffer.filled().get(range).unwrap_or_default();
                Box::pin(stream.send(bytes, None)).await
            }
        }
    }

    /// Sends all of `bytes`, of a body without framing.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn write_vec(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.write_vec(bytes).await,
            Self::H2(stream) => Box::pin(stream.send(bytes, None)).await,
        }
    }

    /// Ends a body without framing.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        match self {
            Self::Socket(stream) => {
                stream.shutdown_write().await;
                Ok(())
            }
            Self::H2(stream) => Box::pin(stream.send(&[], Some(&[]))).await,
        }
    }

    /// Tells the peer that no more bytes will come.
    pub(crate) async fn shutdown_write(&self) {
        match self {
            Self::Socket(stream) => stream.shutdown_write().await,
            // Its last bytes said so already.
            Self::H2(_) => {}
        }
    }

    /// Resets this stream, if it comes to that, for the reason for which the other was reset.
    pub(crate) fn hand_on_reset(&self, other: &Self) {
        if let (Self::H2(stream), Self::H2(other)) = (self, other)
            && let Some(reason) = other.reset_by_peer()
        {
            stream.set_reset(reason);
        }
    }

    /// Waits until there is something to read, holding no buffer.
    ///
    /// # Errors
    /// The peer broke off.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.readable().await,
            Self::H2(_) => Ok(()),
        }
    }

    /// Makes a close break it off, so that the peer cannot take a torn message for whole.
    pub(crate) fn reset_on_close(&self) {
        match self {
            Self::Socket(stream) => stream.reset_on_close(),
            Self::H2(stream) => stream.reset(),
        }
    }

    /// Breaks it off at once.
    pub(crate) fn reset(&self) {
        match self {
            Self::Socket(stream) => stream.reset(),
            Self::H2(stream) => {
                stream.reset();
                self.disconnect();
            }
        }
    }

    /// Whether it still lives, without taking bytes.
    pub(crate) fn liveness(&self) -> Liveness {
        if let Self::Socket(stream) = self {
            return stream.liveness();
        }
        self.cutoff().liveness()
    }

    /// Ends it both ways: whatever waits for it returns.
    pub(crate) fn disconnect(&self) {
        self.cutoff().disconnect();
    }
}

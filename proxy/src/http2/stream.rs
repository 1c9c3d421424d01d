//! One stream of an HTTP/2 connection: of either engine.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use h2::Reason;
use http::{Request, Response};

use super::engine;
use super::library::LibraryStream;
use crate::http::engine::error::Code;
use crate::http::h1::encode::{DownstreamResponse, LocalResponse};
use crate::http::h2::encode::Switch;
use crate::http::known::KnownHeader;
use crate::memory::Buffer;
use crate::shard::signals::Signals;

/// A stream.
pub(crate) enum Stream {
    /// Of a connection of the `h2` crate.
    Library(LibraryStream),
    /// Of a client's connection of our own engine.
    Engine(engine::Stream),
}

/// Whether a read can be cancelled by [`Signals::cancel_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    Uncancelable,
    Cancelable,
}

/// A response head, possibly one of several.
pub(crate) enum Head {
    Interim(Response<()>),
    Final(Response<()>),
}

/// Evaluates `$call` with `$stream` bound to the stream of either kind.
macro_rules! of_either {
    ($either:expr, $stream:ident => $call:expr) => {
        match $either {
            Stream::Library($stream) => $call,
            Stream::Engine($stream) => $call,
        }
    };
}

impl Stream {
    pub(crate) fn signals(&self) -> &Rc<Signals> {
        of_either!(self, stream => stream.signals())
    }

    /// Whether and how an upgrade can be requested from the server.
    pub(crate) fn switch(&self) -> Switch {
        match self {
            Self::Library(stream) => stream.switch(),
            Self::Engine(_) => Switch::Ignored,
        }
    }

    /// Whether the request opens a tunnel.
    pub(crate) fn tunnels(&self) -> bool {
        match self {
            Self::Library(stream) => stream.tunnels(),
            Self::Engine(_) => false,
        }
    }

    /// Sets the request head to send with the next bytes.
    pub(crate) fn put_request(&self, request: Request<()>) {
        match self {
            Self::Library(stream) => stream.put_request(request),
            Self::Engine(_) => debug_assert!(false, "requests are sent to endpoints"),
        }
    }

    /// Sets the response head to send with the next bytes, without the fields that `drop` selects.
    pub(crate) fn put_response(
        &self,
        response: &DownstreamResponse<'_>,
        drop: impl Fn(KnownHeader, &[u8]) -> bool,
    ) {
        of_either!(self, stream => stream.put_response(response, drop));
    }

    /// Sets the head of a local response to send with the next bytes. Returns the body that follows
    /// it.
    pub(crate) fn put_local_response<'r>(&self, response: &LocalResponse<'r>) -> &'r [u8] {
        of_either!(self, stream => stream.put_local_response(response))
    }

    /// Sends a response head that another one follows, without the fields that `drop` selects.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) fn send_interim(
        &self,
        response: &DownstreamResponse<'_>,
        drop: impl Fn(KnownHeader, &[u8]) -> bool,
    ) -> io::Result<()> {
        of_either!(self, stream => stream.send_interim(response, drop))
    }

    /// Sends `100 Continue`.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) fn send_continue(&self) -> io::Result<()> {
        of_either!(self, stream => stream.send_continue())
    }

    /// Sends the head, if not sent yet, then `payload`; and with `end`, trailer lines or none, the
    /// end. Data within the peer's window is sent without further waiting.
    ///
    /// # Errors
    ///
    /// The peer is gone, or accepted nothing until the deadline.
    pub(crate) async fn send(&self, payload: &[u8], end: Option<&[u8]>) -> io::Result<()> {
        of_either!(self, stream => stream.send(payload, end).await)
    }

    /// Waits for the response head.
    ///
    /// # Errors
    ///
    /// There will be none.
    pub(crate) async fn next_head(&self) -> Result<Head, h2::Error> {
        match self {
            Self::Library(stream) => stream.next_head().await,
            Self::Engine(_) => Err(Reason::CANCEL.into()),
        }
    }

    /// Reads body bytes behind those in the buffer; 0 at the end. Bytes read before have been
    /// forwarded by now, so the peer may send as many again. While waiting, an empty buffer has no
    /// memory: a waiting stream would hold 68 KiB.
    ///
    /// # Errors
    ///
    /// The peer reset the stream, or `ECANCELED`.
    pub(crate) async fn read(&self, buffer: &mut Buffer, read_mode: ReadMode) -> io::Result<usize> {
        of_either!(self, stream => stream.read(buffer, read_mode).await)
    }

    /// Whether a whole response was sent before the end of its request.
    pub(crate) fn has_early_response(&self) -> bool {
        of_either!(self, stream => stream.has_early_response())
    }

    /// Receives and drops bytes of the body. Returns whether there may be more: not after the end, a reset,
    /// or the deadline.
    pub(crate) async fn drop_bytes(&self) -> bool {
        of_either!(self, stream => stream.drop_bytes().await)
    }

    /// Whether everything from the peer has been read.
    pub(crate) fn is_read(&self) -> bool {
        of_either!(self, stream => stream.is_read())
    }

    /// Passes the received trailers to `take`: lines, each terminated by CRLF.
    pub(crate) fn with_trailers(&self, take: impl FnOnce(&[u8])) {
        of_either!(self, stream => stream.with_trailers(take));
    }

    /// The peer's reset code, if it concerns the other side.
    pub(crate) fn reset_by_peer(&self) -> Option<Code> {
        of_either!(self, stream => stream.reset_by_peer())
    }

    /// Sets the code of a later reset.
    pub(crate) fn set_reset(&self, code: Code) {
        of_either!(self, stream => stream.set_reset(code));
    }

    /// Sends `RST_STREAM`, so that the peer stops sending.
    pub(crate) fn reset(&self) {
        of_either!(self, stream => stream.reset());
    }

    /// Checks whether the client has reset the stream or its connection is gone; the task is woken
    /// when that happens.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        of_either!(self, stream => stream.poll_closed(context))
    }
}

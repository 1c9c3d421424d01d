//! One stream of an HTTP/2 connection: a head and bytes in each direction.
//!
//! Owned by one task, which reads and writes concurrently. Bytes read count against the peer's window
//! until the task reads again: by then they have been forwarded. A head waits for the first bytes after it,
//! so that a message without a body is one frame, and so that it can be replaced until then.

mod state;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::session::Session;
use crate::http::engine::encode::{self, Switch};
use crate::http::engine::error::{Code, ResetCause};
use crate::http::engine::{HeadWriter, HeldHead, SectionWriter, Then};
use crate::http::h1::RequestKind;
use crate::http::h1::encode::{DownstreamResponse, LocalResponse};
use crate::http::known::KnownHeader;
use crate::memory::Buffer;
use crate::shard::signals::Signals;

use self::state::Sending;
pub(crate) use self::state::{ReceivedHead, StreamEnd};
pub(super) use self::state::{SendTurn, StreamState};

/// The stream.
pub(crate) struct Stream {
    session: Rc<Session>,
    state: Rc<StreamState>,
}

/// Whether a read can be cancelled by [`Signals::cancel_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    Uncancelable,
    Cancelable,
}

/// Why there is no response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHead {
    /// The stream has ended before.
    Ended(StreamEnd),
    /// It is not waited for any more, as at a deadline.
    Abandoned,
}

impl Stream {
    /// A stream of a connection, which has this user from now on.
    pub(super) fn new(session: Rc<Session>, state: Rc<StreamState>) -> Self {
        session.enter();
        Self { session, state }
    }

    pub(crate) fn signals(&self) -> &Rc<Signals> {
        &self.state.signals
    }

    /// Whether the peer has reset it, or its connection has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.state.ending().is_some()
    }

    /// How an upgrade can be requested from the server.
    pub(crate) fn switch(&self) -> Switch {
        if self.session.offers_extended_connect() {
            Switch::Tunnel
        } else {
            Switch::Ignored
        }
    }

    /// Whether the request opens a tunnel.
    pub(crate) fn tunnels(&self) -> bool {
        self.state.request.get() == RequestKind::Upgrade
    }

    /// Sets the request head, which `write` writes, to send with the next bytes. `write` returns how it
    /// requests an upgrade.
    pub(crate) fn put_request(
        &self,
        kind: RequestKind,
        write: impl FnOnce(&mut HeldHead) -> Switch,
    ) {
        let mut head = self.empty_head();
        self.state.request.set(match (kind, write(&mut head)) {
            (_, Switch::Tunnel) => RequestKind::Upgrade,
            (RequestKind::Upgrade, Switch::Ignored) => RequestKind::Other,
            (kind, Switch::Ignored) => kind,
        });
        self.state.head.replace(Some(head));
    }

    /// Sets the response head to send with the next bytes, without the fields that `drop` selects.
    pub(crate) fn put_response(
        &self,
        response: &DownstreamResponse<'_>,
        drop: impl Fn(KnownHeader, &[u8]) -> bool,
    ) {
        let mut head = self.empty_head();
        encode::response(response, drop, &mut head);
        self.state.head.replace(Some(head));
    }

    /// Sets the head of a local response to send with the next bytes.
    pub(crate) fn put_local_response(&self, response: &LocalResponse<'_>) {
        let mut head = self.empty_head();
        encode::local_response(response, &mut head);
        self.state.head.replace(Some(head));
    }

    /// Memory for a head: that of the one it replaces, or other.
    fn empty_head(&self) -> HeldHead {
        let replaced = self.state.head.take();
        let mut head = replaced.unwrap_or_else(|| self.session.take_head());
        head.clear();
        head
    }

    /// Sends a response head that another one follows, without the fields that `drop` selects. A client that
    /// does not read gets none: they are optional, and would be held for it without a bound.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) fn send_interim(
        &self,
        response: &DownstreamResponse<'_>,
        drop: impl Fn(KnownHeader, &[u8]) -> bool,
    ) -> io::Result<()> {
        if !self.session.has_output_room() {
            return Ok(());
        }
        let write = |writer: &mut HeadWriter<'_>| encode::response(response, drop, writer);
        Ok(self.session.inform(&self.state, write)?)
    }

    /// Sends `100 Continue`.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) fn send_continue(&self) -> io::Result<()> {
        let informed = self
            .session
            .inform(&self.state, |writer| writer.status(100));
        Ok(informed?)
    }

    /// Sends the head, if not sent yet, then `payload`; and with `end`, trailer lines or none, the end.
    /// Data within the peer's window is sent without further waiting.
    ///
    /// # Errors
    ///
    /// The peer is gone, or accepted nothing until the deadline.
    pub(crate) async fn send(&self, mut payload: &[u8], end: Option<&[u8]>) -> io::Result<()> {
        poll_fn(|context| self.poll_send(context, &mut payload, end)).await
    }

    /// The same; `payload` becomes what is left to be sent.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) fn poll_send(
        &self,
        context: &mut Context<'_>,
        payload: &mut &[u8],
        end: Option<&[u8]>,
    ) -> Poll<io::Result<()>> {
        let sent = ready!(self.poll_all(context, payload, end));
        if sent.is_err() {
            self.state.sending.set(Sending::Broken);
        }
        Poll::Ready(sent)
    }

    fn poll_all(
        &self,
        context: &mut Context<'_>,
        payload: &mut &[u8],
        end: Option<&[u8]>,
    ) -> Poll<io::Result<()>> {
        let then = match end {
            Some([]) => Then::End,
            Some(_) | None => Then::More,
        };
        if payload.is_empty() || self.state.sending.get() != Sending::Body {
            ready!(self.poll_head(context, payload, then))?;
        }
        while !payload.is_empty() {
            let sent = ready!(self.poll_data(context, payload, then))?;
            self.state.signals.record_sent(sent);
            *payload = payload.get(sent..).unwrap_or_default();
            if payload.is_empty() && then == Then::End {
                self.state.sending.set(Sending::Ended);
            }
        }
        if self.state.sending.get() == Sending::Ended {
            return Poll::Ready(Ok(()));
        }
        match end {
            None => return Poll::Ready(Ok(())),
            Some([]) => self.session.end_body(&self.state)?,
            Some(lines) => self.session.write_trailers(&self.state, lines)?,
        }
        self.state.sending.set(Sending::Ended);
        Poll::Ready(Ok(()))
    }

    /// Sends the head, if not sent yet. Without a payload it may be all.
    fn poll_head(
        &self,
        context: &mut Context<'_>,
        payload: &[u8],
        then: Then,
    ) -> Poll<io::Result<()>> {
        let signals = &self.state.signals;
        signals.set_task(context);
        if signals.is_disconnected() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.is_gone() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let is_request = match self.state.sending.get() {
            Sending::Request => true,
            Sending::Response => false,
            Sending::Body | Sending::Ended => return Poll::Ready(Ok(())),
            Sending::Broken => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        if is_request {
            ready!(self.session.poll_open(&self.state))?;
        } else {
            ready!(self.session.poll_room(&self.state));
        }
        let head = self.state.head.take().ok_or(io::ErrorKind::InvalidInput)?;
        let then = if payload.is_empty() { then } else { Then::More };
        if is_request {
            let kind = self.state.request.get();
            self.session.open(&self.state, kind, then, head)?;
        } else {
            self.session.respond(&self.state, then, head)?;
        }
        self.state.sending.set(match then {
            Then::More => Sending::Body,
            Then::End => Sending::Ended,
        });
        Poll::Ready(Ok(()))
    }

    /// Sends as much of a payload as fits into the peer's windows, once any does.
    fn poll_data(
        &self,
        context: &mut Context<'_>,
        payload: &[u8],
        then: Then,
    ) -> Poll<io::Result<usize>> {
        let signals = &self.state.signals;
        signals.set_task(context);
        if signals.is_disconnected() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.state.sending.get() != Sending::Body || self.is_gone() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = ready!(self.session.poll_data(&self.state, payload, then));
        Poll::Ready(Ok(written?))
    }

    /// Waits for the next head of the response, possibly one of several. Hand it back by
    /// [`Self::put_back`], for its memory.
    ///
    /// # Errors
    ///
    /// There will be none.
    pub(crate) async fn next_head(&self) -> Result<Box<ReceivedHead>, NoHead> {
        poll_fn(|context| self.poll_next_head(context)).await
    }

    fn poll_next_head(&self, context: &mut Context<'_>) -> Poll<Result<Box<ReceivedHead>, NoHead>> {
        let signals = &self.state.signals;
        signals.set_task(context);
        if signals.is_disconnected() {
            return Poll::Ready(Err(NoHead::Abandoned));
        }
        if let Some(head) = self.state.take_head() {
            return Poll::Ready(Ok(head));
        }
        match self.state.ending() {
            Some(end) => Poll::Ready(Err(NoHead::Ended(end))),
            None => Poll::Pending,
        }
    }

    /// Takes back a head from [`Self::next_head`], which was used.
    pub(crate) fn put_back(&self, head: Box<ReceivedHead>) {
        self.session.put_response(head);
    }

    /// Reads body bytes behind those in the buffer; 0 at the end, and once a deadline has stopped reading.
    /// Bytes read before have been forwarded by now, so the peer may send as many again. While waiting, an
    /// empty buffer has no memory.
    ///
    /// # Errors
    ///
    /// The peer reset the stream, it was disconnected, or `ECANCELED`.
    pub(crate) async fn read(&self, buffer: &mut Buffer, mode: ReadMode) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, buffer, mode)).await
    }

    /// The same, without waiting: `None` if nothing has arrived, or if something is wrong, of which
    /// [`Self::read`] says what.
    pub(crate) fn read_now(&self, buffer: &mut Buffer, mode: ReadMode) -> Option<usize> {
        let signals = &self.state.signals;
        if signals.is_disconnected()
            || signals.is_reading_stopped()
            || (mode == ReadMode::Cancelable && signals.is_canceled())
        {
            return None;
        }
        self.take(buffer)
    }

    /// What was read has been forwarded: the peer may send as many bytes again.
    pub(crate) fn give_back(&self) {
        let lent = self.state.lent.take();
        if lent > 0 {
            self.session.give_back(&self.state, lent);
        }
    }

    /// Whether what was read is all: the peer's message has ended behind it.
    pub(crate) fn finish_reading(&self) -> bool {
        self.state.finish_reading()
    }

    /// Moves what has arrived to the buffer, and gives back what was forwarded; `None` if the peer has more to
    /// send first.
    fn take(&self, buffer: &mut Buffer) -> Option<usize> {
        self.give_back();
        let taken = self.state.take(buffer, self.session.pool());
        self.state.lent.set(taken);
        (taken > 0 || self.state.finish_reading()).then_some(taken)
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Buffer,
        mode: ReadMode,
    ) -> Poll<io::Result<usize>> {
        let signals = &self.state.signals;
        signals.set_task(context);
        if signals.is_disconnected() {
            // Not the end of the body: what has arrived of it must not pass as the whole.
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if signals.is_reading_stopped() {
            return Poll::Ready(Ok(0));
        }
        if mode == ReadMode::Cancelable && signals.takes_cancel() {
            return Poll::Ready(Err(io::Error::from_raw_os_error(libc::ECANCELED)));
        }
        if let Some(taken) = self.take(buffer) {
            return Poll::Ready(Ok(taken));
        }
        if self.is_gone() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        buffer.release();
        Poll::Pending
    }

    /// Whether a whole response was sent before the end of its request.
    pub(crate) fn has_early_response(&self) -> bool {
        self.state.sending.get() == Sending::Ended && !self.is_read()
    }

    /// Receives and drops bytes of the body. Returns whether there may be more: not after the end, a reset,
    /// or the deadline.
    pub(crate) async fn drop_bytes(&self) -> bool {
        poll_fn(|context| self.poll_drop(context)).await
    }

    fn poll_drop(&self, context: &mut Context<'_>) -> Poll<bool> {
        let signals = &self.state.signals;
        signals.set_task(context);
        if signals.is_disconnected() {
            return Poll::Ready(false);
        }
        let waiting = self.state.drop_received(self.session.pool());
        let dropped = waiting.saturating_add(self.state.lent.take());
        if dropped > 0 {
            self.session.give_back(&self.state, dropped);
            return Poll::Ready(true);
        }
        if self.state.finish_reading() || self.is_gone() {
            return Poll::Ready(false);
        }
        Poll::Pending
    }

    /// Whether everything from the peer has been read.
    pub(crate) fn is_read(&self) -> bool {
        self.state.is_read()
    }

    /// Passes the received trailers to `take`: lines, each terminated by CRLF.
    pub(crate) fn with_trailers(&self, take: impl FnOnce(&[u8])) {
        self.state.with_trailers(take);
    }

    /// The peer's reset code, if it concerns the other side.
    pub(crate) fn reset_by_peer(&self) -> Option<Code> {
        match self.state.ending() {
            Some(StreamEnd::Reset(ResetCause::Peer(code))) if code.concerns_other_side() => {
                Some(code)
            }
            _ => None,
        }
    }

    /// Sets the code of a later reset.
    pub(crate) fn set_reset(&self, code: Code) {
        self.state.reset.set(code);
    }

    /// Sends `RST_STREAM`, so that the peer stops sending.
    pub(crate) fn reset(&self) {
        if self.state.sending.get() != Sending::Broken {
            self.session.reset(&self.state, self.state.reset.get());
        }
    }

    /// Checks whether the client has reset the stream or its connection is gone; the task is woken when
    /// that happens.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        let signals = &self.state.signals;
        if self.is_gone() || self.session.is_over() {
            signals.record_disconnect();
            return Poll::Ready(());
        }
        signals.set_task(context);
        Poll::Pending
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(head) = self.state.head.take() {
            self.session.put_head(head);
        }
        self.session.release(&self.state);
        if let Some(state) = Rc::get_mut(&mut self.state) {
            state.clear(self.session.pool());
            self.session.put_state(Rc::clone(&self.state));
        }
    }
}

//! One stream of an HTTP/2 connection, as an exchange sees it: a head each way, bytes each way.
//!
//! Owned by one task, which reads and writes it at once. Bytes that were read count against the
//! peer's window until that task comes back for more: then they have been sent on. A head waits for
//! the first bytes behind it, so that a message without a body is one frame.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};

use crate::http::h2::encode::Switch;
use crate::http::h2::trailers;
use crate::memory::Buffer;
use crate::shard::signals::Signals;

use super::usage::Usage;

/// A stream.
pub(crate) struct Stream {
    /// Its connection to an endpoint, which knows whether a response is malformed.
    usage: Option<Rc<Usage>>,
    signals: Rc<Signals>,
    /// Whether a request of ours asks for a tunnel.
    tunnels: Cell<bool>,
    /// What the peer is told if the message to it cannot be brought to its end.
    reset: Cell<Reason>,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
}

/// What of a message has gone out.
enum Sending {
    /// Nothing; the head may be known.
    Request(SendRequest<Bytes>, Option<Box<Request<()>>>),
    /// Nothing; the head may be known.
    Response(SendResponse<Bytes>, Option<Box<Response<()>>>),
    /// The head, and perhaps some of the body.
    Body(SendStream<Bytes>),
    /// All of it.
    Ended(SendStream<Bytes>),
    /// It broke off.
    Broken,
}

/// What of a message has come in.
enum Receiving {
    /// Nothing can have: the request is not out.
    Unasked,
    /// Perhaps the response's head.
    Response(ResponseFuture),
    /// The head.
    Body(Body),
    /// It broke off.
    Broken,
}

/// A body on its way in.
struct Body {
    stream: RecvStream,
    /// Came, and had no room in the reader's buffer.
    left: Bytes,
    /// Bytes that the reader has and has not sent on.
    lent: usize,
    trailers: Vec<u8>,
    done: bool,
    /// Why the peer broke off.
    reset: Option<Reason>,
}

/// Whether a read can be ended by [`Signals::cancel_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    ToTheEnd,
    UntilCanceled,
}

/// A response's head, one of perhaps several.
pub(crate) enum Head {
    Interim(Response<()>),
    Final(Response<()>),
}

impl Stream {
    /// A client's stream: its request's body, and where the response goes.
    pub(crate) fn accepted(body: RecvStream, respond: SendResponse<Bytes>) -> Self {
        Self {
            usage: None,
            signals: Rc::default(),
            tunnels: Cell::new(false),
            reset: Cell::new(Reason::INTERNAL_ERROR),
            sending: RefCell::new(Sending::Response(respond, None)),
            receiving: RefCell::new(Receiving::Body(Body::new(body))),
        }
    }

    /// A stream for a request of ours.
    pub(crate) fn to_open(connection: SendRequest<Bytes>, usage: Rc<Usage>) -> Self {
        Self {
            usage: Some(usage),
            signals: Rc::default(),
            tunnels: Cell::new(false),
            reset: Cell::new(Reason::INTERNAL_ERROR),
            sending: RefCell::new(Sending::Request(connection, None)),
            receiving: RefCell::new(Receiving::Unasked),
        }
    }

    pub(crate) fn signals(&self) -> &Rc<Signals> {
        &self.signals
    }

    /// How the server can be asked for a switch of protocols.
    pub(crate) fn switch(&self) -> Switch {
        match &*self.sending.borrow() {
            Sending::Request(connection, _)
                if connection.is_extended_connect_protocol_enabled() =>
            {
                Switch::Tunnel
            }
            _ => Switch::Ignored,
        }
    }

    /// Whether the request asks for a tunnel.
    pub(crate) fn tunnels(&self) -> bool {
        self.tunnels.get()
    }

    /// Sets the head of the request that goes with the next bytes.
    pub(crate) fn put_request(&self, request: Request<()>) {
        self.tunnels.set(request.method() == http::Method::CONNECT);
        if let Sending::Request(_, head) = &mut *self.sending.borrow_mut() {
            *head = Some(Box::new(request));
        }
    }

    /// Sets the head of the response that goes with the next bytes.
    pub(crate) fn put_response(&self, response: Response<()>) {
        if let Sending::Response(_, head) = &mut *self.sending.borrow_mut() {
            *head = Some(Box::new(response));
        }
    }

    /// Sends a response's head that another one follows.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) fn send_interim(&self, response: Response<()>) -> io::Result<()> {
        match &mut *self.sending.borrow_mut() {
            Sending::Response(respond, _) => respond.send_informational(response).map_err(broken),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends the head, if that is still to go, then `payload`; and with `end`, lines of trailers
    /// or none, the end. What is under way within the peer's window needs nobody to wait for it.
    ///
    /// # Errors
    /// The peer is gone, or took nothing until the deadline.
    pub(crate) async fn send(&self, payload: &[u8], end: Option<&[u8]>) -> io::Result<()> {
        let sent = self.send_all(payload, end).await;
        if sent.is_err() {
            *self.sending.borrow_mut() = Sending::Broken;
        }
        sent
    }

    async fn send_all(&self, mut payload: &[u8], end: Option<&[u8]>) -> io::Result<()> {
        let ends_here = |rest: &[u8]| rest.is_empty() && end.is_some_and(<[u8]>::is_empty);
        if poll_fn(|context| self.poll_begin(context, ends_here(payload))).await? {
            return Ok(());
        }
        while !payload.is_empty() {
            let room = poll_fn(|context| self.poll_room(context, payload.len())).await?;
            let (chunk, rest) = payload.split_at(room.min(payload.len()));
            self.signals.note_taken(chunk.len());
            payload = rest;
            self.push(Bytes::copy_from_slice(chunk), ends_here(payload))?;
            if ends_here(payload) {
                return Ok(());
            }
        }
        match end {
            None => Ok(()),
            Some([]) => self.push(Bytes::new(), true),
            Some(lines) => self.push_trailers(trailers::of_lines(lines)),
        }
    }

    /// Sends the head, if it is still to go. Whether that was all.
    fn poll_begin(&self, context: &mut Context<'_>, ends: bool) -> Poll<io::Result<bool>> {
        self.signals.note_task(context);
        if self.signals.is_disconnected() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let mut sending = self.sending.borrow_mut();
        let stream = match &mut *sending {
            Sending::Request(connection, head) => {
                ready!(connection.poll_ready(context)).map_err(broken)?;
                let head = head.take().ok_or(io::ErrorKind::InvalidInput)?;
                let (response, stream) = connection.send_request(*head, ends).map_err(broken)?;
                *self.receiving.borrow_mut() = Receiving::Response(response);
                stream
            }
            Sending::Response(respond, head) => {
                let head = head.take().ok_or(io::ErrorKind::InvalidInput)?;
                respond.send_response(*head, ends).map_err(broken)?
            }
            Sending::Body(_) => return Poll::Ready(Ok(false)),
            Sending::Ended(_) => return Poll::Ready(Ok(true)),
            Sending::Broken => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        *sending = if ends {
            Sending::Ended(stream)
        } else {
            Sending::Body(stream)
        };
        Poll::Ready(Ok(ends))
    }

    /// How many of `wanted` bytes the peer's windows have room for, once that is not none.
    fn poll_room(&self, context: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        self.signals.note_task(context);
        if self.signals.is_disconnected() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let mut sending = self.sending.borrow_mut();
        let Sending::Body(stream) = &mut *sending else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        stream.reserve_capacity(wanted);
        loop {
            let room = stream.capacity();
            if room > 0 {
                return Poll::Ready(Ok(room));
            }
            match ready!(stream.poll_capacity(context)) {
                Some(Ok(0)) => {}
                Some(Ok(room)) => return Poll::Ready(Ok(room)),
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
    }

    fn push(&self, payload: Bytes, ends: bool) -> io::Result<()> {
        self.with_body(ends, |stream| stream.send_data(payload, ends))
    }

    fn push_trailers(&self, trailers: HeaderMap) -> io::Result<()> {
        self.with_body(true, |stream| stream.send_trailers(trailers))
    }

    fn with_body(
        &self,
        ends: bool,
        send: impl FnOnce(&mut SendStream<Bytes>) -> Result<(), h2::Error>,
    ) -> io::Result<()> {
        let mut sending = self.sending.borrow_mut();
        match std::mem::replace(&mut *sending, Sending::Broken) {
            Sending::Body(mut stream) => {
                send(&mut stream).map_err(broken)?;
                *sending = if ends {
                    Sending::Ended(stream)
                } else {
                    Sending::Body(stream)
                };
                Ok(())
            }
            other => {
                *sending = other;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    /// Waits for the head of the response to what was sent.
    ///
    /// # Errors
    /// There will be none.
    pub(crate) async fn next_head(&self) -> Result<Head, h2::Error> {
        poll_fn(|context| self.poll_head(context)).await
    }

    fn poll_head(&self, context: &mut Context<'_>) -> Poll<Result<Head, h2::Error>> {
        self.signals.note_task(context);
        if self.signals.is_disconnected() {
            return Poll::Ready(Err(Reason::CANCEL.into()));
        }
        let mut receiving = self.receiving.borrow_mut();
        let response = match &mut *receiving {
            Receiving::Response(response) => response,
            // The connection was over before the request went out on it.
            Receiving::Unasked => return Poll::Ready(Err(Reason::REFUSED_STREAM.into())),
            Receiving::Body(_) | Receiving::Broken => {
                return Poll::Ready(Err(Reason::CANCEL.into()));
            }
        };
        let stream = response.stream_id().into();
        let usage = self.usage.as_ref();
        let is_malformed = || usage.is_some_and(|usage| usage.is_malformed(stream));
        if let Poll::Ready(Some(interim)) = response.poll_informational(context) {
            return Poll::Ready(match interim {
                Ok(_) if is_malformed() => Err(Reason::PROTOCOL_ERROR.into()),
                interim => interim.map(Head::Interim),
            });
        }
        let response = ready!(std::pin::Pin::new(response).poll(context));
        Poll::Ready(match response {
            Ok(_) if is_malformed() => {
                *receiving = Receiving::Broken;
                Err(Reason::PROTOCOL_ERROR.into())
            }
            Ok(response) => {
                let (parts, body) = response.into_parts();
                *receiving = Receiving::Body(Body::new(body));
                Ok(Head::Final(Response::from_parts(parts, ())))
            }
            Err(error) => {
                *receiving = Receiving::Broken;
                Err(error)
            }
        })
    }

    /// Reads body bytes into the room behind the buffer's; 0 at the end. What was read before has
    /// been sent on by now, so the peer may send as much again. While nothing comes, an empty buffer
    /// has no memory: a stream that waits would hold 68 KiB.
    ///
    /// # Errors
    /// The peer broke off, or `ECANCELED`.
    pub(crate) async fn read(&self, buffer: &mut Buffer, reads: Reads) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, buffer, reads)).await
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Buffer,
        reads: Reads,
    ) -> Poll<io::Result<usize>> {
        let signals = &self.signals;
        signals.note_task(context);
        if signals.is_disconnected() || signals.is_reading_stopped() {
            return Poll::Ready(Ok(0));
        }
        if reads == Reads::UntilCanceled && signals.takes_cancel() {
            return Poll::Ready(Err(io::Error::from_raw_os_error(libc::ECANCELED)));
        }
        match &mut *self.receiving.borrow_mut() {
            Receiving::Body(body) => body.poll_read(context, buffer),
            _ => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    /// Whether everything the peer sends has been read.
    pub(crate) fn is_read(&self) -> bool {
        match &*self.receiving.borrow() {
            Receiving::Body(body) => body.is_done(),
            _ => false,
        }
    }

    /// Shows the trailers that came: lines, each ended by CRLF.
    pub(crate) fn with_trailers(&self, take: impl FnOnce(&[u8])) {
        if let Receiving::Body(body) = &*self.receiving.borrow() {
            take(&body.trailers);
        }
    }

    /// Why the peer reset the stream, where the other side is to be told: it cancelled, or it is
    /// overloaded. Other reasons concern this connection alone.
    pub(crate) fn reset_by_peer(&self) -> Option<Reason> {
        let reason = match &*self.receiving.borrow() {
            Receiving::Body(body) => body.reset,
            _ => None,
        };
        reason.filter(|reason| [Reason::CANCEL, Reason::ENHANCE_YOUR_CALM].contains(reason))
    }

    /// Sets the reason for a reset to come.
    pub(crate) fn set_reset(&self, reason: Reason) {
        self.reset.set(reason);
    }

    /// Ends the stream for a reason other than that all is said.
    pub(crate) fn reset(&self) {
        let reason = self.reset.get();
        match &mut *self.sending.borrow_mut() {
            Sending::Response(respond, _) => respond.send_reset(reason),
            Sending::Body(stream) | Sending::Ended(stream) => stream.send_reset(reason),
            Sending::Request(..) | Sending::Broken => {}
        }
    }

    /// Looks whether the client has reset the stream or its connection is gone; the task is woken
    /// when that happens.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let gone = match &mut *self.sending.borrow_mut() {
            Sending::Response(respond, _) => respond.poll_reset(context).is_ready(),
            Sending::Body(stream) | Sending::Ended(stream) => stream.poll_reset(context).is_ready(),
            Sending::Request(..) => false,
            Sending::Broken => true,
        };
        if gone {
            self.signals.note_gone();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Body {
    fn new(stream: RecvStream) -> Self {
        Self {
            done: false,
            stream,
            left: Bytes::new(),
            lent: 0,
            trailers: Vec::new(),
            reset: None,
        }
    }

    fn is_done(&self) -> bool {
        self.done || (self.left.is_empty() && self.stream.is_end_stream())
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Buffer,
    ) -> Poll<io::Result<usize>> {
        let lent = std::mem::take(&mut self.lent);
        if lent > 0 {
            // It fails where the stream is closed, and then no window matters any more.
            let _ = self.stream.flow_control().release_capacity(lent);
        }
        loop {
            self.hand_out(buffer);
            if self.done || !self.left.is_empty() {
                break;
            }
            match self.poll_next(context) {
                Poll::Ready(Ok(())) => {}
                // It comes again when what is there was taken.
                Poll::Ready(Err(_)) | Poll::Pending if self.lent > 0 => break,
                Poll::Ready(Err(error)) => {
                    self.reset = error.reason().filter(|_| error.is_remote());
                    return Poll::Ready(Err(broken(error)));
                }
                Poll::Pending => {
                    buffer.release();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(self.lent))
    }

    /// Moves what came to the reader's buffer, as far as there is room.
    fn hand_out(&mut self, buffer: &mut Buffer) {
        if buffer.room() < self.left.len() {
            buffer.grow();
        }
        let count = buffer.room().min(self.left.len());
        if buffer.append(self.left.get(..count).unwrap_or_default()) {
            self.left.advance(count);
            self.lent = self.lent.saturating_add(count);
        }
    }

    /// Takes the next bytes, or the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        if let Some(data) = ready!(self.stream.poll_data(context)) {
            self.left = data?;
            return Poll::Ready(Ok(()));
        }
        if let Some(map) = ready!(self.stream.poll_trailers(context))? {
            trailers::write_lines(&map, &mut self.trailers);
        }
        self.done = true;
        Poll::Ready(Ok(()))
    }
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

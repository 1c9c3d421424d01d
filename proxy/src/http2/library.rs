//! One stream of an HTTP/2 connection of the `h2` crate: a head and bytes in each direction.
//!
//! Owned by one task, which reads and writes concurrently. Bytes read count against the peer's
//! window until the task reads again: by then they have been forwarded. A head waits for the first
//! bytes after it, so that a message without a body is one frame.

mod body;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};

use crate::http::engine::error::Code;
use crate::http::h1::encode::{DownstreamResponse, LocalResponse};
use crate::http::h2::encode::{self, Switch};
use crate::http::h2::trailers;
use crate::http::known::KnownHeader;
use crate::memory::Buffer;
use crate::shard::signals::Signals;

use self::body::Body;
use super::stream::{Head, ReadMode};
use super::usage::Usage;

pub(crate) struct LibraryStream {
    /// Its connection, which detects malformed messages.
    usage: Rc<Usage>,
    signals: Rc<Signals>,
    /// Whether it requests a tunnel.
    tunnels: Cell<bool>,
    /// The reset code if the outgoing message cannot be completed.
    reset: Cell<Code>,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
}

/// The state of the outgoing message.
enum Sending {
    /// Not started; the head may be known.
    Request(SendRequest<Bytes>, Option<Box<Request<()>>>),
    /// Not started; the head may be known.
    Response(SendResponse<Bytes>, Option<Box<Response<()>>>),
    /// The head was sent, and perhaps some of the body.
    Body(SendStream<Bytes>),
    Ended(SendStream<Bytes>),
    Broken,
}

/// The state of the incoming message.
enum Receiving {
    /// None expected: the request was not sent.
    NotRequested,
    /// The response head is expected.
    Response(ResponseFuture),
    Body(Body),
    Broken,
}

impl LibraryStream {
    /// A client's stream: its request body, and the handle for the response.
    pub(crate) fn accepted(
        body: RecvStream,
        respond: SendResponse<Bytes>,
        usage: Rc<Usage>,
    ) -> Self {
        Self {
            usage,
            signals: Rc::default(),
            tunnels: Cell::new(false),
            reset: Cell::new(Code::INTERNAL_ERROR),
            sending: RefCell::new(Sending::Response(respond, None)),
            receiving: RefCell::new(Receiving::Body(Body::new(body))),
        }
    }

    /// A stream for an upstream request.
    pub(crate) fn to_open(connection: SendRequest<Bytes>, usage: Rc<Usage>) -> Self {
        Self {
            usage,
            signals: Rc::default(),
            tunnels: Cell::new(false),
            reset: Cell::new(Code::INTERNAL_ERROR),
            sending: RefCell::new(Sending::Request(connection, None)),
            receiving: RefCell::new(Receiving::NotRequested),
        }
    }

    pub(crate) fn signals(&self) -> &Rc<Signals> {
        &self.signals
    }

    /// Whether and how an upgrade can be requested from the server.
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

    /// Whether the request opens a tunnel.
    pub(crate) fn tunnels(&self) -> bool {
        self.tunnels.get()
    }

    /// Sets the request head to send with the next bytes.
    pub(crate) fn put_request(&self, request: Request<()>) {
        self.tunnels.set(request.method() == http::Method::CONNECT);
        if let Sending::Request(_, head) = &mut *self.sending.borrow_mut() {
            *head = Some(Box::new(request));
        }
    }

    /// Sets the response head to send with the next bytes, without the fields that `drop` selects.
    pub(crate) fn put_response(
        &self,
        response: &DownstreamResponse<'_>,
        drop: impl Fn(KnownHeader, &[u8]) -> bool,
    ) {
        self.put_head(encode::response(response, drop));
    }

    /// Sets the head of a local response to send with the next bytes. Returns the body that follows
    /// it.
    pub(crate) fn put_local_response<'r>(&self, response: &LocalResponse<'r>) -> &'r [u8] {
        let (head, body) = encode::local_response(response);
        self.put_head(head);
        body
    }

    fn put_head(&self, response: Response<()>) {
        if let Sending::Response(_, head) = &mut *self.sending.borrow_mut() {
            *head = Some(Box::new(response));
        }
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
        self.inform(encode::response(response, drop))
    }

    /// Sends `100 Continue`.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) fn send_continue(&self) -> io::Result<()> {
        self.inform(encode::continue_response())
    }

    fn inform(&self, response: Response<()>) -> io::Result<()> {
        match &mut *self.sending.borrow_mut() {
            Sending::Response(respond, _) => respond.send_informational(response).map_err(broken),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends the head, if not sent yet, then `payload`; and with `end`, trailer lines or none, the
    /// end. Data within the peer's window is sent without further waiting.
    ///
    /// # Errors
    ///
    /// The peer is gone, or accepted nothing until the deadline.
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
            self.signals.record_sent(chunk.len());
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

    /// Sends the head, if not sent yet. Returns whether that completed the message.
    fn poll_begin(&self, context: &mut Context<'_>, ends: bool) -> Poll<io::Result<bool>> {
        self.signals.set_task(context);
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

    /// How many of `wanted` bytes fit into the peer's windows, once any do.
    fn poll_room(&self, context: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        self.signals.set_task(context);
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

    /// Waits for the response head.
    ///
    /// # Errors
    ///
    /// There will be none.
    pub(crate) async fn next_head(&self) -> Result<Head, h2::Error> {
        poll_fn(|context| self.poll_head(context)).await
    }

    fn poll_head(&self, context: &mut Context<'_>) -> Poll<Result<Head, h2::Error>> {
        self.signals.set_task(context);
        if self.signals.is_disconnected() {
            return Poll::Ready(Err(Reason::CANCEL.into()));
        }
        let mut receiving = self.receiving.borrow_mut();
        let response = match &mut *receiving {
            Receiving::Response(response) => response,
            // The connection ended before the request was sent on it.
            Receiving::NotRequested => return Poll::Ready(Err(Reason::REFUSED_STREAM.into())),
            Receiving::Body(_) | Receiving::Broken => {
                return Poll::Ready(Err(Reason::CANCEL.into()));
            }
        };
        let stream = response.stream_id().into();
        let is_malformed = || self.usage.is_malformed(stream);
        let attribute = |error| self.usage.attribute(error, stream);
        if let Poll::Ready(Some(interim)) = response.poll_informational(context) {
            return Poll::Ready(match interim {
                Ok(_) if is_malformed() => Err(Reason::PROTOCOL_ERROR.into()),
                interim => interim.map(Head::Interim).map_err(attribute),
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
                Err(attribute(error))
            }
        })
    }

    /// Reads body bytes behind those in the buffer; 0 at the end. Bytes read before have been
    /// forwarded by now, so the peer may send as many again. While waiting, an empty buffer has no
    /// memory: a waiting stream would hold 68 KiB.
    ///
    /// # Errors
    ///
    /// The peer reset the stream, or `ECANCELED`.
    pub(crate) async fn read(&self, buffer: &mut Buffer, read_mode: ReadMode) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, buffer, read_mode)).await
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Buffer,
        read_mode: ReadMode,
    ) -> Poll<io::Result<usize>> {
        let signals = &self.signals;
        signals.set_task(context);
        if signals.is_disconnected() || signals.is_reading_stopped() {
            return Poll::Ready(Ok(0));
        }
        if read_mode == ReadMode::Cancelable && signals.takes_cancel() {
            return Poll::Ready(Err(io::Error::from_raw_os_error(libc::ECANCELED)));
        }
        let mut is_malformed = false;
        let polled = match &mut *self.receiving.borrow_mut() {
            Receiving::Body(body) => {
                let polled = body.poll_read(context, buffer, &self.usage);
                is_malformed = body.is_malformed();
                polled
            }
            _ => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        };
        if is_malformed {
            self.set_reset(Code::PROTOCOL_ERROR);
            self.reset();
        }
        polled
    }

    /// Whether a whole response was sent before the end of its request.
    pub(crate) fn has_early_response(&self) -> bool {
        matches!(&*self.sending.borrow(), Sending::Ended(_)) && !self.is_read()
    }

    /// Receives and drops bytes of the body. Returns whether there may be more: not after the end, a reset,
    /// or the deadline.
    pub(crate) async fn drop_bytes(&self) -> bool {
        poll_fn(|context| {
            self.signals.set_task(context);
            if self.signals.is_disconnected() {
                return Poll::Ready(false);
            }
            match &mut *self.receiving.borrow_mut() {
                Receiving::Body(body) => body.poll_drop(context),
                _ => Poll::Ready(false),
            }
        })
        .await
    }

    /// Whether everything from the peer has been read.
    pub(crate) fn is_read(&self) -> bool {
        match &*self.receiving.borrow() {
            Receiving::Body(body) => body.is_done(),
            _ => false,
        }
    }

    /// Passes the received trailers to `take`: lines, each terminated by CRLF.
    pub(crate) fn with_trailers(&self, take: impl FnOnce(&[u8])) {
        if let Receiving::Body(body) = &*self.receiving.borrow() {
            take(&body.trailers);
        }
    }

    /// The peer's reset code, if it concerns the other side: cancelled or overloaded. Other codes
    /// concern this connection only.
    pub(crate) fn reset_by_peer(&self) -> Option<Code> {
        let reason = match &*self.receiving.borrow() {
            Receiving::Body(body) => body.reset,
            _ => None,
        };
        let code = reason.map(|reason| Code(reason.into()));
        code.filter(|code| code.concerns_other_side())
    }

    /// Sets the code of a later reset.
    pub(crate) fn set_reset(&self, code: Code) {
        self.reset.set(code);
    }

    /// Sends `RST_STREAM`, so that the peer stops sending.
    pub(crate) fn reset(&self) {
        let reason = Reason::from(self.reset.get().0);
        match &mut *self.sending.borrow_mut() {
            Sending::Response(respond, _) => respond.send_reset(reason),
            Sending::Body(stream) | Sending::Ended(stream) => stream.send_reset(reason),
            Sending::Request(..) | Sending::Broken => {}
        }
    }

    /// Checks whether the client has reset the stream or its connection is gone; the task is woken
    /// when that happens.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        let gone = match &mut *self.sending.borrow_mut() {
            Sending::Response(respond, _) => respond.poll_reset(context).is_ready(),
            Sending::Body(stream) | Sending::Ended(stream) => stream.poll_reset(context).is_ready(),
            Sending::Request(..) => false,
            Sending::Broken => true,
        };
        if gone {
            self.signals.record_disconnect();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

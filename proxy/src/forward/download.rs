//! Transfers the response to the client.

use std::io;
use std::time::Duration;

use crate::channel::Channel;
use crate::channel::relay::{OutgoingFraming, ReadMode, Relay, RelayError, Side, Transferred};
use crate::exchange::NextStep;
use crate::exchange::scratch::Received;
use crate::exchange::{ConnectionOutcome, Holds, Proxy, RateLimited, RequestRecord};
use crate::failure::{Failure, FailureKind};
use crate::http::grpc;
use crate::http::h1::body::BodyDecoder;
use crate::http::h1::encode::{DownstreamResponse, Persist};
use crate::http::h1::{
    HeadError, HeadLimits, HeadScan, Progress, RequestKind, ResponseError, parse_response,
};
use crate::http::head::{Framing, ResponseHead, Version};
use crate::http::known::KnownHeader;
use crate::http::websocket;
use crate::http2::Stream;
use crate::limits::{INTERIM_RESPONSES, WHEEL_TICK};
use crate::memory::Buffer;
use crate::policy::cors::Cors;
use crate::policy::mutation::{HeaderMutation, Mutation};
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::shard::tasks::TaskState;
use crate::upstream::connect::read_failure;
use crate::upstream::h2::failure_before_head;
use crate::upstream::picker::Pick;
use crate::upstream::pool::Connection;
use crate::upstream::retry::{NoRetryReason, Replay};

use super::attempt::{Attempt, AttemptEnd};
use super::request_attempts::RequestAttempts;

/// How a response ended.
pub(crate) enum ResponseEnd {
    /// It was sent completely.
    Whole {
        /// Whether the connection to the endpoint can be used again.
        reusable: bool,
        after: ConnectionOutcome,
    },
    /// The protocol was switched on both sides.
    Switched,
}

/// A response being received.
pub(crate) struct Download<'a, 't> {
    pub(super) attempt: &'a Attempt<'a>,
    pub(super) connection: &'a Connection,
    /// Bytes read from the endpoint.
    pub(super) buffer: &'a mut Buffer,
    pub(super) tries: &'a mut RequestAttempts<'t>,
    /// Number of interim responses.
    pub(super) interims: u32,
    /// How an early read of the response has ended, if not with bytes.
    pub(super) early_end: Option<io::Result<usize>>,
    /// Whether the timeouts of the response head were set.
    pub(super) is_timed: bool,
}

/// The parts of an exchange that its response uses; the request body uses the others.
pub(crate) struct ResponseSide<'e, 'x> {
    pub(crate) client: Side<'e>,
    pub(crate) version: Version,
    pub(crate) request_kind: RequestKind,
    pub(crate) limits: HeadLimits,
    /// Whether the client's connection may be kept alive.
    pub(crate) persist: Persist,
    pub(crate) response: &'e mut ResponseHead,
    pub(crate) decoder: &'e mut BodyDecoder,
    pub(crate) lines: &'e mut Vec<u8>,
    pub(crate) out: &'e mut Vec<u8>,
    pub(crate) record: &'e mut RequestRecord<'x>,
    /// Index of the client's bind.
    pub(crate) bind: u32,
    /// The request's Origin, for CORS.
    pub(crate) origin: Option<&'e [u8]>,
    pub(crate) received: &'e Received,
    /// The endpoint picker, if it processes responses.
    pub(crate) picked: Option<&'e mut Pick<'x>>,
    /// What rate limits tell the client.
    pub(crate) rate_limited: Option<&'e RateLimited>,
    /// For pages of servers.
    pub(crate) proxy: &'e Proxy,
    pub(crate) holds: &'e Holds,
    /// The changes of the response head by authorization servers.
    pub(crate) granted: Option<&'e HeaderMutation>,
    /// All changes of the response head, of the picker too.
    pub(crate) changed: Mutation,
}

impl Download<'_, '_> {
    /// Reads what arrives of the response within an iteration, if that saves system calls. It needs no timeouts.
    pub(super) async fn read_early(&mut self) {
        let Some(socket) = self.connection.stream.as_socket() else {
            return;
        };
        let read = || socket.read_some_now(self.buffer);
        let read = self.connection.deadline.postpone(read).await;
        self.early_end = read.filter(|read| !matches!(read, Ok(1..)));
    }

    /// Sets the timeout of the response head while its request is sent: the others begin with the end of that.
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.is_timed = true;
        self.connection.deadline.arm(timeout, Expiry::Disconnect);
    }

    /// Starts the timeouts of the response head, unless one was set.
    fn expect_head(&mut self, side: &ResponseSide<'_, '_>) {
        if std::mem::replace(&mut self.is_timed, true) {
            return;
        }
        self.connection
            .deadline
            .arm(self.attempt.head_timeout(), Expiry::Disconnect);
        // Detects a client that disconnects, while its socket is not used otherwise.
        let other = self.connection.stream.cutoff();
        side.client.deadline.watch(other, WHEEL_TICK);
    }

    /// Reads the head of the final response and passes interim ones on. Returns its length: it
    /// stays at the front of the buffer.
    pub(super) async fn head(
        &mut self,
        side: &mut ResponseSide<'_, '_>,
        shard: &Shard,
    ) -> Result<usize, Failure> {
        if let Some(stream) = self.connection.stream.as_h2() {
            return Box::pin(self.head_from_stream(stream, side)).await;
        }
        let mut scan = HeadScan::default();
        loop {
            if !self.buffer.is_empty() {
                let bytes = self.buffer.filled();
                match parse_response(
                    bytes,
                    side.request_kind,
                    &side.limits,
                    &mut scan,
                    side.response,
                )? {
                    Progress::Complete { len } if side.response.is_interim() => {
                        self.pass_on_interim(len, side).await?;
                        continue;
                    }
                    Progress::Complete { len } => return Ok(len),
                    Progress::Partial => {}
                }
            }
            self.buffer.make_room();
            let read = self.read(side).await;
            if self.connection.deadline.expired() {
                return Err(FailureKind::UpstreamTimeout.into());
            }
            match read {
                // The connection may have been closed before the request arrived.
                Ok(0) if self.is_silent() => return Err(FailureKind::UpstreamClosed.into()),
                Err(error) if self.is_silent() => {
                    let endpoint = self.attempt.endpoint;
                    return Err(read_failure(shard, endpoint, self.connection, &error));
                }
                Ok(0) | Err(_) => {
                    return Err(Failure::because(
                        FailureKind::UpstreamGarbage,
                        "head cut short",
                    ));
                }
                Ok(_) => {}
            }
        }
    }

    async fn read(&mut self, side: &ResponseSide<'_, '_>) -> io::Result<usize> {
        if let Some(end) = self.early_end.take() {
            return end;
        }
        self.expect_head(side);
        self.connection.stream.read_some(self.buffer).await
    }

    /// As [`Download::head`], over HTTP/2.
    async fn head_from_stream(
        &mut self,
        stream: &Stream,
        side: &mut ResponseSide<'_, '_>,
    ) -> Result<usize, Failure> {
        self.expect_head(side);
        loop {
            let head = stream.next_head().await;
            if self.connection.deadline.expired() {
                return Err(FailureKind::UpstreamTimeout.into());
            }
            let mut received = head.map_err(failure_before_head)?;
            let checked = received
                .head
                .check_limits(received.bytes.len(), &side.limits);
            checked.map_err(ResponseError::from)?;
            std::mem::swap(side.response, &mut received.head);
            let length = received.bytes.len();
            self.buffer.reserve(length);
            let fits = self.buffer.append(&received.bytes);
            stream.put_back(received);
            if !fits {
                return Err(ResponseError::from(HeadError::HeadTooLarge).into());
            }
            if !side.response.is_interim() {
                side.complete_handshake();
                return Ok(length);
            }
            self.pass_on_interim(length, side).await?;
        }
    }

    fn is_silent(&self) -> bool {
        self.buffer.is_empty() && self.interims == 0
    }

    /// RFC 9110 section 15.2: interim responses are passed on, except to HTTP/1.0.
    async fn pass_on_interim(
        &mut self,
        length: usize,
        side: &mut ResponseSide<'_, '_>,
    ) -> Result<(), Failure> {
        self.interims += 1;
        if self.interims > INTERIM_RESPONSES {
            return Err(Failure::because(
                FailureKind::UpstreamGarbage,
                "too many interim responses",
            ));
        }
        // 100 concerns only the gateway and the endpoint: the gateway sends its own to the client.
        if side.version != Version::Http10 && side.response.status != 100 {
            let edits = self.attempt.response_edits();
            let response = DownstreamResponse {
                head: side.response,
                bytes: self.buffer.filled(),
                client: side.version,
                persist: Persist::Keep,
                append: b"",
            };
            let drops = |_, name: &[u8]| edits.is_some_and(|edits| edits.drops(name));
            side.client.arm(Expiry::Disconnect);
            let sent = match side.client.stream {
                Channel::Socket(socket) => {
                    // It may hold the response to an earlier request, of another client even.
                    side.out.clear();
                    response.encode(side.out, drops);
                    socket.write_vec(side.out).await
                }
                Channel::H2(stream) => stream.send_interim(&response, drops),
            };
            side.out.clear();
            // Resume watching for the client's disconnect.
            let other = self.connection.stream.cutoff();
            side.client.deadline.watch(other, WHEEL_TICK);
            sent.map_err(|_| FailureKind::ClientGone)?;
        }
        self.buffer.consume(length);
        Ok(())
    }

    /// Reports the endpoint's result.
    ///
    /// # Errors
    ///
    /// The response is dropped: for a retry, or because the service's retry budget is exhausted.
    pub(super) fn report_result(
        &mut self,
        side: &mut ResponseSide<'_, '_>,
        replay: Replay,
    ) -> Result<(), AttemptEnd> {
        let status = side.response.status;
        self.attempt.report_response(status, side.record);
        let reserved = self.tries.reserve_retry_of_status(status, replay);
        let refused = reserved.err().and_then(NoRetryReason::failure);
        if let Some(trace) = &side.record.trace {
            trace.response(side.response, self.buffer.filled());
            self.attempt.trace_answer(trace, status);
            if reserved.is_ok() || refused.is_some() {
                trace.retry(format!("status {status}"), reserved.err());
            }
        }
        match (reserved, refused) {
            (Ok(()), _) => Err(AttemptEnd::Retry),
            (Err(_), Some(failure)) => Err(AttemptEnd::Final(failure.into())),
            (Err(_), None) => Ok(()),
        }
    }

    /// Sends the response whose head has `length` bytes. `uploaded` tells whether the request was
    /// sent completely: otherwise the connection cannot be reused.
    pub(super) async fn respond(
        &mut self,
        length: usize,
        side: &mut ResponseSide<'_, '_>,
        shard: &Shard,
        uploaded: impl Fn() -> bool,
    ) -> Result<ResponseEnd, Failure> {
        shard.set_task_state(TaskState::Responding);
        side.refuse_false_tunnel()?;
        let framing = side.response.framing;
        let resent = framing.reframed_for(side.version);
        side.limit_persistence(&uploaded, resent, shard);
        let page = self.page_instead(length, side);
        if side.picked.is_some() {
            let response = (length, page.is_some());
            // Boxed: few requests have a picker.
            let passed = Box::pin(self.through_picker(response, side, shard, &uploaded));
            if let Some(end) = passed.await? {
                return Ok(end);
            }
        }
        if let Some(page) = page {
            let context = (shard, &uploaded);
            // Boxed: few responses have a page.
            return Box::pin(self.respond_with_page(length, side, page, context)).await;
        }
        let head = self.buffer.filled().get(..length).unwrap_or_default();
        self.attempt.encode_head(head, side, |_| false);
        self.buffer.consume(length);
        side.decoder
            .reset(self.connection.stream.body_framing(framing));
        let relay = Relay {
            from: self.attempt.download_side(self.connection),
            to: side.client,
            outward: OutgoingFraming::of(resent),
            limit: None,
            min_rate: 0,
            read_mode: ReadMode::UntilReceiverGone,
            // While the request is being sent, splicing would block its sockets.
            pipes: uploaded().then_some(&shard.pipes),
        };
        // Nothing has been sent yet, so a malformed start of the body can still become a 502.
        let first = relay
            .first(self.buffer, side.decoder)
            .map_err(|error| Failure::because(FailureKind::UpstreamGarbage, error.reason()))?;
        (side.record.status, side.record.answered) = (side.response.status, true);
        let switched = side.response.status == 101;
        if switched && side.begin_tunnel().await? {
            return Ok(ResponseEnd::Switched);
        }
        let mut moved = Transferred::default();
        let relayed = relay
            .run(
                side.out,
                self.buffer,
                side.decoder,
                first,
                &mut moved,
                &mut (),
            )
            .await;
        side.record.bytes_out = moved.payload;
        side.record_end(relayed.is_ok(), &self.connection.stream);
        relayed.map_err(RelayError::of_download)?;
        if switched {
            return Ok(ResponseEnd::Switched);
        }
        let is_uploaded = uploaded();
        Ok(side.end(framing, is_uploaded, is_uploaded, shard))
    }
}

impl Attempt<'_> {
    /// Encodes the head of the response, which was parsed from these bytes, for the client.
    /// Leaves out the fields that `replaces` selects.
    pub(super) fn encode_head(
        &self,
        bytes: &[u8],
        side: &mut ResponseSide<'_, '_>,
        replaces: impl Fn(&[u8]) -> bool,
    ) {
        side.take_granted(bytes);
        let (edits, cors) = (self.response_edits(), self.cors());
        let status = side.response.fields.value(KnownHeader::GrpcStatus, bytes);
        side.record.grpc_status = status.and_then(grpc::parse_status);
        if let Some(cors) = cors {
            cors.write_lines(
                side.origin,
                Some((&side.response.fields, bytes)),
                side.lines,
            );
        }
        if let Some(edits) = edits {
            side.lines.extend_from_slice(edits.appended());
        }
        side.lines.extend_from_slice(side.changed.lines());
        let limited = side.rate_limited;
        if let Some(limited) = limited {
            limited.write_fields(side.lines);
        }
        side.out.clear();
        let changed = &side.changed;
        let response = DownstreamResponse {
            head: side.response,
            bytes,
            client: side.version,
            persist: side.persist,
            append: side.lines,
        };
        // RFC 8441 section 5.1: the client expects our own key's answer.
        let switched_in_h2 = side.response.status == 101 && side.response.version == Version::Http2;
        let drops = |_, name: &[u8]| {
            edits.is_some_and(|edits| edits.drops(name))
                || (cors.is_some() && Cors::drops(name))
                || changed.drops(name)
                || replaces(name)
                || limited.is_some_and(|it| it.has(name))
                || (switched_in_h2 && name.eq_ignore_ascii_case(websocket::ACCEPT))
        };
        match side.client.stream.as_h2() {
            None => response.encode(side.out, drops),
            Some(stream) => stream.put_response(&response, drops),
        }
    }
}

impl ResponseSide<'_, '_> {
    /// Any status of success opens a tunnel of HTTP/2 (RFC 8441 section 5): a response with a body must not have one.
    fn refuse_false_tunnel(&self) -> Result<(), Failure> {
        if matches!(self.response.status, 200..=299) && self.received.is_extended_connect() {
            return Err(FailureKind::NoWebSocket.into());
        }
        Ok(())
    }

    /// Adds the edits of authorization servers to those of the endpoint picker, once.
    pub(super) fn take_granted(&mut self, head: &[u8]) {
        let Some(granted) = self.granted.take() else {
            return;
        };
        let fields = &self.response.fields;
        let taken = self
            .changed
            .take(granted, |name| fields.has_name(name, head));
        if let Err(error) = taken {
            tracing::debug!(%error, "edits of the response head by an authorization server are ignored");
        }
    }

    /// Whether the client's connection can still be kept alive.
    fn limit_persistence(&mut self, uploaded: &impl Fn() -> bool, resent: Framing, shard: &Shard) {
        // A response before the end of the request is often an error, and the rest of the request
        // not worth reading.
        if (!uploaded() && self.response.status >= 300)
            || resent == Framing::UntilClose
            || shard.ends_connections(self.bind)
        {
            self.persist = Persist::Close;
        }
    }

    /// The end of a response that was sent completely. `is_read` tells whether the endpoint has
    /// been read to the end, too.
    pub(super) fn end(
        &self,
        framing: Framing,
        uploaded: bool,
        is_read: bool,
        shard: &Shard,
    ) -> ResponseEnd {
        let reusable = self.response.keep_alive && framing != Framing::UntilClose && is_read;
        ResponseEnd::Whole {
            reusable: reusable && !shard.draining.get(),
            after: self.after(uploaded),
        }
    }

    /// What happens to the client's connection after the response.
    fn after(&self, uploaded: bool) -> ConnectionOutcome {
        match self.persist {
            Persist::Keep if uploaded => ConnectionOutcome::KeepAlive,
            Persist::Close if uploaded => ConnectionOutcome::close(self.client.stream),
            // More of the request may arrive, and must not reset the response.
            _ => ConnectionOutcome::End(NextStep::Linger),
        }
    }

    /// Completes the WebSocket handshake for an HTTP/1 client of an HTTP/2 backend.
    fn complete_handshake(&mut self) {
        let key = self.received.value(websocket::KEY);
        if let (101, Some(key)) = (self.response.status, key)
            && self.version != Version::Http2
        {
            websocket::write_accept(key, self.lines);
        }
    }

    /// Records how a body ended. After that of a gRPC call come the trailers with its status.
    pub(super) fn record_end(&mut self, is_whole: bool, upstream: &Channel) {
        if !is_whole {
            self.client.stream.forward_reset(upstream);
        } else if self.record.is_grpc
            && let Some(status) = grpc::status_of_trailers(self.decoder.trailers())
        {
            self.record.grpc_status = Some(status);
        }
    }

    /// Sends the head of a switched stream without ending it. `false` if the client has a socket,
    /// over which the head is sent as usual.
    async fn begin_tunnel(&mut self) -> Result<bool, Failure> {
        let Some(stream) = self.client.stream.as_h2() else {
            return Ok(false);
        };
        let sent = stream.send(b"", None).await;
        sent.map_err(|_| FailureKind::ClientGone)?;
        Ok(true)
    }
}

//! gRPC calls that a shard makes itself: to authorization services and endpoint pickers.
//!
//! A call is one stream over the shard's own HTTP/2 connections ([`super::h2`]), with load
//! balancing, pooling and health checks as for requests: no second runtime, no thread, no extra
//! hop. [`unary`] sends one message and waits for one response. A [`Call`] streams both ways:
//! [`Call::send`] and [`CallMessages::next`] may wait at the same time, in one task. Dropping a
//! call cancels it.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use prost::Message;
use thiserror::Error;

use super::Upstreams;
use super::both_ways::first_until_second;
use super::h2::failure_before_head;
use super::health::Outcome;
use super::reach::{EndpointConnection, reach};
use crate::config::{Cluster, Endpoint, Protocol};
use crate::failure::{Failure, FailureKind};
use crate::http::engine::SectionWriter;
use crate::http::engine::encode::Switch;
use crate::http::grpc;
use crate::http::grpc_message::{self, Assembler, MessageError};
use crate::http::h1::RequestKind;
use crate::http::known::KnownHeader;
use crate::http2::{NoHead, ReadMode, ReceivedHead, Stream};
use crate::limits::{CALL_MESSAGE_BYTES, WHEEL_TICK};
use crate::memory::{Buffer, BufferPool};
use crate::names::Interned;
use crate::shard::cutoff::Cutoff;
use crate::shard::deadline::{Deadline, Expiry};

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum CallError {
    /// No endpoint could be reached, so none has seen the call.
    #[error("cannot connect: {0}")]
    Unreached(Failure),
    /// The call ended with a gRPC status other than `OK`.
    #[error("ended with gRPC status {0}")]
    Status(u32),
    /// The call timed out.
    #[error("took too long")]
    TooLate,
    /// The endpoint refused the call, or may have closed an idle connection before it saw the call,
    /// which can be made again.
    #[error("refused without processing it")]
    Unprocessed,
    /// The endpoint closed the connection or the stream before it had responded.
    #[error("connection closed early")]
    Broken,
    /// The response is not gRPC.
    #[error("not a gRPC response: {0}")]
    NoGrpc(&'static str),
    /// The response contains a malformed gRPC message.
    #[error("malformed gRPC message in the response: {0}")]
    Message(#[from] MessageError),
}

impl CallError {
    /// A short text for counters and logs.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Unreached(failure) => failure.kind.reason(),
            Self::Status(_) => "gRPC error status",
            Self::TooLate => "timed out",
            Self::Unprocessed | Self::Broken => "connection closed early",
            Self::NoGrpc(why) => why,
            Self::Message(_) => "malformed gRPC message in the response",
        }
    }
}

/// Whether the gateway sends more messages in this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Follow,
    /// This message is the last one.
    No,
}

/// Our side of a call in progress.
pub(crate) struct Call<'a> {
    reached: EndpointConnection<'a>,
    client: Client<'a>,
    /// Whether an endpoint refused it before: it is made no third time.
    is_repeated: bool,
}

/// The client that a call is made for. If it disconnects, the call is cancelled.
pub(crate) type Client<'a> = Option<&'a Deadline>;

pub(crate) struct CallMessages {
    pool: Rc<BufferPool>,
    buffer: Buffer,
    assembler: Assembler,
    state: State,
}

/// How much of the response has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The request was sent; nothing has arrived.
    Sent,
    Open,
    Ended,
}

/// A unary call: sends a message and waits for the response, until `timeout` or until the client
/// disconnects.
///
/// # Errors
///
/// The call failed.
pub(crate) async fn unary<A: Message + Default>(
    upstreams: &Upstreams,
    cluster: &Cluster,
    method: &'static str,
    question: &impl Message,
    timeout: Duration,
    client: Client<'_>,
) -> Result<A, CallError> {
    let until = Instant::now() + timeout;
    let mut refused_by = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let to = (cluster, refused_by);
        let begun = Call::begin(upstreams, to, method, left, Some(left), client);
        let (call, mut messages) = begun.await?;
        call.watch_client();
        call.wait_at_most(Some(until.saturating_duration_since(Instant::now())));
        let sending = async {
            // The response tells why it failed: an endpoint may respond before it has read all.
            let _ = call.send(question, More::No).await;
        };
        let receiving = messages.only(&call);
        let stop = || call.reached.connection.stream.disconnect();
        let result = first_until_second(pin!(sending), pin!(receiving), stop).await;
        // A client that left before the next call would not be noticed during it.
        call.unwatch_client();
        match result {
            Err(CallError::Unprocessed) => refused_by = Some(call.endpoint().id),
            result => return result,
        }
    }
}

impl<'a> Call<'a> {
    /// Opens a call of `method` (`/package.Service/Method`) at an endpoint of the cluster; if that
    /// endpoint cannot be reached, at another one. Connecting takes at most `timeout`. A call that
    /// ended with [`CallError::Unprocessed`] is made again with the endpoint that refused it, which is
    /// used only if there is no other.
    ///
    /// # Errors
    ///
    /// [`CallError::Unreached`].
    pub(crate) async fn open(
        upstreams: &'a Upstreams,
        (cluster, refused_by): (&'a Cluster, Option<Interned>),
        method: &'static str,
        timeout: Duration,
        client: Client<'a>,
    ) -> Result<(Self, CallMessages), CallError> {
        let to = (cluster, refused_by);
        Self::begin(upstreams, to, method, timeout, None, client).await
    }

    /// Like [`Call::open`]; `promised` is sent to the endpoint as `grpc-timeout`.
    async fn begin(
        upstreams: &'a Upstreams,
        (cluster, refused_by): (&'a Cluster, Option<Interned>),
        method: &'static str,
        timeout: Duration,
        promised: Option<Duration>,
        client: Client<'a>,
    ) -> Result<(Self, CallMessages), CallError> {
        let until = Instant::now() + timeout;
        let time = (until, Some(Outcome::Failure));
        let reached = reach(upstreams, cluster, Protocol::Http2, refused_by, time).await;
        let reached = reached.map_err(CallError::Unreached)?;
        let stream = reached.connection.stream.as_h2();
        let stream = stream.expect("what is opened for HTTP/2 is a stream of it");
        stream.put_request(RequestKind::Other, |head| {
            write_head(cluster, reached.endpoint, (method, promised), head);
            Switch::Ignored
        });
        let pool = Rc::clone(&upstreams.shard.buffers);
        let messages = CallMessages {
            buffer: pool.take_small(),
            pool,
            assembler: Assembler::new(CALL_MESSAGE_BYTES),
            state: State::Sent,
        };
        let call = Self {
            reached,
            client,
            is_repeated: refused_by.is_some(),
        };
        Ok((call, messages))
    }

    pub(crate) fn endpoint(&self) -> &'a Endpoint {
        self.reached.endpoint
    }

    /// Ends the call when the client disconnects, until the client's deadline is disarmed.
    pub(crate) fn watch_client(&self) {
        let Some(client) = self.client else { return };
        client.watch(self.cutoff(), WHEEL_TICK);
    }

    fn unwatch_client(&self) {
        if let Some(client) = self.client {
            client.disarm();
        }
    }

    /// Cancels the call from another task.
    pub(crate) fn cutoff(&self) -> Cutoff {
        self.reached.connection.stream.cutoff()
    }

    /// Ends the call: whatever waits for it fails.
    pub(crate) fn cancel(&self) {
        self.reached.connection.stream.disconnect();
    }

    fn is_abandoned(&self) -> bool {
        self.client.is_some_and(Deadline::has_expired)
    }

    /// Sets the timeout for all that follows, until it is set again; `None` for no timeout.
    pub(crate) fn wait_at_most(&self, timeout: Option<Duration>) {
        self.reached
            .connection
            .deadline
            .arm(timeout, Expiry::Disconnect);
    }

    /// Sends a message, as soon as flow control allows.
    ///
    /// # Errors
    ///
    /// [`CallError::TooLate`], or [`CallError::Broken`]: then [`CallMessages::next`] may return the cause.
    pub(crate) async fn send(&self, message: &impl Message, more: More) -> Result<(), CallError> {
        let mut bytes = Vec::new();
        grpc_message::write(message, &mut bytes);
        let end: Option<&[u8]> = match more {
            More::Follow => None,
            More::No => Some(b""),
        };
        let sent = self.stream()?.send(&bytes, end).await;
        sent.map_err(|_| self.why_broken())
    }

    fn stream(&self) -> Result<&Stream, CallError> {
        self.reached
            .connection
            .stream
            .as_h2()
            .ok_or(CallError::Broken)
    }

    fn why_broken(&self) -> CallError {
        if self.reached.connection.deadline.expired() {
            self.reached.report(Outcome::Failure);
            return CallError::TooLate;
        }
        CallError::Broken
    }

    /// Why there is no response. A call that can be made again says nothing about the endpoint.
    fn why_no_head(&self, why_none: NoHead) -> CallError {
        let why = self.why_broken();
        if why != CallError::Broken || self.is_abandoned() {
            return why;
        }
        let is_unprocessed = match failure_before_head(why_none).kind {
            FailureKind::UpstreamRefused => true,
            FailureKind::UpstreamClosed => self.reached.connection.used,
            _ => false,
        };
        if is_unprocessed && !self.is_repeated {
            return CallError::Unprocessed;
        }
        self.reached.report(Outcome::Failure);
        CallError::Broken
    }

    /// Reads the head of the response, and returns whether messages follow.
    async fn take_head(&self) -> Result<bool, CallError> {
        let stream = self.stream()?;
        let response = loop {
            match stream.next_head().await {
                Ok(response) if response.head.is_interim() => stream.put_back(response),
                Ok(response) => break response,
                Err(why) => return Err(self.why_no_head(why)),
            }
        };
        let took = self.reached.begun.elapsed();
        self.reached
            .report(Outcome::of_response(response.head.status, took));
        check_head(&response)?;
        let status = value_of(&response, KnownHeader::GrpcStatus).and_then(grpc::parse_status);
        stream.put_back(response);
        match status {
            // `Trailers-Only` (gRPC over HTTP/2): there is no message.
            Some(status) => ended_with(status).map(|()| false),
            None => Ok(true),
        }
    }
}

impl CallMessages {
    /// The next message; `None` when the endpoint has ended the call successfully.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub(crate) async fn next<M: Message + Default>(
        &mut self,
        call: &Call<'_>,
    ) -> Result<Option<M>, CallError> {
        if self.state == State::Sent {
            self.state = if call.take_head().await? {
                State::Open
            } else {
                State::Ended
            };
        }
        loop {
            if let Some(message) = self.assembler.take()? {
                return Ok(Some(message));
            }
            if self.state == State::Ended {
                self.assembler.end()?;
                return Ok(None);
            }
            self.fill(call).await?;
        }
    }

    /// The message of a unary response.
    async fn only<M: Message + Default>(&mut self, call: &Call<'_>) -> Result<M, CallError> {
        let message = self.next(call).await?;
        let message = message.ok_or(CallError::NoGrpc("no message"))?;
        match self.next::<M>(call).await? {
            None => Ok(message),
            Some(_) => Err(CallError::NoGrpc("more than one message")),
        }
    }

    /// Reads more of the response, unless it has ended.
    async fn fill(&mut self, call: &Call<'_>) -> Result<(), CallError> {
        let stream = call.stream()?;
        let read = stream.read(&mut self.buffer, ReadMode::Uncancelable).await;
        match read {
            Ok(0) if !stream.is_read() => Err(call.why_broken()),
            Err(error) => {
                let endpoint = &call.reached.endpoint.name;
                tracing::debug!(%endpoint, %error, "a gRPC call failed");
                Err(call.why_broken())
            }
            Ok(0) => {
                self.state = State::Ended;
                let mut status = None;
                stream.with_trailers(|lines| status = grpc::status_of_trailers(lines));
                ended_with(status.ok_or(CallError::NoGrpc("no status"))?)
            }
            Ok(_) => {
                self.assembler.push(self.buffer.filled());
                self.buffer.clear();
                Ok(())
            }
        }
    }
}

impl Drop for CallMessages {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.buffer));
    }
}

/// Writes the head of a call of a method, with the time that the endpoint is promised.
fn write_head(
    cluster: &Cluster,
    endpoint: &Endpoint,
    (method, promised): (&'static str, Option<Duration>),
    head: &mut impl SectionWriter,
) {
    head.method(b"POST");
    head.scheme(cluster.protection.scheme());
    head.path(method.as_bytes());
    head.authority(endpoint.name.as_bytes());
    let content_type = KnownHeader::ContentType;
    head.field(content_type, b"content-type", b"application/grpc");
    head.field(KnownHeader::Te, b"te", b"trailers");
    head.field(KnownHeader::of(b"user-agent"), b"user-agent", AGENT);
    if let Some(promised) = promised {
        let mut value = Vec::new();
        grpc::write_timeout(promised, &mut value);
        let name = b"grpc-timeout";
        head.field(KnownHeader::of(name), name, &value);
    }
}

fn check_head(response: &ReceivedHead) -> Result<(), CallError> {
    if response.head.status != 200 {
        return Err(CallError::NoGrpc("HTTP status other than 200"));
    }
    if value_of(response, KnownHeader::ContentType).is_some_and(grpc::is_grpc) {
        Ok(())
    } else {
        Err(CallError::NoGrpc("unexpected content type"))
    }
}

fn value_of(response: &ReceivedHead, known: KnownHeader) -> Option<&[u8]> {
    response.head.fields.value(known, &response.bytes)
}

fn ended_with(status: u32) -> Result<(), CallError> {
    match status {
        0 => Ok(()),
        status => Err(CallError::Status(status)),
    }
}

const AGENT: &[u8] = concat!("gateway/", env!("CARGO_PKG_VERSION")).as_bytes();

#[cfg(test)]
pub(super) mod tests;

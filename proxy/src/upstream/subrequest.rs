//! HTTP requests that a shard makes itself, such as to authorization servers, and their
//! short responses.
//!
//! They use the connections of ordinary requests, with the same load balancing, pooling and health
//! checks.

use std::cell::Cell;
use std::pin::pin;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::Upstreams;
use super::both_ways::first_until_second;
use super::h2::failure_before_head;
use super::health::Outcome;
use super::pool::Connection;
use super::reach::{EndpointConnection, reach};
use crate::channel::Channel;
use crate::config::{Cluster, Protection};
use crate::failure::{Failure, FailureKind};
use crate::http::engine::SectionWriter;
use crate::http::engine::encode::Switch;
use crate::http::h1::body::BodyDecoder;
use crate::http::h1::encode::{field, request_line};
use crate::http::h1::{HeadLimits, HeadScan, Progress, RequestKind, ResponseError, parse_response};
use crate::http::head::{Fields, ResponseHead};
use crate::http::known::KnownHeader;
use crate::http2::{ReadMode, Stream};
use crate::limits::{INTERIM_RESPONSES, Limits, WHEEL_TICK};
use crate::memory::{Buffer, Kept};
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};

/// A request of the gateway's own, such as one to an authorization server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subrequest<'r> {
    pub(crate) method: &'r [u8],
    pub(crate) host: &'r [u8],
    pub(crate) target: &'r [u8],
    /// Field lines, each terminated by CRLF, without framing and hop-by-hop fields.
    pub(crate) lines: &'r [u8],
    pub(crate) body: &'r [u8],
    /// A status that the endpoint is asked to respond with: it is no failure of it.
    pub(crate) asked_status: Option<StatusCode>,
}

/// The response to a [`Subrequest`].
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Kept, NoBody>,
}

/// Why a body was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoBody {
    /// It exceeds the limit.
    TooLong,
    /// It is optional, and more than half of the memory for buffers is in use.
    NoMemory,
}

/// Whether what a response is for depends on its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyNeed {
    Required,
    /// It is dropped while more than half of the memory for buffers is in use.
    Optional,
}

/// The limits of a subrequest.
#[derive(Clone, Copy)]
pub(crate) struct SubrequestLimits<'a> {
    /// Timeout of the whole exchange.
    pub(crate) timeout: Duration,
    /// What it says about an endpoint that it does not respond within the timeout: nothing (`None`) if requests of
    /// clients may take longer.
    pub(crate) late: Option<Outcome>,
    /// Maximum size of the body in bytes.
    pub(crate) body_bytes: usize,
    pub(crate) body_need: BodyNeed,
    /// The client on whose behalf it is sent: if it disconnects, the request is cancelled. `None` if it is not
    /// watched.
    pub(crate) client: Option<&'a Deadline>,
}

/// Sends a request to an endpoint of the cluster, and to another one if the first cannot be
/// reached.
///
/// # Errors
///
/// No endpoint responded in time.
pub(crate) async fn send(
    upstreams: &Upstreams,
    cluster: &Cluster,
    request: Subrequest<'_>,
    limits: SubrequestLimits<'_>,
) -> Result<Reply, Failure> {
    let until = Instant::now() + limits.timeout;
    let time = (until, limits.late);
    let mut refused_by = None;
    loop {
        let reached = reach(upstreams, cluster, cluster.protocol, refused_by, time).await?;
        let endpoint = reached.endpoint.id;
        let pending = PendingSubrequest {
            request,
            until,
            late: limits.late,
            body: Body::of(&limits, &upstreams.shard),
            client: limits.client,
            over: &cluster.protection,
            is_repeated: refused_by.is_some(),
        };
        match pending.put(upstreams, reached).await {
            Ok(reply) => return Ok(reply),
            Err(Ended::Failed(failure)) => return Err(failure),
            Err(Ended::Unprocessed) => refused_by = Some(endpoint),
        }
    }
}

/// How a request ended without a response.
enum Ended {
    Failed(Failure),
    /// The endpoint has not processed it, and it can be sent again.
    Unprocessed,
}

/// A request that is being sent over one connection.
struct PendingSubrequest<'a> {
    request: Subrequest<'a>,
    until: Instant,
    /// As in [`SubrequestLimits`].
    late: Option<Outcome>,
    /// The body of the response, so far.
    body: Body<'a>,
    client: Option<&'a Deadline>,
    over: &'a Protection,
    /// Whether it was sent before: it is sent no third time.
    is_repeated: bool,
}

impl PendingSubrequest<'_> {
    async fn put(
        mut self,
        upstreams: &Upstreams,
        reached: EndpointConnection<'_>,
    ) -> Result<Reply, Ended> {
        let deadline = &reached.connection.deadline;
        let left = self.until.saturating_duration_since(Instant::now());
        deadline.arm(Some(left), Expiry::Disconnect);
        if let Some(client) = self.client {
            client.watch(reached.connection.stream.cutoff(), WHEEL_TICK);
        }
        let buffers = &upstreams.shard.buffers;
        let mut buffer = buffers.take_small();
        let answered = match &reached.connection.stream {
            Channel::Socket(_) => self.over_socket(&reached, &mut buffer).await,
            Channel::H2(stream) => self.over_stream(&reached, stream, &mut buffer).await,
        };
        let is_exact = buffer.is_empty();
        buffers.put(buffer);
        let is_late = deadline.expired();
        deadline.disarm();
        // Another connection may get the descriptor of this one while the request is repeated.
        if let Some(client) = self.client {
            client.disarm();
        }
        match answered {
            Ok((status, headers, keeps)) => {
                // A server that ignores the body would parse it as its next request, and the answer
                // to that would decide about another client.
                if keeps && is_exact && !is_late && self.request.body.is_empty() {
                    reached.put_back();
                }
                Ok(Reply {
                    status,
                    headers,
                    body: self.body.kept,
                })
            }
            Err(failure) => {
                let failure = if is_late {
                    FailureKind::UpstreamTimeout.into()
                } else {
                    failure
                };
                Err(self.end(failure, &reached))
            }
        }
    }

    /// How it ended, which is reported to the endpoint's health.
    fn end(&self, failure: Failure, reached: &EndpointConnection<'_>) -> Ended {
        // A client that disconnects says nothing about the endpoint's health.
        if self.client.is_some_and(Deadline::has_expired) {
            return Ended::Failed(failure);
        }
        if !self.is_repeated && is_unprocessed(failure, &reached.connection) {
            return Ended::Unprocessed;
        }
        let outcome = match failure.kind {
            FailureKind::UpstreamTimeout => self.late,
            _ => Outcome::failed(failure),
        };
        if let Some(outcome) = outcome {
            reached.report(outcome);
        }
        Ended::Failed(failure)
    }

    /// The head of the response, and whether the connection can be reused.
    async fn over_socket(
        &mut self,
        reached: &EndpointConnection<'_>,
        buffer: &mut Buffer,
    ) -> Result<(StatusCode, HeaderMap, bool), Failure> {
        let stream = &reached.connection.stream;
        let mut bytes = Vec::new();
        self.request.encode(&mut bytes);
        let is_sent = Cell::new(false);
        // A server may respond before it has read all.
        let sending = async { is_sent.set(stream.write_vec(&mut bytes).await.is_ok()) };
        let receiving = self.read_reply(reached, buffer);
        let stop = || stream.disconnect();
        let (status, headers, keeps) =
            first_until_second(pin!(sending), pin!(receiving), stop).await?;
        Ok((status, headers, keeps && is_sent.get()))
    }

    /// The head of the response, and whether it allows to reuse the connection.
    async fn read_reply(
        &mut self,
        reached: &EndpointConnection<'_>,
        buffer: &mut Buffer,
    ) -> Result<(StatusCode, HeaderMap, bool), Failure> {
        let stream = &reached.connection.stream;
        let (head, headers) = self.read_head(stream, buffer).await?;
        let status = StatusCode::from_u16(head.status);
        let status = status.map_err(|_| FailureKind::UpstreamGarbage)?;
        reached.report(self.outcome(status, reached));
        let mut decoder = BodyDecoder::of_response(head.framing);
        loop {
            let decoded = decoder.decode(buffer.filled_mut());
            let decoded = decoded.map_err(|_| FailureKind::UpstreamGarbage)?;
            let payload = buffer.filled().get(decoded.payload).unwrap_or_default();
            self.body.take(payload);
            buffer.consume(decoded.consumed);
            if decoded.done {
                break;
            }
            if self.body.kept.is_err() {
                return Ok((status, headers, false));
            }
            if read(stream, buffer).await? == 0 {
                let end = decoder.end_of_input();
                end.map_err(|_| FailureKind::UpstreamReset)?;
                break;
            }
        }
        Ok((status, headers, head.keep_alive && head.status != 101))
    }

    /// What a response of this status says about its endpoint.
    fn outcome(&self, status: StatusCode, reached: &EndpointConnection<'_>) -> Outcome {
        let took = reached.begun.elapsed();
        match self.request.asked_status {
            Some(asked) if asked == status => Outcome::Success(took),
            _ => Outcome::of_response(status.as_u16(), took),
        }
    }

    async fn read_head(
        &self,
        stream: &Channel,
        buffer: &mut Buffer,
    ) -> Result<(ResponseHead, HeaderMap), Failure> {
        let request_kind = self.request.kind();
        let limits = HeadLimits::of_response(&Limits::default());
        let (mut scan, mut head) = (HeadScan::default(), ResponseHead::default());
        let mut interims = InterimCount::default();
        loop {
            match parse_response(buffer.filled(), request_kind, &limits, &mut scan, &mut head)? {
                Progress::Complete { len } if head.is_interim() => {
                    buffer.consume(len);
                    interims.increment()?;
                }
                Progress::Complete { len } => {
                    let headers = headers(&head.fields, buffer.filled());
                    buffer.consume(len);
                    return Ok((head, headers));
                }
                Progress::Partial => {
                    if read(stream, buffer).await? == 0 {
                        return Err(FailureKind::UpstreamClosed.into());
                    }
                }
            }
        }
    }

    /// Like [`Self::over_socket`], over an HTTP/2 stream; the connection stays usable in any case.
    async fn over_stream(
        &mut self,
        reached: &EndpointConnection<'_>,
        stream: &Stream,
        buffer: &mut Buffer,
    ) -> Result<(StatusCode, HeaderMap, bool), Failure> {
        stream.put_request(self.request.kind(), |head| {
            self.request.write_head(self.over, head);
            Switch::Ignored
        });
        let body = self.request.body;
        let sending = async {
            // A server that stopped reading may have responded before.
            let _ = stream.send(body, Some(b"")).await;
        };
        let receiving = self.read_stream(reached, stream, buffer);
        let stop = || reached.connection.stream.disconnect();
        first_until_second(pin!(sending), pin!(receiving), stop).await
    }

    async fn read_stream(
        &mut self,
        reached: &EndpointConnection<'_>,
        stream: &Stream,
        buffer: &mut Buffer,
    ) -> Result<(StatusCode, HeaderMap, bool), Failure> {
        let mut interims = InterimCount::default();
        let response = loop {
            let response = stream.next_head().await.map_err(failure_before_head)?;
            if !response.head.is_interim() {
                break response;
            }
            stream.put_back(response);
            interims.increment()?;
        };
        let limits = HeadLimits::of_response(&Limits::default());
        let checked = response.head.check_limits(response.bytes.len(), &limits);
        checked.map_err(ResponseError::from)?;
        let status = StatusCode::from_u16(response.head.status);
        let status = status.map_err(|_| FailureKind::UpstreamGarbage)?;
        let headers = headers(&response.head.fields, &response.bytes);
        stream.put_back(response);
        reached.report(self.outcome(status, reached));
        while !stream.is_read() && self.body.kept.is_ok() {
            match stream.read(buffer, ReadMode::Uncancelable).await {
                Ok(0) if !stream.is_read() => return Err(FailureKind::UpstreamReset.into()),
                Err(_) => return Err(FailureKind::UpstreamReset.into()),
                Ok(_) => {}
            }
            self.body.take(buffer.filled());
            buffer.clear();
        }
        Ok((status, headers, false))
    }
}

impl Subrequest<'_> {
    /// Encodes the request as HTTP/1.1.
    fn encode(&self, out: &mut Vec<u8>) {
        request_line(out, self.method, self.target, self.host);
        out.extend_from_slice(self.lines);
        let mut length = itoa::Buffer::new();
        field(
            out,
            b"Content-Length",
            length.format(self.body.len()).as_bytes(),
        );
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body);
    }

    /// Writes the request's head for HTTP/2.
    fn write_head(&self, over: &Protection, head: &mut impl SectionWriter) {
        head.method(self.method);
        head.scheme(over.scheme());
        head.path(self.target);
        head.authority(self.host);
        head.lines(self.lines);
        let mut length = itoa::Buffer::new();
        let length = length.format(self.body.len()).as_bytes();
        head.field(KnownHeader::ContentLength, b"content-length", length);
    }

    fn kind(&self) -> RequestKind {
        match self.method {
            b"HEAD" => RequestKind::Head,
            _ => RequestKind::Other,
        }
    }
}

/// Interim responses (1xx) before the final one.
#[derive(Default)]
struct InterimCount(u32);

impl InterimCount {
    fn increment(&mut self) -> Result<(), Failure> {
        self.0 += 1;
        if self.0 > INTERIM_RESPONSES {
            return Err(Failure::because(
                FailureKind::UpstreamGarbage,
                "too many interim responses",
            ));
        }
        Ok(())
    }
}

/// The body of a response, up to the limit. It counts with the buffers in use.
struct Body<'s> {
    kept: Result<Kept, NoBody>,
    max: usize,
    need: BodyNeed,
    shard: &'s Shard,
}

impl<'s> Body<'s> {
    fn of(limits: &SubrequestLimits<'_>, shard: &'s Shard) -> Self {
        Self {
            kept: Ok(Kept::new(&shard.buffers)),
            max: limits.body_bytes,
            need: limits.body_need,
            shard,
        }
    }

    fn take(&mut self, payload: &[u8]) {
        let Ok(kept) = &mut self.kept else {
            return;
        };
        if kept.len().saturating_add(payload.len()) > self.max {
            self.kept = Err(NoBody::TooLong);
        } else if self.need == BodyNeed::Optional && !self.shard.may_copy(payload.len()) {
            self.kept = Err(NoBody::NoMemory);
        } else {
            kept.append(payload);
        }
    }
}

async fn read(stream: &Channel, buffer: &mut Buffer) -> Result<usize, Failure> {
    buffer.make_room();
    let read = stream.read(buffer).await;
    read.map_err(|_| FailureKind::UpstreamReset.into())
}

fn headers(fields: &Fields, bytes: &[u8]) -> HeaderMap {
    let fields = fields.iter().filter_map(|field| {
        let name = HeaderName::from_bytes(field.name.of(bytes)).ok()?;
        Some((name, HeaderValue::from_bytes(field.value.of(bytes)).ok()?))
    });
    fields.collect()
}

/// Whether the endpoint refused the request, or may have closed an idle connection before it saw the
/// request. A reset of a stream says nothing about its connection.
fn is_unprocessed(failure: Failure, connection: &Connection) -> bool {
    match failure.kind {
        FailureKind::UpstreamRefused => true,
        FailureKind::UpstreamClosed => connection.used,
        FailureKind::UpstreamReset => connection.used && connection.stream.as_h2().is_none(),
        _ => false,
    }
}

//! One attempt: selects an endpoint, connects, and exchanges request and response.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::channel::Channel;
use crate::channel::relay::{ReadMode, Relay, RelayError, Side};
use crate::config::{Endpoint, Protocol};
use crate::exchange::{ConnectionOutcome, Destination, Exchange, Matched, RequestRecord};
use crate::failure::{Failure, FailureKind};
use crate::http::h1::RequestKind;
use crate::policy::cors::Cors;
use crate::policy::headers::HeaderEdits;
use crate::shard::deadline::Deadline;
use crate::shard::tasks::TaskState;
use crate::trace::Tracer;
use crate::upstream::Upstreams;
use crate::upstream::connect::{ConnectTime, ConnectionRequirements, open};
use crate::upstream::health::{EndpointUse, Outcome};
use crate::upstream::pool::Connection;
use crate::upstream::retry::Replay;

use super::download::{Download, ResponseEnd};
use super::duplex;
use super::request_attempts::{RequestAttempts, earlier};
use super::tunnel;
use super::upload::Upload;

/// An attempt without a response for the client.
pub(crate) enum AttemptEnd {
    Failed(Failure),
    /// Its response is dropped for a retry, which is already registered.
    Retry,
    /// The endpoint had closed a reused connection before it received the request, which is sent
    /// again at once, to another endpoint where there is one.
    Stale,
    /// It failed, and must not be retried.
    Final(Failure),
}

impl From<Failure> for AttemptEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

pub(super) async fn attempt<'a>(
    exchange: &mut Exchange<'a>,
    matched: &Matched<'a>,
    destination: Destination<'a>,
    upload: &mut Upload,
    tries: &mut RequestAttempts<'_>,
) -> Result<ConnectionOutcome, AttemptEnd> {
    // Reading the clock costs as much as routing: the first attempt starts with the request.
    let begun = if exchange.work.tried.is_empty() && exchange.picked.is_none() {
        exchange.record.started
    } else {
        Instant::now()
    };
    let upstreams: &'a Upstreams = &exchange.proxy.upstreams;
    let (endpoint, endpoint_use) = exchange.choose_endpoint(matched.rule, destination, begun)?;
    let mut attempt = Attempt {
        upstreams,
        matched: *matched,
        destination,
        endpoint,
        endpoint_use,
        request_kind: exchange.received.request_kind(),
        is_grpc: exchange.record.is_grpc,
        begun,
        until: None,
    };
    let backend_until = matched
        .rule
        .backend_timeout()
        .map(|timeout| attempt.begun + timeout);
    attempt.until = earlier(tries.until, backend_until);
    let result = attempt.run(exchange, upload, tries).await;
    if let (Some(trace), Err(AttemptEnd::Failed(failure) | AttemptEnd::Final(failure))) =
        (&exchange.record.trace, &result)
    {
        trace.attempted(endpoint, None, Some(*failure));
    }
    if let Err(AttemptEnd::Failed(failure) | AttemptEnd::Final(failure)) = &result
        && let Some(outcome) = Outcome::failed(*failure)
        && !attempt.was_given_up(tries, &exchange.record)
    {
        attempt.report(outcome, Instant::now());
    }
    // The request timeout has expired: no retry.
    let over = tries.until.is_some_and(|until| Instant::now() >= until);
    match result {
        Err(AttemptEnd::Failed(failure))
            if over && failure.kind == FailureKind::UpstreamTimeout =>
        {
            Err(AttemptEnd::Final(FailureKind::RequestTimeout.into()))
        }
        result => result,
    }
}

pub(crate) struct Attempt<'a> {
    upstreams: &'a Upstreams,
    pub(crate) matched: Matched<'a>,
    pub(super) destination: Destination<'a>,
    pub(super) endpoint: &'a Endpoint,
    endpoint_use: EndpointUse,
    request_kind: RequestKind,
    /// Whether it is a gRPC call, for which other timeouts apply.
    pub(super) is_grpc: bool,
    begun: Instant,
    /// Deadline of the request.
    pub(crate) until: Option<Instant>,
}

impl<'a> Attempt<'a> {
    /// Reports the endpoint's result to load balancing and health.
    fn report(&self, outcome: Outcome, now: Instant) {
        let (states, set) = (&self.upstreams.endpoints, &self.destination.cluster.set);
        self.endpoint_use.report(states, set, outcome, now);
    }

    /// Whether a deadline ended it that says nothing about the endpoint: one that passed after the
    /// response had begun, since the client may be slow, or the stream longer; or the client's own,
    /// unless the endpoint has answered no request for as long as the route gives one. So a client
    /// cannot eject an endpoint by the deadlines that it chooses, and one that hangs is ejected even if
    /// all deadlines are shorter than the route's timeout. A route without timeouts counts none.
    fn was_given_up(&self, tries: &RequestAttempts<'_>, record: &RequestRecord<'_>) -> bool {
        let Some(until) = self.until.filter(|until| Instant::now() >= *until) else {
            return false;
        };
        if record.answered || !tries.is_own_deadline(until) {
            return record.answered;
        }
        let rule = self.matched.rule;
        let (set, time) = (&self.destination.cluster.set, (self.begun, until));
        earlier(rule.request_timeout(), rule.backend_timeout())
            .is_none_or(|timeout| !self.endpoint_use.went_unanswered(set, time, timeout))
    }

    /// Uses an idle connection, unless one was stale before.
    async fn run(
        &self,
        exchange: &mut Exchange<'a>,
        upload: &mut Upload,
        tries: &mut RequestAttempts<'_>,
    ) -> Result<ConnectionOutcome, AttemptEnd> {
        let proxied = exchange.client.proxied_to(self.destination.cluster);
        let mut pooled = match self.protocol() {
            Protocol::Http1 if !tries.was_stale() => self
                .upstreams
                .pool
                .take(self.endpoint.id, proxied.as_deref()),
            _ => None,
        };
        let mut refused = false;
        loop {
            let trace = exchange.record.trace.as_deref();
            let connection = if let Some(connection) = pooled.take() {
                if let Some(trace) = trace {
                    trace.connected(self.endpoint, None);
                }
                connection
            } else {
                // Boxed: every request would otherwise reserve space for a rare case.
                let requirements = ConnectionRequirements {
                    proxied: proxied.clone(),
                    fresh: tries.was_stale(),
                    is_hurried: self.until.is_some_and(|until| tries.is_own_deadline(until)),
                    ..ConnectionRequirements::default()
                };
                Box::pin(self.connect(requirements, trace)).await?
            };
            let (used, protocol) = (connection.used, self.protocol());
            match self.over(connection, exchange, upload, tries).await {
                Err(AttemptEnd::Failed(failure))
                    if used
                        && is_stale(failure, protocol)
                        && replay(exchange, upload) == Replay::Possible
                        && tries.note_stale() =>
                {
                    // A session and a picker's choice stay with their endpoint.
                    if exchange.pinned.is_none() && exchange.picked.is_none() {
                        return Err(AttemptEnd::Stale);
                    }
                }
                // Refused without processing, as by an endpoint that restarts.
                Err(AttemptEnd::Failed(failure))
                    if failure.kind == FailureKind::UpstreamRefused
                        && upload.replay() == Replay::Possible
                        && !std::mem::replace(&mut refused, true) => {}
                result => return result,
            }
        }
    }

    async fn connect(
        &self,
        requirements: ConnectionRequirements,
        trace: Option<&Tracer>,
    ) -> Result<Box<Connection>, Failure> {
        let allowed = self.destination.backend.limits.connect_timeout;
        let requirements = ConnectionRequirements {
            is_hurried: requirements.is_hurried && self.limited(allowed) != allowed,
            ..requirements
        };
        let time = ConnectTime {
            each: allowed,
            until: self.until,
        };
        let requirements = (self.protocol(), requirements);
        let (shard, begun) = (&self.upstreams.shard, Instant::now());
        shard.set_task_state(TaskState::Connecting);
        let cluster = self.destination.cluster;
        let opened = open(self.upstreams, cluster, self.endpoint, requirements, time).await;
        shard.set_task_state(TaskState::Forwarding);
        let took = begun.elapsed();
        let route = shard.counters.routes.of(self.matched.rule_id);
        route.connect.observe(took);
        if let Some(trace) = trace {
            trace.connected(self.endpoint, Some(took));
        }
        opened
    }

    fn protocol(&self) -> Protocol {
        self.matched.rule.protocol_to(self.destination.cluster)
    }

    fn limited(&self, timeout: Option<Duration>) -> Option<Duration> {
        let left = self
            .until
            .map(|until| until.saturating_duration_since(Instant::now()));
        earlier(timeout, left)
    }

    /// Exchanges over one connection, which returns to the pool if it ends in a clean state.
    async fn over(
        &self,
        connection: Box<Connection>,
        exchange: &mut Exchange<'a>,
        upload: &mut Upload,
        tries: &mut RequestAttempts<'_>,
    ) -> Result<ConnectionOutcome, AttemptEnd> {
        exchange.write_head(self.destination, &connection.stream);
        let shard = exchange.shard;
        let mut buffer = match connection.stream {
            Channel::Socket(_) => shard.buffers.take_small(),
            Channel::H2(_) => shard.buffers.without_memory(),
        };
        let mut download = Download {
            attempt: self,
            connection: &connection,
            buffer: &mut buffer,
            tries,
            interims: 0,
            early_end: None,
            is_timed: false,
        };
        let responded = if upload.whole && !upload.may_wait_for_room(&connection.stream) {
            half_duplex(&mut download, exchange, upload).await
        } else {
            duplex::run(&mut download, exchange, upload).await
        };
        let after = match responded {
            Ok(ResponseEnd::Switched) => {
                upload.settle(exchange.buffer);
                tunnel::run(exchange, &connection, &mut buffer)
                    .await
                    .map_err(AttemptEnd::Final)
            }
            Ok(ResponseEnd::Whole { reusable, after }) => {
                if reusable && buffer.is_empty() && !exchange.received.has_undefined_content() {
                    let pool = &self.upstreams.pool;
                    pool.put(self.endpoint.id, connection, shard);
                }
                Ok(after)
            }
            Err(ended) => Err(ended),
        };
        shard.buffers.put(buffer);
        after
    }
}

/// Sends a request that is complete, then waits for the response: four operations in total.
async fn half_duplex(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange<'_>,
    upload: &mut Upload,
) -> Result<ResponseEnd, AttemptEnd> {
    let (attempt, connection) = (download.attempt, download.connection);
    let (client, shard) = (exchange.client, exchange.shard);
    let (mut request, mut response) = exchange.sides(attempt);
    let relay = Relay {
        from: Side::of(&client.stream, &client.deadline),
        to: attempt.upload_side(connection, &connection.deadline),
        outward: upload.outward,
        limit: attempt.body_limit(),
        min_rate: 0,
        read_mode: ReadMode::Uncancelable,
        pipes: None,
    };
    let sent = match connection.stream.as_h2() {
        // The following bytes belong to the tunnel.
        Some(stream) if stream.tunnels() => stream
            .send(b"", None)
            .await
            .map_err(|_| RelayError::ReceiverGone),
        _ => upload.send_whole(&relay, &mut request).await,
    };
    response.record.bytes_in = upload.moved.payload;
    match sent {
        // An endpoint that stops reading may have responded before: check.
        Ok(()) | Err(RelayError::ReceiverGone) => {}
        Err(error) => return Err(AttemptEnd::Failed(error.of_upload())),
    }
    shard.set_task_state(TaskState::AwaitingResponse);
    download.read_early().await;
    let head = download.head(&mut response, shard).await;
    client.deadline.disarm();
    if client.deadline.expired() {
        return Err(AttemptEnd::Final(FailureKind::ClientGone.into()));
    }
    let length = head?;
    download.report_result(&mut response, Replay::Possible)?;
    download
        .respond(length, &mut response, shard, || true)
        .await
        .map_err(AttemptEnd::Final)
}

impl<'a> Attempt<'a> {
    /// The endpoint as the sender of a response.
    pub(super) fn download_side<'s>(&self, connection: &'s Connection) -> Side<'s> {
        Side {
            stream: &connection.stream,
            deadline: &connection.deadline,
            idle: self.matched.rule.limits.stream_idle_timeout,
            until: self.until,
        }
    }

    /// The endpoint as the receiver of a request body.
    pub(super) fn upload_side<'s>(
        &self,
        connection: &'s Connection,
        deadline: &'s Deadline,
    ) -> Side<'s> {
        Side {
            stream: &connection.stream,
            deadline,
            idle: self.matched.rule.limits.body_idle_timeout,
            until: self.until,
        }
    }

    /// Idle timeout and minimum rate of the request body. gRPC calls may be silent for long.
    pub(super) fn upload_pace(&self) -> (Option<Duration>, u32) {
        let limits = &self.matched.rule.limits;
        if self.is_grpc {
            (limits.stream_idle_timeout, 0)
        } else {
            (limits.body_idle_timeout, limits.body_min_rate)
        }
    }

    /// Time left of the request timeout; `None` if unlimited.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.limited(None)
    }

    /// Limit of the request body in bytes.
    pub(super) fn body_limit(&self) -> Option<u64> {
        self.matched
            .rule
            .limits
            .request_body_bytes
            .map(NonZeroU64::get)
    }

    /// Timeout of the response head, from the last request byte on. The route's timeouts replace
    /// the default, but not the bound of an overriding policy.
    pub(super) fn head_timeout(&self) -> Option<Duration> {
        let rule = self.matched.rule;
        let is_exempt = self.is_grpc || self.request_kind == RequestKind::Upgrade;
        match self.until {
            Some(_) if is_exempt => self.time_left(),
            Some(_) => self.limited(rule.head_bound()),
            None if is_exempt => None,
            None if rule.waits_forever() => rule.head_bound(),
            None => self.destination.backend.limits.response_head_timeout,
        }
    }

    /// Header edits of the rule and its backend for responses.
    pub(super) fn response_edits(&self) -> Option<&'a HeaderEdits> {
        self.destination.response_edits()
    }

    /// CORS settings for the response.
    pub(super) fn cors(&self) -> Option<&'a Cors> {
        self.destination.backend.policy.as_deref()?.cors.as_ref()
    }

    pub(super) fn trace_answer(&self, trace: &Tracer, status: u16) {
        trace.attempted(self.endpoint, Some(status), None);
    }

    /// Reports latency and status to the endpoint's health.
    pub(super) fn report_response(&self, status: u16, record: &mut RequestRecord<'_>) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun);
        record.upstream_time = Some(took);
        self.report(Outcome::of_response(status, took), now);
    }
}

/// Whether a failure on a reused connection does not count against the endpoint: it was closed while
/// idle, and an idempotent request can be sent again (RFC 9110 section 9.2.2). A reset of a stream
/// says nothing about its connection, which is open.
fn is_stale(failure: Failure, protocol: Protocol) -> bool {
    match failure.kind {
        FailureKind::UpstreamClosed => true,
        FailureKind::UpstreamReset => protocol == Protocol::Http1,
        _ => false,
    }
}

/// Whether the request can be sent again although an endpoint may have processed it.
fn replay(exchange: &Exchange<'_>, upload: &Upload) -> Replay {
    if exchange.received.is_idempotent() {
        upload.replay()
    } else {
        Replay::Impossible
    }
}

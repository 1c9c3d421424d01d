//! The end of every request: the response to a failure, metrics, the access log.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use rand::rngs::SmallRng;
use xds::model::AccessLog;

use crate::config::Rule;
use crate::exchange::local_body::LocalBody;
use crate::exchange::{ConnectionOutcome, Exchange, NextStep};
use crate::failure::{ConnectionAction, Failure, FailureKind, GrpcStatus};
use crate::http::grpc;
use crate::http::h1::encode::{Persist, field};
use crate::http::head::Version;
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;
use crate::limits::RETRY_AFTER;
use crate::memory::Kept;
use crate::observe::access_log;
use crate::observe::series::{MethodClass, Owner, Series, registered};
use crate::policy::answer::describes_content;
use crate::policy::authentication::Principal;
use crate::policy::cors::Cors;
use crate::policy::normalise::Target;
use crate::trace::PolicyEffect;

use super::local_response::NOTHING;

impl Exchange<'_> {
    /// Ends the request, whatever its outcome.
    pub(super) async fn finish(
        &mut self,
        outcome: Result<ConnectionOutcome, Failure>,
        target: Option<Target<'_>>,
    ) -> ConnectionOutcome {
        let (outcome, failure) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(failure) => {
                let (outcome, failure) = self.respond_to_failure(failure, target).await;
                (outcome, Some(failure))
            }
        };
        let duration = self.record.started.elapsed();
        self.count(failure, duration);
        self.log(failure, duration, target);
        if let Some(trace) = &self.record.trace {
            trace.request_finished(self.record.finished(failure), failure);
        }
        outcome
    }

    /// Responds to a failure, if a response is still possible. Returns the failure to log: that of an answer of a
    /// policy whose client has left says so, since the answer itself is no failure.
    async fn respond_to_failure(
        &mut self,
        failure: Failure,
        target: Option<Target<'_>>,
    ) -> (ConnectionOutcome, Failure) {
        let kind = failure.kind;
        // A client may be slow to read the response, and nothing else of the configuration is needed.
        self.snapshot = None;
        if self.record.answered || kind.connection_action() == ConnectionAction::Reset {
            self.record.status = if self.record.answered {
                self.record.status
            } else {
                kind.status()
            };
            return (ConnectionOutcome::End(NextStep::Reset), failure);
        }
        let sent = self.send_failure(kind, target).await;
        let failure = match sent {
            Err(why) if kind == FailureKind::Responded => why,
            Ok(_) | Err(_) => failure,
        };
        (ended(sent), failure)
    }

    /// Sends the response to a failure of this kind.
    async fn send_failure(
        &mut self,
        kind: FailureKind,
        target: Option<Target<'_>>,
    ) -> Result<ConnectionOutcome, Failure> {
        let code = self.write_failure_lines(kind);
        if let Some(answer) = self.answer {
            return self.send_policy_answer(answer).await;
        }
        if let Some(denial) = self.take_denial() {
            // Boxed: few requests are denied by a server.
            return Box::pin(self.deny(denial)).await;
        }
        if self.record.is_grpc {
            self.write_grpc_failure(kind.grpc_status(), kind);
        }
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
        if let Some(page) = self.page_of((kind, status), target).await? {
            return self.send_page((kind, status), page).await;
        }
        // gRPC errors go into the trailers of a trailers-only response.
        let (status, text) = if self.record.is_grpc {
            (StatusCode::OK, NOTHING)
        } else {
            (status, LocalBody::Bytes(kind.text().as_bytes()))
        };
        self.respond_to(kind, status, &text).await
    }

    /// Writes the response lines that a failure of this kind has, and returns its status.
    fn write_failure_lines(&mut self, kind: FailureKind) -> u16 {
        self.work.response_lines.clear();
        self.write_cors_lines(self.cors());
        let lines = &mut self.work.response_lines;
        if let Some(credentials) = self.record.rule.and_then(Rule::credentials) {
            credentials.write_challenges(kind, lines);
        }
        let limited = self.rate_limited.as_deref();
        let limited = limited.filter(|_| kind == FailureKind::RateLimited);
        if let Some(limited) = limited {
            limited.write_refusal(lines);
        }
        if kind.retry_after() {
            lines.extend_from_slice(b"Retry-After: ");
            let seconds = RETRY_AFTER.as_secs();
            lines.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
            lines.extend_from_slice(b"\r\n");
        }
        limited.map_or(kind.status(), |it| it.status.code())
    }

    /// Sends the response to a failure of this kind, with the response lines written so far.
    pub(super) async fn respond_to(
        &mut self,
        kind: FailureKind,
        status: StatusCode,
        body: &LocalBody<'_>,
    ) -> Result<ConnectionOutcome, Failure> {
        match kind.connection_action() {
            // The bytes that follow cannot be trusted, so they are not read.
            ConnectionAction::Close => {
                self.edit_response_lines();
                self.send_answer(status, body, Persist::Close).await
            }
            ConnectionAction::Keep | ConnectionAction::Reset => self.respond(status, body).await,
        }
    }

    /// Adds the lines of a CORS filter, without which browsers cannot read a response that the gateway
    /// generates.
    pub(super) fn write_cors_lines(&mut self, cors: Option<&Cors>) {
        let received = self.received;
        if let Some(cors) = cors {
            let origin = received
                .head
                .fields
                .value(KnownHeader::Origin, &received.bytes);
            cors.write_lines(origin, None, &mut self.work.response_lines);
        }
    }

    /// Sends the response of an authorization server or a picker, with the response lines written so far. Its body
    /// counts with the buffers in use, since it may wait for its client for minutes, and is left out while more than
    /// half of the memory for these is in use.
    pub(super) async fn respond_for_server(
        &mut self,
        status: StatusCode,
        (cors, lines): (Option<&Cors>, &[u8]),
        body: Vec<u8>,
    ) -> Result<ConnectionOutcome, Failure> {
        if body.is_empty() || self.shard.may_copy(body.len()) {
            self.write_server_lines(cors, lines);
            let body = Kept::holding(&self.shard.buffers, body);
            return self.respond(status, &LocalBody::Kept(body)).await;
        }
        let mut left = Vec::with_capacity(lines.len());
        for (name, value) in pairs(lines).filter(|(name, _)| !describes_content(name)) {
            field(&mut left, name, value);
        }
        self.write_server_lines(cors, &left);
        self.respond(status, &NOTHING).await
    }

    /// Adds the lines of the response of a policy or of a server. CORS is up to the filter, if there is one.
    pub(super) fn write_server_lines(&mut self, cors: Option<&Cors>, lines: &[u8]) {
        for (name, value) in pairs(lines) {
            if cors.is_none() || !Cors::drops(name) {
                field(&mut self.work.response_lines, name, value);
            }
        }
    }

    pub(super) fn write_grpc_failure(&mut self, status: GrpcStatus, kind: FailureKind) {
        let status = status as u8;
        self.record.grpc_status = Some(status.into());
        let message = kind.text().trim_ascii_end().as_bytes();
        grpc::write_failure(status, message, &mut self.work.response_lines);
    }

    fn count(&self, failure: Option<Failure>, duration: Duration) {
        let (record, counters) = (&self.record, &self.shard.counters);
        let owner = match (record.rule_id, record.listener) {
            (Some(rule), _) => Owner::Route(rule),
            (None, Some(listener)) => Owner::Listener(listener.id),
            (None, None) => {
                if let Some(failure) = failure {
                    counters.refused.count(failure.kind);
                }
                return;
            }
        };
        counters.requests.count(&Series {
            owner,
            backend: record.cluster.map(|cluster| cluster.id),
            method: MethodClass::of(self.received.method()),
            status: registered(record.status),
            reason: failure.map(|failure| failure.kind.into()),
        });
        if let Some(rule) = record.rule_id {
            let route = counters.routes.of(rule);
            route.duration.observe(duration);
            route.bytes_in.add(record.bytes_in);
            route.bytes_out.add(record.bytes_out);
            route.retries.add(u64::from(record.retries));
        }
    }

    /// The access log settings of the rule, or of the listener or bind.
    fn access_log(&self) -> &AccessLog {
        match (self.record.rule, self.record.listener) {
            (Some(rule), _) => &rule.access_log,
            (None, Some(listener)) => &listener.access_log,
            (None, None) => &self.bind.access_log,
        }
    }

    /// What the access log did, and whose settings decided it.
    #[cold]
    fn access_log_effect(&self, is_logged: bool) -> PolicyEffect {
        use PolicyEffect::{Applied, Skipped};
        match (self.record.rule, self.record.listener, is_logged) {
            (Some(_), _, true) => Applied("logged, by the settings of the rule"),
            (Some(_), _, false) => Skipped("excluded by the settings of the rule"),
            (None, Some(_), true) => Applied("logged, by the settings of the listener"),
            (None, Some(_), false) => Skipped("excluded by the settings of the listener"),
            (None, None, true) => Applied("logged, by the settings of the Gateway"),
            (None, None, false) => Skipped("excluded by the settings of the Gateway"),
        }
    }

    fn log(&self, failure: Option<Failure>, duration: Duration, target: Option<Target<'_>>) {
        let record = &self.record;
        let log = self.access_log();
        let is_logged = |rng: &mut SmallRng| access_log::wants(log, record.status, duration, rng);
        let is_logged = self.shard.with_rng(is_logged);
        if let Some(trace) = &record.trace {
            trace.policy("accessLog", self.access_log_effect(is_logged));
        }
        if !is_logged {
            return;
        }
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let client = self.bind.trust.client(&self.client.hop, fields, bytes);
        let principal = self.principal.as_ref();
        let subject = principal.and_then(Principal::token_subject);
        let line = access_log::RequestEntry {
            time: SystemTime::now() - duration,
            gateway: &self.bind.gateway,
            listener: record.listener.map(|listener| listener.key.as_str()),
            route: record.rule.map(|rule| &*rule.name),
            backend: record.cluster.map(|cluster| &*cluster.name),
            endpoint: record.endpoint.map(|endpoint| &*endpoint.name),
            client: Some(client),
            method: received.method(),
            host: received.authority(),
            path: self.logged_path(target),
            protocol: match received.head.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
                Version::Http2 => "HTTP/2",
            },
            status: record.status,
            grpc_status: record.grpc_status,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            duration,
            upstream: record.upstream_time,
            reason: failure.map(|failure| failure.kind),
            retries: record.retries,
            user_agent: fields.value(KnownHeader::UserAgent, bytes),
            request_id: record.id.as_ref().map(|id| id.as_str().as_bytes()),
            client_certificate: (self.client.verified_certificate())
                .map(|certificate| &*certificate.fingerprint),
            jwt_subject: subject.map(str::as_bytes),
            user: principal.and_then(Principal::user).map(str::as_bytes),
        };
        self.shard
            .log
            .borrow_mut()
            .append(|out| line.write(log.format, out));
    }

    /// The target, without a query that may contain a token: if a policy, or a rejected version of one,
    /// reads tokens from the query, or no rule was selected.
    fn logged_path<'t>(&'t self, target: Option<Target<'t>>) -> &'t [u8] {
        let Some(target) = target else {
            let text = self.received.head.target.of(&self.received.bytes);
            let end = text.iter().position(|byte| matches!(byte, b'?' | b'#'));
            return text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        };
        if self.record.rule.is_none_or(Rule::hides_query) {
            target.path().as_bytes()
        } else {
            target.text.as_bytes()
        }
    }
}

/// How the connection continues after the response to a failure.
fn ended(result: Result<ConnectionOutcome, Failure>) -> ConnectionOutcome {
    match result {
        Ok(ConnectionOutcome::End(_)) => ConnectionOutcome::End(NextStep::Linger),
        Ok(ConnectionOutcome::KeepAlive) => ConnectionOutcome::KeepAlive,
        Err(_) => ConnectionOutcome::End(NextStep::Close),
    }
}

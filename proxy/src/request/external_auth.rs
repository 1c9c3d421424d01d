//! External authorization: servers decide whether a request may pass. If a server cannot be reached,
//! the request is rejected.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use ::http::StatusCode;
use xds::model::{ExternalAuthProtocol, InvalidBackend, Scheme};

use super::body::Body;
use super::local_response::NOTHING;
use crate::config::{Cluster, ClusterIndex, ExternalAuth};
use crate::exchange::{Client, ConnectionOutcome, Destination, Exchange, Matched};
use crate::failure::{Failure, FailureKind, GrpcStatus};
use crate::http::head::{Framing, Version};
use crate::limits::{EXTERNAL_AUTH_RESPONSE_BYTES, EXTERNAL_AUTH_TIMEOUT, Limits};
use crate::memory::Kept;
use crate::policy::authentication::Principal;
use crate::policy::external_auth::grpc::{self, RequestSource};
use crate::policy::external_auth::{Denial, MissingVerdict, Subject, Verdict, http};
use crate::policy::mutation::Mutation;
use crate::policy::normalise::Target;
use crate::shard::deadline::Deadline;
use crate::shard::tasks::TaskState;
use crate::upstream::call;
use crate::upstream::health::Outcome;
use crate::upstream::subrequest::{self, BodyNeed, Subrequest, SubrequestLimits};

/// The servers to call, and their limits.
struct AuthorizationCall<'a> {
    servers: &'a [ExternalAuth],
    target: Target<'a>,
    limits: &'a Limits,
    /// Timeout of each server.
    timeout: Duration,
}

impl<'a> Exchange<'a> {
    /// Calls the servers of the listener at this index, before a rule is selected. Returns its index then:
    /// servers take their time, so the configuration is let go of meanwhile, like a rule's.
    pub(super) async fn authorize_by_listener_servers(
        &mut self,
        listener: usize,
        host: &str,
        target: Target<'a>,
    ) -> Result<usize, Failure> {
        let settings = self.record.listener;
        let Some(servers) = settings
            .map(|it| &*it.external_auth)
            .filter(|it| !it.is_empty())
        else {
            return Ok(listener);
        };
        let call = AuthorizationCall {
            servers,
            target,
            limits: &self.bind.limits,
            timeout: EXTERNAL_AUTH_TIMEOUT,
        };
        self.snapshot = None;
        // Boxed, here and below: few requests need this state, and others should not reserve it.
        Box::pin(self.call_servers(call)).await?;
        self.select_listener_again(host, target)
    }

    /// Calls the servers of the rule, unless the rule responds to the request itself: a CORS preflight
    /// carries no credentials.
    pub(super) async fn authorize_by_rule_servers(
        &mut self,
        matched: &Matched<'a>,
    ) -> Result<(), Failure> {
        let servers = &*matched.rule.external_auth;
        if servers.is_empty() {
            return Ok(());
        }
        if self.is_preflight(matched) {
            self.trace_preflight("externalAuth");
            return Ok(());
        }
        Box::pin(self.call_servers(AuthorizationCall::of_rule(servers, matched))).await
    }

    /// Calls the servers of the selected backend.
    pub(super) async fn authorize_by_backend_servers(
        &mut self,
        matched: &Matched<'a>,
        destination: Destination<'a>,
    ) -> Result<(), Failure> {
        let servers = destination.backend.external_auth();
        if servers.is_empty() {
            return Ok(());
        }
        Box::pin(self.call_servers(AuthorizationCall::of_rule(servers, matched))).await
    }

    /// Calls the servers in order, until one denies the request.
    async fn call_servers(&mut self, call: AuthorizationCall<'a>) -> Result<(), Failure> {
        let own = self.own_lines(call.target);
        for server in call.servers {
            if let Some(max) = server.body_bytes {
                self.read_body(max, call.limits).await?;
            }
            self.shard.set_task_state(TaskState::Authorizing);
            let begun = Instant::now();
            let mut verdict = self.query(server, &call, &own).await;
            self.client.deadline.disarm();
            if self.client.deadline.expired() {
                return Err(FailureKind::ClientGone.into());
            }
            self.shard.set_task_state(TaskState::Forwarding);
            let counters = &self.shard.counters.external_auth;
            counters.took.observe(begun.elapsed());
            counters.results.count((&verdict).into());
            if let Some(trace) = &self.record.trace {
                trace.external_auth(&server.name, &verdict);
            }
            if let (Some(principal), Ok(Verdict::Allowed { grants, .. })) =
                (&self.principal, &mut verdict)
            {
                protect_claims(principal, grants, server);
            }
            let server_decision = self.server_decision.get_or_insert_default();
            match verdict {
                Ok(Verdict::Allowed { grants, response }) => {
                    server_decision.response.set_headers.extend(response);
                    if !grants.is_empty() {
                        self.work.request_body.drop_trailers();
                        server_decision.grants.extend(&grants);
                    }
                    // Which headers come from a token is known once a rule is selected.
                    if self.record.rule.is_none() {
                        server_decision.listener_grants.push(grants);
                    }
                }
                Ok(Verdict::Denied(denial)) => {
                    server_decision.denial = Some(denial);
                    return Err(FailureKind::ExternalAuthDenied.into());
                }
                Err(MissingVerdict(why)) => {
                    tracing::debug!(server = &*server.name, why, "external authorization failed");
                    return Err(Failure::because(FailureKind::ExternalAuthFailed, why));
                }
            }
        }
        Ok(())
    }

    /// Takes back what the listener's servers, which were called before, did to headers that come from
    /// the token: each by its own settings, before its edits join those of the others.
    pub(super) fn protect_claims_from_listener_servers(&mut self) {
        let (Some(principal), Some(server_decision)) = (&self.principal, &mut self.server_decision)
        else {
            return;
        };
        let servers = self.record.listener.map(|it| &*it.external_auth);
        let apart = std::mem::take(&mut server_decision.listener_grants);
        server_decision.grants = Mutation::default();
        for (server, mut grants) in servers.unwrap_or_default().iter().zip(apart) {
            protect_claims(principal, &mut grants, server);
            server_decision.grants.extend(&grants);
        }
    }

    async fn query(
        &self,
        server: &ExternalAuth,
        call: &AuthorizationCall<'a>,
        own: &[u8],
    ) -> Result<Verdict, MissingVerdict> {
        let cluster = server.cluster.map_err(|why| MissingVerdict(why.reason()))?;
        let cluster = self.cluster_of_server(cluster)?;
        let (received, upstreams) = (self.received, &self.proxy.upstreams);
        let body = self.server_decision.as_deref();
        let body = body.and_then(|server_decision| server_decision.body.as_deref());
        let body = body.filter(|_| server.body_bytes.is_some());
        let subject = Subject {
            method: received.method(),
            authority: received.authority(),
            target: &self.shown_target(call.target),
            fields: self.effective_fields(own),
            body: body.unwrap_or_default(),
        };
        match &server.protocol {
            ExternalAuthProtocol::Http {
                path_prefix,
                request_headers,
                response_headers,
            } => {
                let (mut path, mut lines) = (Vec::new(), Vec::new());
                http::write_target(path_prefix, &subject, &mut path);
                http::write_lines(request_headers, &subject, &mut lines);
                let request = Subrequest {
                    method: subject.method,
                    host: subject.authority,
                    target: &path,
                    lines: &lines,
                    body: subject.body,
                    asked_status: None,
                };
                let subrequest_limits = SubrequestLimits {
                    timeout: call.timeout,
                    late: Some(Outcome::Failure),
                    body_bytes: EXTERNAL_AUTH_RESPONSE_BYTES,
                    body_need: BodyNeed::Required,
                    client: Some(&self.client.deadline),
                };
                let reply = subrequest::send(upstreams, cluster, request, subrequest_limits).await;
                let reply = reply.map_err(|failure| MissingVerdict(failure.kind.reason()))?;
                let body = reply.body.ok().map(Kept::into_vec);
                http::interpret(reply.status, &reply.headers, body, response_headers)
            }
            ExternalAuthProtocol::Grpc { request_headers } => {
                let check_request = grpc::check_request(request_headers, &subject, &self.arrival());
                let (timeout, client) = (call.timeout, Some(&self.client.deadline));
                let check = grpc::CHECK;
                let response =
                    call::unary(upstreams, cluster, check, &check_request, timeout, client).await;
                let response = response.map_err(|error| MissingVerdict(error.reason()))?;
                grpc::interpret(response, &subject)
            }
        }
    }

    /// The target as servers see it. Those of a listener are called before a key is known.
    fn shown_target(&self, target: Target<'a>) -> Cow<'a, [u8]> {
        let target = target.text.as_bytes();
        match &self.principal {
            Some(principal) => principal.shown_target(target),
            None => Cow::Borrowed(target),
        }
    }

    /// The cluster of a server: of the rule's, or, before a rule is known, of the listener's.
    fn cluster_of_server(&self, index: ClusterIndex) -> Result<&Cluster, MissingVerdict> {
        let of_listener = || self.holds.listener.get()?.cluster(index);
        let cluster = self.holds.cluster(index).or_else(of_listener);
        cluster.ok_or(MissingVerdict(InvalidBackend::NotFound.reason()))
    }

    fn arrival(&self) -> RequestSource {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        RequestSource {
            address: self.bind.trust.client(&self.client.hop, fields, bytes),
            scheme: match self.scheme {
                Scheme::Http => "http",
                Scheme::Https => "https",
            },
            protocol: match received.head.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
                Version::Http2 => "HTTP/2",
            },
            size: match received.head.framing {
                Framing::Empty => Some(0),
                Framing::Length(length) => Some(length),
                Framing::Chunked | Framing::UntilClose => None,
            },
        }
    }

    /// Reads the whole body of the request, unless it exceeds `max` bytes.
    async fn read_body(&mut self, max: u64, limits: &Limits) -> Result<(), Failure> {
        let authorized_body = self
            .server_decision
            .as_deref()
            .and_then(|server_decision| server_decision.body.as_ref());
        let length = match (authorized_body, self.received.head.framing) {
            (Some(body), _) => body.len() as u64,
            (None, Framing::Length(length)) => length,
            (None, _) => 0,
        };
        if length > max {
            return Err(FailureKind::BodyTooLarge.into());
        }
        if authorized_body.is_some() || self.work.request_body.is_done() {
            return Ok(());
        }
        if self.buffer.is_empty() {
            self.send_continue().await?;
        }
        let client: &'a Client = self.client;
        let reading = Deadline::new(self.shard, client.stream.cutoff());
        let mut body = Body::of(self.shard, client, limits, max, &reading);
        while !body.done {
            body.next(self).await?;
        }
        self.record.bytes_in = body.all.len() as u64;
        self.server_decision.get_or_insert_default().body = Some(body.all);
        Ok(())
    }

    /// The response to send if a server denied the request.
    pub(super) fn take_denial(&mut self) -> Option<Denial> {
        self.server_decision
            .as_mut()
            .and_then(|server_decision| server_decision.denial.take())
    }

    /// Sends the authorization server's response; gRPC clients receive it as a gRPC status.
    pub(super) async fn deny(&mut self, denial: Denial) -> Result<ConnectionOutcome, Failure> {
        if self.record.is_grpc {
            let status = if denial.status == StatusCode::UNAUTHORIZED {
                GrpcStatus::Unauthenticated
            } else {
                GrpcStatus::PermissionDenied
            };
            self.write_grpc_failure(status, FailureKind::ExternalAuthDenied);
            return self.respond(StatusCode::OK, &NOTHING).await;
        }
        let Denial {
            status,
            lines,
            body,
        } = denial;
        self.respond_for_server(status, (self.cors(), &lines), body)
            .await
    }
}

/// Takes back a server's edits of headers that come from a verified token, unless its settings list
/// them. An HTTP server without a list sends all that it, or a proxy in front of it, adds to responses;
/// for gRPC, there is no list.
fn protect_claims(principal: &Principal<'_>, grants: &mut Mutation, server: &ExternalAuth) {
    grants.revoke(|name| principal.claims_header(name) && !server.lists(name));
}

impl<'a> AuthorizationCall<'a> {
    fn of_rule(servers: &'a [ExternalAuth], matched: &Matched<'a>) -> Self {
        let timeout = matched.rule.request_timeout();
        Self {
            servers,
            target: matched.target,
            limits: &matched.rule.limits,
            timeout: timeout.map_or(EXTERNAL_AUTH_TIMEOUT, |it| it.min(EXTERNAL_AUTH_TIMEOUT)),
        }
    }
}

//! Answers of policies (`respond`), in the place of a backend. Those of overriding policies come before
//! credentials, so that maintenance needs no identity provider.

use std::sync::Arc;

use http::StatusCode;

use crate::config::RuleExtras;
use crate::exchange::local_body::LocalBody;
use crate::exchange::{ConnectionOutcome, Exchange, Matched};
use crate::failure::{Failure, FailureKind};
use crate::http::authority::MAX_HOST_BYTES;
use crate::policy::answer::{Decision, Facts, Respond, Template};
use crate::policy::effective_fields::PolicyView;
use crate::policy::normalise::normalise_host;
use crate::policy::rate_limit::Moment;
use crate::trace::PolicyEffect;

use super::local_response::NOTHING;

/// An answer of a policy, and why a request gets it.
struct Answer<'a> {
    respond: &'a Respond,
    decision: Decision,
    /// What is wrong with the exception.
    why: Option<String>,
}

impl<'a> Exchange<'a> {
    /// Refuses the request by an invalid policy of its rule, or answers it as an overriding one says: after
    /// CORS preflights, networks, the rate limits that need no credentials, and redirects.
    pub(super) async fn meet_extras(
        &mut self,
        extras: &'a RuleExtras,
        matched: &Matched<'a>,
        host: &str,
    ) -> Result<Option<ConnectionOutcome>, Failure> {
        if self.is_preflight(matched) {
            return Ok(None);
        }
        if let Some(policy) = &extras.refused_by {
            return Err(self.refused_by(policy));
        }
        // What it decides does not depend on the others, which run once in either case.
        let answers = &extras.enforced_answers;
        let Some(answer) = self.first_answer(answers, matched, PolicyView::AsSent, host) else {
            return Ok(None);
        };
        self.check_networks(matched)?;
        self.limit_rate(matched, host, Moment::Early)?;
        match matched.rule.redirect() {
            Some(redirect) => self.answer_by_filters(redirect, matched).await,
            None => Err(self.answered_by(&answer)),
        }
    }

    /// The answer for senders who are known and allowed, unless the request is one that goes on.
    pub(super) fn own_answer(
        &mut self,
        answers: &'a [Arc<Respond>],
        matched: &Matched<'a>,
    ) -> Result<(), Failure> {
        if answers.is_empty() {
            return Ok(());
        }
        let received = self.received;
        let mut buffer = [0; MAX_HOST_BYTES];
        let host = normalise_host(received.authority(), &mut buffer);
        match self.first_answer(answers, matched, PolicyView::Effective, host) {
            Some(answer) => Err(self.answered_by(&answer)),
            None => Ok(()),
        }
    }

    /// The first of these answers that the request gets, unless something that comes before it refuses or redirects
    /// the request.
    fn first_answer(
        &mut self,
        answers: &'a [Arc<Respond>],
        matched: &Matched<'a>,
        view: PolicyView,
        host: &str,
    ) -> Option<Answer<'a>> {
        let mut answers = answers.iter().map(|it| &**it);
        answers.find_map(|respond| {
            let (decision, why) = if respond.has_exception() {
                let is_read = |of: PolicyView| respond.reads_headers() && of == view;
                let lines = self.lines_seen(matched.target, is_read);
                respond.decide(self.subject((host, matched.target.path()), view, &lines))
            } else {
                (Decision::Answered, None)
            };
            let answer = Answer {
                respond,
                decision,
                why,
            };
            if decision == Decision::Excepted {
                self.count_answer(&answer);
                return None;
            }
            Some(answer)
        })
    }

    fn count_answer(&self, answer: &Answer<'a>) {
        self.shard.counters.responds.count(answer.decision);
        if let Some(trace) = &self.record.trace {
            trace.respond(answer.respond, answer.decision, answer.why.as_deref());
        }
    }

    /// The end of a request that gets an answer.
    fn answered_by(&mut self, answer: &Answer<'a>) -> Failure {
        if self.would_open_tunnel(answer.respond.status()) {
            let why = "its status of success would open a WebSocket";
            self.trace_policy("respond", PolicyEffect::Skipped(why));
            return FailureKind::NoWebSocket.into();
        }
        self.count_answer(answer);
        self.answer = Some(answer.respond);
        Failure::from(FailureKind::Responded)
    }

    /// Sends an answer, with the response lines written so far. gRPC gets its fields, and a status of its own.
    pub(super) async fn send_policy_answer(
        &mut self,
        answer: &'a Respond,
    ) -> Result<ConnectionOutcome, Failure> {
        self.write_server_lines(self.cors(), answer.lines());
        if self.record.is_grpc {
            self.write_grpc_failure(answer.grpc_status(), FailureKind::Responded);
            return self.respond(StatusCode::OK, &NOTHING).await;
        }
        let Some(content) = answer.content() else {
            let text = if answer.is_built_in() {
                FailureKind::Responded.text()
            } else {
                ""
            };
            let text = LocalBody::Bytes(text.as_bytes());
            return self.respond(answer.status(), &text).await;
        };
        self.work
            .response_lines
            .extend_from_slice(&content.type_line);
        let body = self.filled(answer.status(), &content.body);
        self.respond(answer.status(), &body).await
    }

    /// A body with the facts of the request in the place of its placeholders.
    pub(super) fn filled<'t>(&mut self, status: StatusCode, body: &'t Template) -> LocalBody<'t> {
        if !body.has_places() {
            return LocalBody::Filled(body.fill(Facts {
                request_id: "",
                status,
                host: "",
            }));
        }
        let (id, received) = (self.ensure_id(), self.received);
        let mut buffer = [0; MAX_HOST_BYTES];
        LocalBody::Filled(body.fill(Facts {
            request_id: id.as_str(),
            status,
            host: normalise_host(received.authority(), &mut buffer),
        }))
    }
}

//! Answers that rules give themselves: redirects and CORS preflights.

use http::StatusCode;

use crate::exchange::answer::{send, write_date};
use crate::exchange::scratch::Work;
use crate::exchange::{After, Destination, Exchange, Matched, Next};
use crate::failure::{Failure, FailureKind};
use crate::http::h1::encode::{Answer, Persist};
use crate::http::known::Known;
use crate::policy::cors::{Cors, Preflight};
use crate::policy::redirect::{self, Redirect};
use crate::shard::deadline::Expiry;
use crate::trace::PolicyEffect;

impl<'a> Exchange<'a> {
    /// Answers where the rule does so before a backend is drawn.
    pub(super) async fn answer_by_rule(
        &mut self,
        matched: &Matched<'a>,
    ) -> Result<Option<After>, Failure> {
        let Some(answers) = matched.rule.answers.as_deref() else {
            return Ok(None);
        };
        self.answer_itself(answers.cors.as_ref(), answers.redirect.as_ref(), matched)
            .await
    }

    /// Answers where the filters of the drawn backend do.
    pub(super) async fn answer_by_backend(
        &mut self,
        matched: &Matched<'a>,
        drawn: Destination<'a>,
    ) -> Result<Option<After>, Failure> {
        let Some(policy) = drawn.backend.policy.as_deref() else {
            return Ok(None);
        };
        self.answer_itself(policy.cors.as_ref(), policy.redirect.as_ref(), matched)
            .await
    }

    async fn answer_itself(
        &mut self,
        cors: Option<&Cors>,
        redirect: Option<&Redirect>,
        matched: &Matched<'a>,
    ) -> Result<Option<After>, Failure> {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let lines = &mut self.work.response_lines;
        lines.clear();
        if let Some(cors) = cors {
            if let Some(preflight) = Preflight::of(received.method(), fields, bytes) {
                let allowed = cors.write_preflight_lines(preflight, lines);
                self.trace_policy("cors", preflight_told(allowed));
                return self.answer(Cors::PREFLIGHT_STATUS, b"").await.map(Some);
            }
            let origin = fields.value(Known::Origin, bytes);
            let allowed = cors.write_lines(origin, None, lines);
            self.trace_policy("cors", origin_told(origin, allowed));
        }
        let Some(redirect) = redirect else {
            return Ok(None);
        };
        let address = redirect::Address {
            scheme: self.client.hop.scheme(),
            authority: received.authority(),
            listener_port: self.bind.address.port(),
            path: matched.path(),
        };
        redirect.write_line(address, &mut self.work.response_lines);
        self.trace_policy("redirect", PolicyEffect::Applied("answered with it"));
        self.answer(redirect.status(), b"").await.map(Some)
    }

    fn trace_policy(&self, kind: &'static str, did: PolicyEffect) {
        if let Some(trace) = &self.record.trace {
            trace.policy(kind, did);
        }
    }

    /// Sends an answer of our own, with the response lines written so far.
    pub(super) async fn answer(
        &mut self,
        status: StatusCode,
        body: &[u8],
    ) -> Result<After, Failure> {
        let whole = self.has_whole_request();
        let persist = if whole {
            self.persistence()
        } else {
            Persist::Close
        };
        self.send_answer(status, body, persist).await
    }

    /// Sends an answer of our own; the connection lives on where `persist` says so.
    pub(super) async fn send_answer(
        &mut self,
        status: StatusCode,
        body: &[u8],
        persist: Persist,
    ) -> Result<After, Failure> {
        let Work {
            to_client: out,
            response_lines: lines,
            ..
        } = &mut *self.work;
        write_date(lines);
        let answer = Answer {
            status,
            asked: self.received.asked(),
            client: self.received.head.version,
            persist,
            append: lines,
            body,
        };
        self.record.status = status.as_u16();
        self.record.answered = true;
        self.record.bytes_out = body.len() as u64;
        self.client
            .deadline
            .arm(self.bind.limits.write_idle_timeout, Expiry::Disconnect);
        let sent = send(self.client, &answer, out).await;
        self.client.deadline.disarm();
        sent.map_err(|_| {
            if self.client.deadline.expired() {
                FailureKind::ClientStalled
            } else {
                FailureKind::ClientGone
            }
        })?;
        Ok(match persist {
            Persist::Keep => After::KeepAlive,
            Persist::Close if self.work.request_body.is_done() => After::close(&self.client.stream),
            // The rest of the request may come, and must not reset the answer.
            Persist::Close => After::End(Next::Linger),
        })
    }

    /// Takes the request's body out of the buffer, and tells whether that was all of it. What has
    /// not come is not waited for: the connection closes instead.
    fn has_whole_request(&mut self) -> bool {
        let decoder = &mut self.work.request_body;
        if !decoder.is_done()
            && let Ok(decoded) = decoder.decode(self.buffer.filled_mut())
        {
            self.record.bytes_in += decoded.payload.len() as u64;
            self.buffer.consume(decoded.consumed);
        }
        decoder.is_done()
    }
}

/// What is told of an answer to a preflight.
fn preflight_told(allowed: bool) -> PolicyEffect {
    PolicyEffect::Applied(if allowed {
        "answered the preflight"
    } else {
        "answered the preflight: its origin is not allowed"
    })
}

/// What is told of a request that is no preflight.
fn origin_told(origin: Option<&[u8]>, allowed: bool) -> PolicyEffect {
    match (origin, allowed) {
        (_, true) => PolicyEffect::Applied("allowed its origin to read the response"),
        (Some(_), false) => PolicyEffect::Skipped("its origin is not allowed"),
        (None, false) => PolicyEffect::Skipped("the request has no origin"),
    }
}

//! The request as the backend gets it: target, host, and the lines we add.

use std::rc::Rc;

use rand::RngExt;

use crate::config::{Bind, Snapshot};
use crate::downstream::connection::Client;
use crate::forward::{Attempt, RequestSide, ResponseSide};
use crate::http::h1::HeadLimits;
use crate::http::h1::encode::{Expectation, Persist, UpstreamRequest};
use crate::http::known::Known;
use crate::net::Buffer;
use crate::policy::headers::HeaderEdits;
use crate::policy::request_id::RequestId;
use crate::policy::rewrite::Rewrite;
use crate::relay::Side;
use crate::shard::Shard;

use super::scratch::{Received, Work};
use super::{Drawn, Exchange, Matched, Record};

impl<'a> Exchange<'a> {
    /// A request whose head was parsed.
    pub(super) fn begin(
        shard: &'a Rc<Shard>,
        snapshot: &'a Snapshot,
        bind: &'a Bind,
        client: &'a Client,
        received: &'a Received,
        buffer: &'a mut Buffer,
        work: &'a mut Work,
    ) -> Self {
        work.request_body.reset(received.head.framing);
        work.response_lines.clear();
        work.tried.clear();
        let belief = bind.trust.belief(&client.hop);
        Self {
            shard,
            snapshot,
            bind,
            client,
            received,
            belief,
            buffer,
            work,
            mirrors: Vec::new(),
            pinned: None,
            record: Record::begin(),
        }
    }

    /// Writes what the backend gets in place of, and beside, what the client sent.
    pub(super) fn prepare(&mut self, matched: &Matched<'a>, drawn: Drawn<'a>) {
        let Work {
            target,
            request_lines: lines,
            ..
        } = &mut *self.work;
        target.clear();
        match drawn.rewrite() {
            Some(rewrite) => rewrite.write_target(matched.path(), target),
            None => target.extend_from_slice(matched.target.text.as_bytes()),
        }
        lines.clear();
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let edits = drawn.request_edits();
        let hop = &self.client.hop;
        self.belief
            .write_lines(hop, received.authority(), (fields, bytes), edits, lines);
        let random = self.shard.with_rng(RngExt::random);
        let id = RequestId::choose(self.belief, fields, bytes, random);
        id.write_line(edits, lines);
        self.record.id = Some(id);
        if let Some(edits) = edits {
            lines.extend_from_slice(edits.appended());
        }
    }

    /// Writes the request's head as the backend gets it.
    pub(crate) fn encode_head(&mut self, drawn: Drawn<'a>) {
        let Work {
            target,
            request_lines,
            to_upstream,
            ..
        } = &mut *self.work;
        let (belief, edits) = (self.belief, drawn.request_edits());
        to_upstream.clear();
        UpstreamRequest {
            head: &self.received.head,
            bytes: &self.received.bytes,
            target,
            host: drawn
                .host()
                .map_or(self.received.authority(), str::as_bytes),
            // We tell the client to go on: many origins never do, and it would wait in vain.
            expectation: Expectation::Ours,
            append: request_lines,
        }
        .encode(to_upstream, |known, name| {
            known == Known::XRequestId
                || belief.drops(known, name)
                || edits.is_some_and(|edits| edits.drops(name))
        });
    }

    /// What the two bodies need, apart from each other.
    pub(crate) fn sides(
        &mut self,
        attempt: &Attempt<'_>,
    ) -> (RequestSide<'_>, ResponseSide<'_, 'a>) {
        let persist = self.persistence();
        let received: &'a Received = self.received;
        let rule = attempt.matched.rule;
        let limits = &rule.limits;
        let work = &mut *self.work;
        let request = RequestSide {
            buffer: &mut *self.buffer,
            decoder: &mut work.request_body,
            out: &mut work.to_upstream,
        };
        let client = Side {
            stream: &self.client.stream,
            deadline: &self.client.deadline,
            idle: limits.write_idle_timeout,
            until: attempt.until,
        };
        let response = ResponseSide {
            client,
            version: received.head.version,
            asked: received.asked(),
            limits: HeadLimits {
                line_bytes: limits.head_bytes as usize,
                head_bytes: limits.head_bytes as usize,
                fields: limits.header_fields as usize,
            },
            persist,
            response: &mut work.response,
            decoder: &mut work.response_body,
            lines: &mut work.response_lines,
            out: &mut work.to_client,
            record: &mut self.record,
            origin: received.head.fields.value(Known::Origin, &received.bytes),
        };
        (request, response)
    }

    /// Whether the client's connection may live on after this request.
    pub(crate) fn persistence(&self) -> Persist {
        let limits = &self.bind.limits;
        let goes_on = self.received.head.keep_alive
            && !self.shard.draining.get()
            && self.client.requests < limits.requests_per_connection.get()
            && !self.client.is_old(self.shard.now());
        if goes_on {
            Persist::Keep
        } else {
            Persist::Close
        }
    }
}

impl<'a> Drawn<'a> {
    /// Edits of requests to this backend.
    pub(crate) fn request_edits(&self) -> Option<&'a HeaderEdits> {
        self.backend
            .policy
            .as_deref()
            .map(|policy| &policy.request_headers)
    }

    /// Edits of responses from this backend.
    pub(crate) fn response_edits(&self) -> Option<&'a HeaderEdits> {
        self.backend
            .policy
            .as_deref()
            .map(|policy| &policy.response_headers)
    }

    /// Host that the backend gets, where a filter gives one.
    fn host(&self) -> Option<&'a str> {
        self.rewrite()?.host()
    }

    fn rewrite(&self) -> Option<&'a Rewrite> {
        self.backend.policy.as_deref()?.rewrite.as_ref()
    }
}

//! The request as the backend gets it: target, host, and the lines we add.

use std::rc::Rc;

use rand::RngExt;

use crate::channel::Channel;
use crate::config::{Bind, Protection, Snapshot};
use crate::downstream::connection::Client;
use crate::failure::{Failure, FailureKind};
use crate::forward::{Attempt, RequestSide, ResponseSide};
use crate::http::h1::encode::{Expectation, Persist, UpstreamRequest};
use crate::http::h2::{self, encode::Switch};
use crate::http::head::Version;
use crate::http::known::Known;
use crate::http::websocket;
use crate::net::Buffer;
use crate::policy::headers::HeaderEdits;
use crate::policy::normalise::Target;
use crate::policy::request_id::RequestId;
use crate::policy::rewrite::Rewrite;
use crate::relay::Side;
use crate::shard::Shard;
use crate::tls::FORWARDED_CLIENT_CERT;
use crate::trace::Tracer;

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
        let framing = client.stream.body_framing(received.head.framing);
        work.request_body.reset(framing);
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
            passed: None,
            record: Record::begin(received),
        }
    }

    /// Tells those who watch requests like this one of it, and gives it its id already.
    #[cold]
    pub(super) fn begin_trace(&mut self, target: &Result<(&str, Target<'_>), Failure>) {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let random = self.shard.with_rng(RngExt::random);
        self.record.id = Some(RequestId::choose(self.belief, fields, bytes, random));
        let (host, path) = match target {
            Ok((host, target)) => (host.as_bytes(), target.path().as_bytes()),
            Err(_) => (received.authority(), received.head.target.of(bytes)),
        };
        self.record.trace = Tracer::begin(self, host, path);
    }

    /// Writes what the backend gets in place of, and beside, what the client sent.
    pub(super) fn prepare(&mut self, matched: &Matched<'a>, drawn: Drawn<'a>) {
        let carrier = self.carrier(matched.target);
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
        if let Some(trace) = &self.record.trace {
            trace.backend_filters(drawn.backend);
        }
        let edits = drawn.request_edits();
        let hop = &self.client.hop;
        self.belief
            .write_lines(hop, received.authority(), (fields, bytes), edits, lines);
        if let Some(certificate) = self.client.verified_certificate() {
            certificate.write_line(edits, lines);
        }
        let random = self.shard.with_rng(RngExt::random);
        // A request that is watched has it already.
        let chosen = self.record.id.take();
        let id = chosen.unwrap_or_else(|| RequestId::choose(self.belief, fields, bytes, random));
        id.write_line(edits, lines);
        self.record.id = Some(id);
        if let Some(passed) = &self.passed {
            passed.edit_target(target);
            passed.write_lines(carrier, edits, lines);
        }
        if let Some(edits) = edits {
            lines.extend_from_slice(edits.appended());
        }
        if received.head.upgrade.is_some() && received.head.version == Version::Http2 {
            websocket::write_key(self.shard.with_rng(RngExt::random), lines);
        }
    }

    /// Writes the request's head as the backend gets it: onto the stream, or where the bytes on
    /// their way to a socket stand.
    ///
    /// # Errors
    /// What the backend speaks cannot carry it.
    pub(crate) fn write_head(
        &mut self,
        drawn: Drawn<'a>,
        channel: &Channel,
    ) -> Result<(), Failure> {
        match channel.as_h2() {
            None => self.encode_head(drawn),
            Some(stream) => {
                self.work.to_upstream.clear();
                let over = &drawn.cluster.protection;
                stream.put_request(self.make_head(drawn, over, stream.switch())?);
            }
        }
        Ok(())
    }

    /// The request's head as HTTP/2, for who is protected like this.
    pub(crate) fn make_head(
        &self,
        drawn: Drawn<'a>,
        over: &Protection,
        switch: Switch,
    ) -> Result<http::Request<()>, Failure> {
        let scheme = match over {
            Protection::Plain => http::uri::Scheme::HTTP,
            Protection::Tls(_) | Protection::Unusable => http::uri::Scheme::HTTPS,
        };
        let made = h2::encode::request(&self.outgoing(drawn), &scheme, switch, |known, name| {
            self.drops(drawn, known, name)
        });
        let cannot = Failure::because(FailureKind::BadPath, "target not possible in HTTP/2");
        made.ok_or(cannot)
    }

    /// Writes the request's head as HTTP/1.
    pub(crate) fn encode_head(&mut self, drawn: Drawn<'a>) {
        let mut out = std::mem::take(&mut self.work.to_upstream);
        out.clear();
        self.outgoing(drawn)
            .encode(&mut out, |known, name| self.drops(drawn, known, name));
        self.work.to_upstream = out;
    }

    /// Whether a field that the client sent is left out.
    fn drops(&self, drawn: Drawn<'a>, known: Known, name: &[u8]) -> bool {
        known == Known::XRequestId
            || self.belief.drops(known, name)
            || (known == Known::Other
                && self.client.verified_certificate().is_some()
                && name.eq_ignore_ascii_case(FORWARDED_CLIENT_CERT.as_bytes()))
            || drawn.request_edits().is_some_and(|edits| edits.drops(name))
            || self
                .passed
                .as_ref()
                .is_some_and(|passed| passed.drops(known, name))
    }

    fn outgoing(&self, drawn: Drawn<'a>) -> UpstreamRequest<'_> {
        UpstreamRequest {
            head: &self.received.head,
            bytes: &self.received.bytes,
            target: &self.work.target,
            host: drawn
                .host()
                .map_or(self.received.authority(), str::as_bytes),
            // We tell the client to go on: many origins never do, and it would wait in vain.
            expectation: Expectation::Ours,
            append: &self.work.request_lines,
        }
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
            limits: limits.response_head(),
            persist,
            response: &mut work.response,
            decoder: &mut work.response_body,
            lines: &mut work.response_lines,
            out: &mut work.to_client,
            record: &mut self.record,
            bind: self.client.bind,
            origin: received.head.fields.value(Known::Origin, &received.bytes),
            received,
        };
        (request, response)
    }

    /// Whether the client's connection may live on after this request.
    pub(crate) fn persistence(&self) -> Persist {
        let limits = &self.bind.limits;
        let goes_on = self.received.head.keep_alive
            && !self.shard.ends_connections(self.client.bind)
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

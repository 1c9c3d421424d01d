//! The request as sent to the backend: target, host, and added lines.

use rand::RngExt;

use crate::exchange::scratch::RequestBuffers;
use crate::exchange::{Destination, Exchange, Matched};
use crate::failure::Failure;
use crate::http::websocket;
use crate::policy::normalise::Target;
use crate::policy::request_id::RequestId;
use crate::trace::{RequestBegun, Tracer};

impl<'a> Exchange<'a> {
    /// Starts traces that match the request, and assigns its id early for them.
    #[cold]
    pub(super) fn begin_trace(&mut self, target: &Result<(&str, Target<'_>), Failure>) {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let random = self.shard.with_rng(RngExt::random);
        self.record.id = Some(RequestId::choose(self.header_trust, fields, bytes, random));
        let (host, path) = match target {
            Ok((host, target)) => (host.as_bytes(), target.path().as_bytes()),
            Err(_) => (received.authority(), received.head.target.of(bytes)),
        };
        let begun = RequestBegun {
            head: &received.head,
            bytes,
            host,
            path,
            id: self.record.id.as_ref().map_or("", |id| id.as_str()),
            client: self.client.hop.address(),
            bind: self.bind,
            configuration: self.snapshot.version,
            started: self.record.started,
        };
        let trace = Tracer::begin_request(&self.proxy.watches, self.shard.id, &begun);
        self.record.trace = trace;
    }

    /// Writes the lines that replace or complete those of the client.
    pub(super) fn prepare(&mut self, matched: &Matched<'a>, drawn: Destination<'a>) {
        let carrier = self.carrier(matched.target);
        let RequestBuffers {
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
        self.header_trust
            .write_lines(hop, received.authority(), (fields, bytes), edits, lines);
        if let Some(certificate) = self.client.verified_certificate() {
            certificate.write_line(edits, lines);
        }
        let random = self.shard.with_rng(RngExt::random);
        // A traced request has its id already.
        let chosen = self.record.id.take();
        let id =
            chosen.unwrap_or_else(|| RequestId::choose(self.header_trust, fields, bytes, random));
        id.write_line(edits, lines);
        self.record.id = Some(id);
        if let Some(principal) = &self.principal {
            principal.edit_target(target);
            principal.write_lines(carrier, edits, lines);
        }
        if let Some(server_decision) = &self.server_decision {
            server_decision.grants.edit_before(edits, lines);
        }
        if let Some(edits) = edits {
            lines.extend_from_slice(edits.appended());
        }
        if received.is_extended_connect() && !edits.is_some_and(|edits| edits.drops(websocket::KEY))
        {
            websocket::write_key(self.shard.with_rng(RngExt::random), lines);
        }
    }
}

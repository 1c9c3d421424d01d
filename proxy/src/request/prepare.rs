//! The request as sent to the backend: target, host, and added lines.

use std::net::IpAddr;

use rand::RngExt;

use crate::exchange::{Destination, Exchange, Matched};
use crate::failure::Failure;
use crate::http::websocket;
use crate::policy::authentication::Principal;
use crate::policy::authorization::Subject;
use crate::policy::effective_fields::{EffectiveFields, PolicyView};
use crate::policy::headers::HeaderEdits;
use crate::policy::normalise::Target;
use crate::policy::path_rewrite::{PathRewrite, ResultLimits, rewrite};
use crate::policy::request_id::RequestId;
use crate::trace::{RequestBegun, Tracer};

impl<'a> Exchange<'a> {
    /// Starts traces that match the request, and assigns its id early for them.
    #[cold]
    pub(super) fn begin_trace(&mut self, target: &Result<(&str, Target<'_>), Failure>) {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let Some(snapshot) = &self.snapshot else {
            return;
        };
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
            credentials: &snapshot.credentials,
            configuration: snapshot.version,
            started: self.record.started,
        };
        let trace = Tracer::begin_request(&self.proxy.watches, self.shard.id, &begun);
        self.record.trace = trace;
    }

    /// Writes the target for the backend, and the lines that replace or complete those of the client.
    pub(super) fn prepare(
        &mut self,
        matched: &Matched<'a>,
        destination: Destination<'a>,
    ) -> Result<(), Failure> {
        self.write_target(matched, destination)?;
        let edits = destination.request_edits();
        let mut lines = std::mem::take(&mut self.work.request_lines);
        lines.clear();
        self.write_own_lines(matched.target, edits, &mut lines);
        let target = &mut self.work.target;
        if let Some(trace) = &self.record.trace {
            trace.backend_filters(destination.backend);
        }
        if let Some(principal) = &self.principal {
            principal.edit_target(target);
        }
        if let Some(server_decision) = &self.server_decision {
            server_decision.grants.edit_before(edits, &mut lines);
        }
        if let Some(edits) = edits {
            lines.extend_from_slice(edits.appended());
        }
        if self.received.is_extended_connect()
            && !edits.is_some_and(|edits| edits.drops(websocket::KEY))
        {
            websocket::write_key(self.shard.with_rng(RngExt::random), &mut lines);
        }
        self.work.request_lines = lines;
        Ok(())
    }

    fn write_target(
        &mut self,
        matched: &Matched<'a>,
        destination: Destination<'a>,
    ) -> Result<(), Failure> {
        self.work.target.clear();
        if let Some(rewrite) = destination.path_rewrite() {
            return self.rewrite_path(rewrite, matched.target);
        }
        let target = &mut self.work.target;
        match destination.rewrite() {
            Some(rewrite) => rewrite.write_target(matched.path(), target),
            None => target.extend_from_slice(matched.target.text.as_bytes()),
        }
        Ok(())
    }

    fn rewrite_path(&mut self, by: &PathRewrite, target: Target<'a>) -> Result<(), Failure> {
        let limits = ResultLimits {
            options: self.bind.path_options,
            bytes: self.bind.limits.request_line_bytes as usize,
        };
        let scratch = &mut *self.proxy.path_rewrites.borrow_mut();
        let result = rewrite(by, target, limits, scratch, &mut self.work.target);
        self.shard.counters.path_rewrites.count(result.into());
        if let Some(trace) = &self.record.trace {
            trace.path_rewrite(target, result, &self.work.target);
        }
        Ok(result.map(drop)?)
    }

    /// Appends the lines of the gateway: forwarding headers, the client's certificate, the id of the
    /// request, and claims of its token. Names that `edits` drop are left out.
    fn write_own_lines(
        &mut self,
        target: Target<'a>,
        edits: Option<&HeaderEdits>,
        lines: &mut Vec<u8>,
    ) {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let (hop, address) = (&self.client.hop, (self.scheme, received.authority()));
        self.header_trust
            .write_lines(hop, address, (fields, bytes), edits, lines);
        if let Some(certificate) = self.client.verified_certificate() {
            certificate.write_line(edits, lines);
        }
        // The id was chosen earlier if the request is traced, or if a policy evaluated its headers.
        let chosen = self.record.id.take();
        let id = chosen.unwrap_or_else(|| {
            let random = self.shard.with_rng(RngExt::random);
            RequestId::choose(self.header_trust, fields, bytes, random)
        });
        id.write_line(edits, lines);
        self.record.id = Some(id);
        if let Some(principal) = &self.principal {
            principal.write_lines(self.token_sources(target), edits, lines);
        }
    }

    /// The lines of the gateway, for [`Self::effective_fields`].
    pub(super) fn own_lines(&mut self, target: Target<'a>) -> Vec<u8> {
        let mut lines = Vec::new();
        self.write_own_lines(target, None, &mut lines);
        lines
    }

    /// The lines of the gateway that policies see in the views that are read: overriding ones the client's
    /// certificate alone, if the gateway verified it.
    pub(super) fn lines_seen(
        &mut self,
        target: Target<'a>,
        is_read: impl Fn(PolicyView) -> bool,
    ) -> LinesSeen {
        let mut lines = LinesSeen::default();
        if is_read(PolicyView::Effective) {
            lines.effective = self.own_lines(target);
        }
        if let Some(certificate) = self.client.verified_certificate()
            && (is_read(PolicyView::AsSent) || is_read(PolicyView::AsSentWithClaims))
        {
            certificate.write_line(None, &mut lines.as_sent);
        }
        lines
    }

    /// The request as a policy sees it, at this host and path. Only those that read header fields need the lines of
    /// the gateway.
    pub(super) fn subject<'e>(
        &'e self,
        (host, path): (&'e str, &'e str),
        view: PolicyView,
        lines: &'e LinesSeen,
    ) -> Subject<'e> {
        let claims = self.principal.as_ref().and_then(Principal::claims);
        Subject {
            method: self.received.method(),
            host,
            path,
            fields: EffectiveFields {
                view,
                ..self.effective_fields(lines.of(view))
            },
            client: self.client_address(),
            claims: claims.filter(|_| view.has_claims()),
        }
    }

    /// The address of the client: behind PROXY protocol and trusted hops.
    pub(super) fn client_address(&self) -> IpAddr {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        self.bind.trust.client(&self.client.hop, fields, bytes)
    }

    /// The header fields as the backend will receive them, for policies that evaluate the request.
    pub(super) fn effective_fields<'e>(&'e self, own: &'e [u8]) -> EffectiveFields<'e> {
        EffectiveFields {
            fields: &self.received.head.fields,
            bytes: &self.received.bytes,
            header_trust: self.header_trust,
            principal: self.principal.as_ref(),
            own,
            grants: self
                .server_decision
                .as_deref()
                .map(|decision| &decision.grants),
            view: PolicyView::Effective,
        }
    }
}

/// Lines of the gateway that policies see.
#[derive(Debug, Default)]
pub(super) struct LinesSeen {
    effective: Vec<u8>,
    as_sent: Vec<u8>,
}

impl LinesSeen {
    fn of(&self, view: PolicyView) -> &[u8] {
        match view {
            PolicyView::Effective => &self.effective,
            PolicyView::AsSent | PolicyView::AsSentWithClaims => &self.as_sent,
        }
    }
}

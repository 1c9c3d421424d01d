//! Where a request belongs: listener by host, rule by everything else, backend by weight.

use xds::model::InvalidBackend;

use crate::config::{Bind, Cluster, Listener, Rule, RuleBackend};
use crate::failure::{Failure, FailureKind};
use crate::observe::counters::Up;
use crate::policy::normalise::Target;
use crate::policy::path_edit::RequestPath;
use crate::route::{HeadFields, RequestView};
use crate::trace::Tracer;

use super::Exchange;
use super::scratch::Received;

/// The rule that serves a request.
#[derive(Clone, Copy)]
pub(crate) struct Matched<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) target: Target<'a>,
    /// Bytes of the path that its prefix matched.
    prefix_len: usize,
}

/// The backend that gets a request.
#[derive(Clone, Copy)]
pub(crate) struct Drawn<'a> {
    pub(crate) backend: &'a RuleBackend,
    pub(crate) cluster: &'a Cluster,
}

impl<'a> Matched<'a> {
    /// The target, for filters to change it.
    pub(crate) fn path(&self) -> RequestPath<'a> {
        RequestPath::new(self.target.text.as_bytes(), self.prefix_len)
    }
}

impl<'a> Exchange<'a> {
    /// The listener that owns the request's host.
    pub(super) fn select_listener(&mut self, host: &str) -> Result<&'a Listener, Failure> {
        let bind: &'a Bind = self.bind;
        let listener = bind.listener(host);
        if let Some(trace) = &self.record.trace {
            trace.listener(host, bind, listener);
        }
        let listener = listener.ok_or(FailureKind::NoListener)?;
        self.record.listener = Some(listener);
        let counters = self.shard.counters.listeners.of(listener.id);
        self.record.active[0] = Some(Up::new(&counters.requests));
        // A client that met another listener in its handshake has shown that one's certificates
        // and been shown them (RFC 9110 section 15.5.20, GEP-3567).
        match &self.client.tls {
            Some(tls) if !tls.is_for(listener) => Err(FailureKind::Misdirected.into()),
            _ => Ok(listener),
        }
    }

    /// The rule that serves the request.
    pub(super) fn select_rule(
        &mut self,
        listener: &'a Listener,
        host: &str,
        target: Target<'a>,
    ) -> Result<Matched<'a>, Failure> {
        let received: &'a Received = self.received;
        let view = RequestView {
            host: host.as_bytes(),
            path: target.path().as_bytes(),
            query: target.query().map(str::as_bytes),
            method: received.method(),
            headers: &HeadFields {
                fields: &received.head.fields,
                head: &received.bytes,
            },
        };
        let mut caches = self.shard.regexes.borrow_mut();
        let cache = caches.find_or_insert(listener.id, Default::default);
        let selected = listener.router.select(&view, cache);
        let rule = selected.and_then(|selected| listener.rules.get(selected.route as usize));
        if let Some(trace) = &self.record.trace {
            let considered = listener.router.explain(&view, cache, Tracer::ROUTES);
            trace.route(&listener.rules, &considered, rule);
            if let Some(rule) = rule {
                trace.policies(rule);
            }
        }
        let (selected, rule) = selected.zip(rule).ok_or(FailureKind::NoRoute)?;
        self.record.rule = Some(rule);
        let counters = self.shard.counters.routes.of(rule.id);
        self.record.active[1] = Some(Up::new(&counters.active));
        Ok(Matched {
            rule,
            target,
            prefix_len: selected.prefix_len,
        })
    }

    /// The backend that the request's lot falls on. A rule without any, and the share of one that
    /// does not resolve, answer 500 (Gateway API, `HTTPRouteRule.backendRefs`).
    pub(super) fn draw_backend(&mut self, matched: &Matched<'a>) -> Result<Drawn<'a>, Failure> {
        let rule = matched.rule;
        self.pinned = self.find_session(rule);
        if let Some(trace) = &self.record.trace {
            trace.session(self.pinned.is_some());
        }
        if let Some(pinned) = self.pinned {
            self.record.cluster = Some(pinned.drawn.cluster);
            return Ok(pinned.drawn);
        }
        let drawn = self.shard.with_rng(|rng| rule.draw.draw(rng));
        let backend = drawn.and_then(|at| rule.backends.get(at));
        let backend = backend.ok_or(FailureKind::NoValidBackend)?;
        let index = backend
            .cluster
            .map_err(|why| self.unresolved(backend, why))?;
        let cluster = self.snapshot.cluster(index);
        self.record.cluster = Some(cluster);
        Ok(Drawn { backend, cluster })
    }

    #[cold]
    fn unresolved(&self, backend: &RuleBackend, why: InvalidBackend) -> FailureKind {
        if let Some(trace) = &self.record.trace {
            trace.unresolved(backend.unresolved.as_deref(), why);
        }
        FailureKind::NoValidBackend
    }
}

//! Routing: the listener by host, the rule by everything else, the backend by weight.

use std::time::Instant;

use http::HeaderName;
use xds::model::{SessionPersistence, SessionToken};

use crate::config::held::HeldRule;
use crate::config::{Bind, Listener, ListenerSettings, PlacedRule, Rule, RuleBackend, Sessions};
use crate::exchange::scratch::Received;
use crate::exchange::{Destination, Exchange, Matched, PinnedSession};
use crate::failure::{Failure, FailureKind};
use crate::http::known::KnownHeader;
use crate::observe::counters::GaugeGuard;
use crate::policy::forwarded::HeaderTrust;
use crate::policy::mutation::Mutation;
use crate::policy::normalise::Target;
use crate::route::{HeadFields, HeaderLookup, RequestView, Selected};
use crate::trace::Tracer;
use crate::upstream::session::{PersistentSession, SessionSearch, seconds};

impl<'a> Exchange<'a> {
    /// Selects the listener for the request's host, and returns its index in the bind.
    pub(super) fn select_listener(&mut self, host: &str) -> Result<usize, Failure> {
        let snapshot = self.snapshot.clone().ok_or(FailureKind::NoListener)?;
        let bind = snapshot.bind(self.client.bind);
        let bind = bind.ok_or(FailureKind::NoListener)?;
        let position = bind.position(host);
        let listener = position.and_then(|at| bind.listeners.get(at));
        if let Some(trace) = &self.record.trace {
            trace.listener(host, bind, listener);
        }
        let (at, listener) = position.zip(listener).ok_or(FailureKind::NoListener)?;
        let hold = || {
            self.shard
                .config
                .hold_listener(&snapshot, &listener.settings)
        };
        let settings: &'a ListenerSettings = &self.holds.listener.get_or_init(hold).settings;
        self.record.listener = Some(settings);
        let counters = self.shard.counters.listeners.of(settings.id);
        self.record.active[0] = Some(GaugeGuard::new(&counters.requests));
        self.check_connection(bind, listener).map(|()| at)
    }

    /// Selects the listener in the configuration as it is now, after a wait without any, and returns its index
    /// in the bind. A request is not served by a listener whose authorization servers have not decided about
    /// it, nor if they decided about another client than the one that it is of now.
    pub(super) fn select_listener_again(
        &mut self,
        host: &str,
        target: Target<'a>,
    ) -> Result<usize, Failure> {
        let current = self.shard.config.load_for(self.client.bind);
        let (snapshot, _) = current.ok_or(FailureKind::NoListener)?;
        let bind = snapshot.bind(self.client.bind);
        let bind = bind.ok_or(FailureKind::NoListener)?;
        let position = bind.position(host);
        let position = position.and_then(|at| Some((at, bind.listeners.get(at)?)));
        let (at, listener) = position.ok_or(FailureKind::NoListener)?;
        let now = &listener.settings;
        let is_same = self
            .record
            .listener
            .is_some_and(|asked| asked.id == now.id && asked.external_auth == now.external_auth);
        let changed = if !is_same {
            Some("its servers were changed meanwhile")
        } else if self.is_of_another_client(bind) {
            Some("the trusted hops were changed meanwhile")
        } else {
            None
        };
        if let Some(changed) = changed {
            return Err(Failure::because(FailureKind::ExternalAuthFailed, changed));
        }
        self.check_connection(bind, listener)?;
        self.check_new_head_policies(now, host, target)?;
        self.snapshot = Some(snapshot);
        Ok(at)
    }

    /// Whether the trusted hops of this bind make it the request of another client.
    fn is_of_another_client(&self, bind: &Bind) -> bool {
        let (hop, received) = (&self.client.hop, self.received);
        let client = bind
            .trust
            .client(hop, &received.head.fields, &received.bytes);
        bind.trust.header_trust(hop) != self.header_trust || client != self.client_address()
    }

    /// Refuses a client that used another listener in its handshake: it was authenticated by that one's
    /// settings (RFC 9110 section 15.5.20, GEP-3567).
    fn check_connection(&self, bind: &Bind, listener: &Listener) -> Result<(), Failure> {
        if self.client.is_for(bind, listener) {
            Ok(())
        } else if self.client.is_current(bind) {
            Err(FailureKind::Misdirected.into())
        } else {
            Err(FailureKind::OutdatedConnection.into())
        }
    }

    /// Selects the rule that matches the request, and lets go of the rest of the configuration.
    pub(super) fn select_rule(
        &mut self,
        listener: usize,
        host: &str,
        target: Target<'a>,
    ) -> Result<Matched<'a>, Failure> {
        let snapshot = self.snapshot.take().ok_or(FailureKind::NoListener)?;
        let bind = snapshot.bind(self.client.bind);
        let listener = bind.and_then(|bind| bind.listeners.get(listener));
        let listener = listener.ok_or(FailureKind::NoListener)?;
        let received: &'a Received = self.received;
        let own = TrustedFields {
            received: HeadFields {
                fields: &received.head.fields,
                head: &received.bytes,
            },
            header_trust: self.header_trust,
        };
        let (selected, rule) = match self.server_decision.as_deref() {
            None => self.select_by(listener, host, target, &own),
            Some(server_decision) => {
                let granted = GrantedFields {
                    own,
                    grants: &server_decision.grants,
                };
                self.select_by(listener, host, target, &granted)
            }
        }?;
        let hold = || self.shard.config.hold_rule(&snapshot, rule);
        let held: &'a HeldRule<Rule> = self.holds.rule.get_or_init(hold);
        let rule: &'a Rule = &held.rule;
        self.record.rule = Some(rule);
        self.record.rule_id = Some(held.id);
        let counters = self.shard.counters.routes.of(held.id);
        self.record.active[1] = Some(GaugeGuard::new(&counters.active));
        Ok(Matched {
            rule,
            rule_id: held.id,
            target,
            prefix_len: selected.prefix_len,
        })
    }

    fn select_by<'l, H: HeaderLookup>(
        &self,
        listener: &'l Listener,
        host: &str,
        target: Target<'a>,
        headers: &H,
    ) -> Result<(Selected, &'l PlacedRule), Failure> {
        let view = RequestView {
            host: host.as_bytes(),
            path: target.path().as_bytes(),
            query: target.query().map(str::as_bytes),
            method: self.received.method(),
            headers,
        };
        let cache = &mut *self.proxy.regexes.borrow_mut();
        let selected = listener.router.select(&view, cache);
        let rule = selected.ok().flatten();
        let rule = rule.and_then(|selected| listener.rules.shared(selected.route as usize));
        if let Some(trace) = &self.record.trace {
            let considered = listener.router.explain(&view, cache, Tracer::ROUTES);
            let rule = rule.map(|placed| &*placed.rule);
            trace.route(&listener.rules, &considered, rule);
            if let Some(rule) = rule {
                trace.policies(rule);
            }
        }
        let selected = selected.map_err(|_| FailureKind::MatchTooCostly)?;
        Ok(selected.zip(rule).ok_or(FailureKind::NoRoute)?)
    }

    /// The backend of the request: its session's, or one destination by weight or hash.
    pub(super) fn draw_backend(
        &mut self,
        matched: &Matched<'a>,
    ) -> Result<Destination<'a>, Failure> {
        let rule = matched.rule;
        self.pinned = self.find_session(rule);
        let trace = self.record.trace.as_deref();
        if let Some(trace) = trace {
            trace.session(self.pinned.is_some());
        }
        let destination = match self.pinned {
            Some(pinned) => pinned.destination,
            None => self.draw_destination(matched)?,
        };
        if let Some(hashed) = destination.cluster.hashed.as_deref() {
            self.hash(hashed, matched);
        }
        self.record.cluster = Some(destination.cluster);
        self.backend = Some(destination.backend);
        match destination.backend.refused_by() {
            Some(policy) => Err(self.refused_by(policy)),
            None => Ok(destination),
        }
    }

    /// The failure of a request for which no backend was drawn: that the rule is invalid, if it is.
    #[cold]
    pub(super) fn without_backend(&self, rule: &Rule, failure: Failure) -> Failure {
        let Some(why) = rule.invalid() else {
            return failure;
        };
        if let Some(trace) = &self.record.trace {
            trace.invalid_rule(why);
        }
        FailureKind::InvalidRule.into()
    }

    /// The backend and endpoint of the request's session, if both are valid.
    fn find_session(&self, rule: &'a Rule) -> Option<PinnedSession<'a>> {
        if matches!(rule.sessions, Sessions::None) {
            return None;
        }
        let mut backends = rule.backends.iter();
        let snapshot = self.proxy.shard.config.load();
        let mut search = SessionSearch::new(&snapshot.session_keys, seconds());
        match &rule.sessions {
            Sessions::None => None,
            Sessions::OfRule(policy) => {
                let session = self.session_in_token(policy, &mut search)?;
                backends.find_map(|backend| self.pin(backend, session))
            }
            Sessions::OfBackends => backends.find_map(|backend| {
                let session = self.session_in_token(backend.session()?, &mut search)?;
                self.pin(backend, session)
            }),
        }
    }

    /// The session in the request's token.
    fn session_in_token(
        &self,
        policy: &SessionPersistence,
        search: &mut SessionSearch<'_>,
    ) -> Option<PersistentSession> {
        let (fields, bytes) = (&self.received.head.fields, self.received.bytes.as_slice());
        let name: &[u8] = match &policy.token {
            SessionToken::Cookie { .. } => b"cookie",
            SessionToken::Header(name) => name.as_str().as_bytes(),
        };
        let known = KnownHeader::of(name);
        let found = fields.iter().filter(|field| {
            field.known == known
                && (known != KnownHeader::Other || field.name.of(bytes).eq_ignore_ascii_case(name))
        });
        search.carried(found.map(|field| field.value.of(bytes)), policy)
    }

    /// The session's endpoint, if the backend has it and it serves.
    fn pin(
        &self,
        backend: &'a RuleBackend,
        session: PersistentSession,
    ) -> Option<PinnedSession<'a>> {
        let cluster = self.holds.cluster(backend.cluster.ok()?)?;
        let id = cluster.set.find(session.endpoint)?;
        let endpoint = cluster.endpoint(id)?;
        let states = &self.proxy.upstreams.endpoints;
        let serves = states.in_service(id, Instant::now()) && !cluster.is_probed_out(endpoint);
        serves.then_some(PinnedSession {
            destination: Destination { backend, cluster },
            endpoint,
            session,
        })
    }
}

/// The fields of a head, without those that the client is not trusted to set: a client must not choose
/// a rule by claiming to be a proxy.
#[derive(Debug, Clone, Copy)]
struct TrustedFields<'a> {
    received: HeadFields<'a>,
    header_trust: HeaderTrust,
}

impl HeaderLookup for TrustedFields<'_> {
    fn values<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let text = name.as_str().as_bytes();
        let is_hidden = self.header_trust.hides(KnownHeader::of(text), text);
        let values = (!is_hidden).then(|| self.received.values(name));
        values.into_iter().flatten()
    }
}

/// The fields of a head, with the edits of authorization servers.
#[derive(Debug, Clone, Copy)]
struct GrantedFields<'a> {
    own: TrustedFields<'a>,
    grants: &'a Mutation,
}

impl HeaderLookup for GrantedFields<'_> {
    fn values<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let text = name.as_str().as_bytes();
        let own = (!self.grants.drops(text)).then(|| self.own.values(name));
        own.into_iter().flatten().chain(self.grants.values(text))
    }
}

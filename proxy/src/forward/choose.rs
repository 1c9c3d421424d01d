//! Which endpoint a try goes to: the session's, or the one that balancing chooses.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use xds::model::{SessionPersistence, SessionToken};

use crate::config::{Cluster, Endpoint, Rule};
use crate::failure::{Failure, FailureKind};
use crate::http::known::Known;
use crate::request::{Drawn, Exchange};
use crate::upstream::health::{self, Upstreams};
use crate::upstream::session::{self, Session, Transport};

/// The session that a request belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Pinned<'a> {
    /// The backend that has its endpoint.
    pub(crate) drawn: Drawn<'a>,
    endpoint: &'a Endpoint,
    session: Session,
}

impl<'a> Exchange<'a> {
    /// The backend and endpoint of the request's session, if that lives and the endpoint too.
    pub(crate) fn find_session(&self, rule: &'a Rule) -> Option<Pinned<'a>> {
        let policy = rule.session.as_ref()?;
        let (fields, bytes) = (&self.received.head.fields, self.received.bytes.as_slice());
        let token = |name: &[u8]| {
            let known = Known::of(name);
            let found = fields.iter().filter(|field| field.known == known);
            found
                .filter(|field| {
                    known != Known::Other || field.name.of(bytes).eq_ignore_ascii_case(name)
                })
                .find_map(|field| {
                    session::carried(
                        field.value.of(bytes),
                        policy,
                        &self.shard.session_key,
                        seconds(),
                    )
                })
        };
        let session = match &policy.token {
            SessionToken::Cookie { .. } => token(b"cookie"),
            SessionToken::Header(name) => token(name.as_str().as_bytes()),
        }?;
        rule.backends.iter().find_map(|backend| {
            let cluster = self.snapshot.cluster(backend.cluster.ok()?);
            let id = cluster.set.find(session.endpoint)?;
            let endpoint = cluster.endpoint(id)?;
            let serves = self.shard.endpoints.in_service(id, Instant::now());
            serves.then_some(Pinned {
                drawn: Drawn { backend, cluster },
                endpoint,
                session,
            })
        })
    }

    /// Chooses an endpoint that was not tried yet, where there is one, and books the try.
    pub(super) fn choose_endpoint(
        &mut self,
        rule: &'a Rule,
        cluster: &'a Cluster,
        now: Instant,
    ) -> Result<(&'a Endpoint, health::Exchange), Failure> {
        let states: &Upstreams = &self.shard.endpoints;
        let tried = &mut self.work.tried;
        let pinned = self.pinned.filter(|_| tried.is_empty());
        let endpoint = if let Some(pinned) = pinned {
            pinned.endpoint
        } else {
            let id = self
                .shard
                .with_rng(|rng| states.choose(&cluster.set, tried, now, rng));
            let chosen = id.and_then(|id| cluster.endpoint(id));
            if let (Some(trace), None) = (&self.record.trace, chosen) {
                trace.endpoint(self.shard, cluster, None, tried);
            }
            chosen.ok_or(FailureKind::NoEndpoint)?
        };
        if let Some(trace) = &mut self.record.trace {
            trace.endpoint(self.shard, cluster, Some(endpoint), tried);
            trace.attempt();
        }
        tried.push(endpoint.id);
        self.record.endpoint = Some(endpoint);
        self.work.response_lines.clear();
        if let Some(policy) = &rule.session {
            self.hand_out_token(policy, endpoint, pinned);
        }
        Ok((endpoint, states.start(&cluster.set, endpoint.id)))
    }

    /// Writes the token of a new session, or of one that has to say that it was used.
    fn hand_out_token(
        &mut self,
        policy: &SessionPersistence,
        endpoint: &Endpoint,
        pinned: Option<Pinned<'_>>,
    ) {
        let now = seconds();
        let session = match pinned {
            Some(pinned) => pinned.session.renewed(policy, now),
            None => Some(Session::begin(endpoint.identity, now)),
        };
        let Some(session) = session else { return };
        let lines = &mut self.work.response_lines;
        lines.extend_from_slice(match &policy.token {
            SessionToken::Cookie { .. } => b"Set-Cookie",
            SessionToken::Header(name) => name.as_str().as_bytes(),
        });
        lines.extend_from_slice(b": ");
        let key = &self.shard.session_key;
        session::write_token(&session, policy, Transport::Plain, key, now, lines);
        lines.extend_from_slice(b"\r\n");
    }
}

/// Seconds since 1970.
fn seconds() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

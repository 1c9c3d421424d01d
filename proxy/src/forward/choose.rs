//! Selects the endpoint of an attempt: the picker's next one, the session's, or the one chosen by
//! load balancing.

use std::time::Instant;

use xds::model::{SessionPersistence, SessionToken};

use crate::config::{Endpoint, Rule};
use crate::exchange::choice::choose;
use crate::exchange::{Destination, Exchange, PinnedSession};
use crate::failure::Failure;
use crate::upstream::health::EndpointUse;
use crate::upstream::session::{self, PersistentSession, seconds};

impl<'a> Exchange<'a> {
    /// Selects an endpoint, preferably one not tried yet, and registers the attempt.
    pub(super) fn choose_endpoint(
        &mut self,
        rule: &'a Rule,
        destination: Destination<'a>,
        now: Instant,
    ) -> Result<(&'a Endpoint, EndpointUse), Failure> {
        let (upstreams, tried) = (&self.proxy.upstreams, &mut self.work.tried);
        let pinned = self.pinned.filter(|_| tried.is_empty());
        let picked = self.picked.as_mut();
        let picked = picked.and_then(|picked| picked.next_endpoint());
        let preferred = picked.or(pinned.map(|pinned| pinned.endpoint));
        let trace = self.record.trace.as_deref_mut();
        let (cluster, key) = (destination.cluster, self.key);
        let (endpoint, endpoint_use) =
            choose(upstreams, cluster, preferred, key, tried, trace, now)?;
        self.record.endpoint = Some(endpoint);
        self.work.response_lines.clear();
        if let Some(policy) = rule.session_of(destination.backend) {
            self.write_session_token(policy, endpoint, pinned);
        }
        Ok((endpoint, endpoint_use))
    }

    /// Writes the token of a session that begins at this endpoint, or whose last use has to be
    /// recorded.
    fn write_session_token(
        &mut self,
        policy: &SessionPersistence,
        endpoint: &Endpoint,
        pinned: Option<PinnedSession<'_>>,
    ) {
        let now = seconds();
        // A picker may have chosen another endpoint than the session's.
        let pinned = pinned.filter(|pinned| pinned.endpoint.id == endpoint.id);
        let session = match pinned {
            Some(pinned) => pinned.session.renewed(policy, now),
            None => Some(PersistentSession::begin(endpoint.identity, now)),
        };
        let Some(session) = session else { return };
        let snapshot = self.proxy.shard.config.load();
        let keys = &snapshot.session_keys;
        if keys.is_empty() {
            return;
        }
        let scheme = self.scheme;
        let lines = &mut self.work.response_lines;
        lines.extend_from_slice(match &policy.token {
            SessionToken::Cookie { .. } => b"Set-Cookie",
            SessionToken::Header(name) => name.as_str().as_bytes(),
        });
        lines.extend_from_slice(b": ");
        session::write_token(&session, policy, scheme, keys, now, lines);
        lines.extend_from_slice(b"\r\n");
    }
}

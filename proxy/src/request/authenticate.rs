//! Authentication of a request by its token (JWT), if the rule requires it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::config::Rule;
use crate::exchange::{Exchange, Matched};
use crate::failure::Failure;
use crate::limits::{JWKS_POLL, JWKS_POLL_MAX, JWKS_WAIT};
use crate::policy::cors::Preflight;
use crate::policy::jwt::{
    Authenticator, MissingKey, Principal, Refusal, Reply, TokenError, TokenSources,
};
use crate::policy::normalise::Target;
use crate::trace::PolicyEffect;

impl<'a> Exchange<'a> {
    /// Accepts or rejects the request by the rule's JWT policy. If the token's key is unknown, it
    /// may be a new one: waits for the key set to be fetched.
    pub(super) async fn authenticate(&mut self, matched: &Matched<'a>) -> Result<(), Failure> {
        let Some(jwt) = matched.rule.jwt.as_deref() else {
            return Ok(());
        };
        let policy = &*jwt.authenticator;
        if self.is_preflight(matched) {
            self.trace_preflight("jwt");
            return Ok(());
        }
        let sources = self.token_sources(matched.target);
        let result = match self.verify(policy, sources) {
            // Boxed: few requests ever wait here.
            Err(TokenError {
                missing: Some(key), ..
            }) => {
                let waiting = self.verify_with_new_keys(matched.rule, (policy, sources), key);
                Box::pin(waiting).await
            }
            result => result.map_err(|denied| denied.refusal),
        };
        let authenticated_by = result
            .as_ref()
            .map(Principal::authenticated_by)
            .map_err(|refusal| *refusal);
        self.shard.counters.tokens.count(authenticated_by);
        if let Some(trace) = &self.record.trace {
            trace.token(&jwt.policy, authenticated_by);
        }
        if let Err(refusal) = authenticated_by {
            // The client does not learn the reason: it is only logged.
            tracing::debug!(
                route = &*matched.rule.name,
                policy = &*jwt.policy,
                why = refusal.reason(),
                "authentication failed"
            );
        }
        self.principal = Some(result?);
        if policy.writes_headers() {
            self.work.request_body.drop_trailers();
            self.protect_claims_from_listener_servers();
        }
        Ok(())
    }

    pub(super) fn trace_preflight(&self, policy: &'static str) {
        if let Some(trace) = &self.record.trace {
            let why = "a preflight request has no token";
            trace.policy(policy, PolicyEffect::Skipped(why));
        }
    }

    fn verify(
        &self,
        policy: &'a Authenticator,
        sources: TokenSources<'_>,
    ) -> Result<Principal<'a>, TokenError> {
        let mut cache = self.proxy.tokens.borrow_mut();
        policy.authenticate(sources, unix_time(), &mut cache)
    }

    /// Checks the token again whenever keys were fetched, until its key is known or known to be
    /// missing.
    async fn verify_with_new_keys(
        &self,
        rule: &Rule,
        (policy, sources): (&'a Authenticator, TokenSources<'_>),
        mut missing: MissingKey,
    ) -> Result<Principal<'a>, Refusal> {
        let waits = &self.proxy.key_waits;
        let place = waits.enter(rule.namespace(), missing.source());
        let _place = place.ok_or(Refusal::NoKeys)?;
        let until = Instant::now() + JWKS_WAIT;
        let mut pause = JWKS_POLL;
        loop {
            match missing.reply(unix_time()) {
                Reply::Changed => {}
                Reply::Fetched => {
                    let mut cache = self.proxy.tokens.borrow_mut();
                    cache.record_unknown(&missing, unix_time());
                }
                Reply::Pending if Instant::now() < until => {
                    monoio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(JWKS_POLL_MAX);
                    continue;
                }
                Reply::Pending | Reply::Failed => return Err(Refusal::NoKeys),
            }
            match self.verify(policy, sources) {
                Err(TokenError {
                    missing: Some(key), ..
                }) => missing = key,
                result => return result.map_err(|denied| denied.refusal),
            }
        }
    }

    /// The parts of the request that may carry a token.
    pub(super) fn token_sources(&self, target: Target<'a>) -> TokenSources<'a> {
        TokenSources {
            fields: &self.received.head.fields,
            bytes: &self.received.bytes,
            query: target.query(),
        }
    }

    /// Whether the rule responds to the request as a CORS preflight: those never carry a token,
    /// and never reach a backend (Fetch standard, section 4.8).
    pub(super) fn is_preflight(&self, matched: &Matched<'a>) -> bool {
        let received = self.received;
        matched.rule.cors().is_some()
            && Preflight::of(received.method(), &received.head.fields, &received.bytes).is_some()
    }
}

/// Seconds since 1970; 0 if the clock is earlier.
fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

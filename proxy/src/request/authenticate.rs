//! Authentication of a request by its credentials, if the rule requires it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::config::{Rule, RuleAuthentication};
use crate::exchange::{Exchange, Matched};
use crate::failure::Failure;
use crate::limits::{JWKS_POLL, JWKS_POLL_MAX, JWKS_WAIT};
use crate::policy::api_keys::KeyHolder;
use crate::policy::authentication::{Authentication, Presented};
use crate::policy::cors::Preflight;
use crate::policy::jwt::{
    AuthenticatedBy, Authenticator, Bearer, MissingKey, Refusal, Reply, TokenError, TokenSources,
};
use crate::policy::normalise::Target;
use crate::trace::PolicyEffect;

impl<'a> Exchange<'a> {
    /// Accepts or rejects the request by the credentials of the rule's policy: each that it has must be valid.
    pub(super) async fn authenticate(&mut self, matched: &Matched<'a>) -> Result<(), Failure> {
        let Some(authentication) = matched.rule.authentication.as_deref() else {
            return Ok(());
        };
        let RuleAuthentication {
            credentials,
            policy,
        } = authentication;
        if self.is_preflight(matched) {
            for kind in credentials.kinds() {
                self.trace_preflight(kind);
            }
            return Ok(());
        }
        let with = self
            .check_credentials(credentials, (matched, policy))
            .await?;
        let principal = credentials.admit(with).inspect_err(|_| {
            if let Some(trace) = &self.record.trace {
                trace.no_credentials(policy, credentials.requires_all);
            }
        });
        self.principal = Some(principal?);
        if credentials.writes_headers() {
            self.work.request_body.drop_trailers();
            self.protect_claims_from_listener_servers();
        }
        Ok(())
    }

    /// The credentials that the request has, each of which is valid.
    async fn check_credentials(
        &self,
        credentials: &'a Authentication,
        by: (&Matched<'a>, &str),
    ) -> Result<Presented<'a>, Failure> {
        let mut with = Presented::default();
        if credentials.requires_all {
            // Without a valid token, nobody learns whether a key is one, and without both of them, whether a password is
            // right: neither by the answer nor by its time.
            with.token = self.authenticate_by_token(credentials, by).await?;
            if credentials.jwt.is_none() || with.has_token() {
                with.key = self.authenticate_by_key(credentials, by)?;
            }
            if !credentials.lacks_token_or_key(&with) {
                with.user = self.authenticate_by_password(credentials, by).await?;
            }
            return Ok(with);
        }
        // What costs least is first.
        with.key = self.authenticate_by_key(credentials, by)?;
        with.token = self.authenticate_by_token(credentials, by).await?;
        with.user = self.authenticate_by_password(credentials, by).await?;
        Ok(with)
    }

    /// The client whose key the request has, if it has any.
    fn authenticate_by_key(
        &self,
        credentials: &'a Authentication,
        (matched, policy): (&Matched<'a>, &str),
    ) -> Result<Option<KeyHolder<'a>>, Failure> {
        let Some(keys) = credentials.api_keys.as_deref() else {
            return Ok(None);
        };
        let result = keys.authenticate(self.token_sources(matched.target));
        let client = { result.as_ref() }
            .map(|holder| holder.map(KeyHolder::client))
            .map_err(|refusal| *refusal);
        self.shard.counters.api_keys.count(client);
        if let Some(trace) = &self.record.trace {
            trace.api_key(policy, client);
        }
        if let Err(refusal) = client {
            log_refusal(matched, policy, refusal.reason());
        }
        Ok(result?)
    }

    /// The bearer of the request's token; without a token, if that is optional or other credentials are accepted. If
    /// the token's key is unknown, it may be a new one: waits for the key set to be fetched.
    async fn authenticate_by_token(
        &self,
        credentials: &'a Authentication,
        (matched, policy): (&Matched<'a>, &str),
    ) -> Result<Option<Bearer<'a>>, Failure> {
        let Some(jwt) = credentials.jwt.as_deref() else {
            return Ok(None);
        };
        let sources = self.token_sources(matched.target);
        let result = match self.verify(jwt, sources) {
            // Boxed: few requests ever wait here.
            Err(TokenError {
                missing: Some(key), ..
            }) => {
                let waiting = self.verify_with_new_keys(matched.rule, (jwt, sources), key);
                Box::pin(waiting).await
            }
            result => result.map_err(|denied| denied.refusal),
        };
        let is_alone = credentials.kinds().count() == 1;
        let result = match result {
            Err(Refusal::Missing) if !is_alone => Ok(None),
            result => result.map(Some),
        };
        let authenticated_by = { result.as_ref() }
            .map(|bearer| {
                { bearer.as_ref() }.map_or(AuthenticatedBy::None, Bearer::authenticated_by)
            })
            .map_err(|refusal| *refusal);
        self.shard.counters.tokens.count(authenticated_by);
        if let Some(trace) = &self.record.trace {
            trace.token(policy, authenticated_by);
        }
        if let Err(refusal) = authenticated_by {
            log_refusal(matched, policy, refusal.reason());
        }
        Ok(result?)
    }

    pub(super) fn trace_preflight(&self, policy: &'static str) {
        if let Some(trace) = &self.record.trace {
            let why = "a preflight request has no credentials";
            trace.policy(policy, PolicyEffect::Skipped(why));
        }
    }

    fn verify(
        &self,
        policy: &'a Authenticator,
        sources: TokenSources<'_>,
    ) -> Result<Bearer<'a>, TokenError> {
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
    ) -> Result<Bearer<'a>, Refusal> {
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

/// The client does not learn the reason: it is only logged.
pub(super) fn log_refusal(matched: &Matched<'_>, policy: &str, why: &str) {
    let route = &*matched.rule.name;
    tracing::debug!(route, policy, why, "authentication failed");
}

/// Seconds since 1970; 0 if the clock is earlier.
fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

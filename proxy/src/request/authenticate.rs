//! Who sent the request, where the rule wants to know.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::exchange::{Exchange, Matched};
use crate::failure::Failure;
use crate::limits::{JWKS_LOOK, JWKS_LOOK_MAX, JWKS_WAIT};
use crate::policy::cors::Preflight;
use crate::policy::jwt::{
    Authenticator, Carrier, MissingKey, Principal, Refusal, Reply, TokenError,
};
use crate::policy::normalise::Target;
use crate::trace::PolicyEffect;

impl<'a> Exchange<'a> {
    /// Lets the request in or refuses it, as the rule's policy of tokens says. Waits for the key of its
    /// token where that may be new.
    pub(super) async fn authenticate(&mut self, matched: &Matched<'a>) -> Result<(), Failure> {
        let Some(policy) = matched.rule.jwt.as_deref() else {
            return Ok(());
        };
        if self.is_preflight(matched) {
            self.trace_preflight("jwt");
            return Ok(());
        }
        let carrier = self.carrier(matched.target);
        let result = match self.judge(policy, carrier) {
            // In a box: few requests ever wait here.
            Err(TokenError {
                missing: Some(key), ..
            }) => Box::pin(self.judge_with_new_keys(policy, carrier, key)).await,
            result => result.map_err(|denied| denied.refusal),
        };
        let proof = result
            .as_ref()
            .map(Principal::proof)
            .map_err(|refusal| *refusal);
        self.shard.counters.tokens.count(proof);
        if let Some(trace) = &self.record.trace {
            trace.token(proof);
        }
        if let Err(refusal) = proof {
            // The client is not told, so this is the place to look.
            tracing::debug!(
                route = &*matched.rule.name,
                why = refusal.reason(),
                "authentication failed"
            );
        }
        self.principal = Some(result?);
        if policy.writes_headers() {
            self.work.request_body.drop_trailers();
        }
        Ok(())
    }

    pub(super) fn trace_preflight(&self, policy: &'static str) {
        if let Some(trace) = &self.record.trace {
            let why = "a preflight request has no token";
            trace.policy(policy, PolicyEffect::Skipped(why));
        }
    }

    fn judge(
        &self,
        policy: &'a Authenticator,
        carrier: Carrier<'_>,
    ) -> Result<Principal<'a>, TokenError> {
        let mut cache = self.proxy.tokens.borrow_mut();
        policy.authenticate(carrier, unix_time(), &mut cache)
    }

    /// Judges the request whenever keys were fetched, until its own is there or is known to be none.
    async fn judge_with_new_keys(
        &self,
        policy: &'a Authenticator,
        carrier: Carrier<'_>,
        mut missing: MissingKey,
    ) -> Result<Principal<'a>, Refusal> {
        let _place = self.proxy.key_waits.enter().ok_or(Refusal::NoKeys)?;
        let until = Instant::now() + JWKS_WAIT;
        let mut look = JWKS_LOOK;
        loop {
            match missing.reply(unix_time()) {
                Reply::Changed => {}
                Reply::Fetched => {
                    let mut cache = self.proxy.tokens.borrow_mut();
                    cache.note_unknown(&missing, unix_time());
                }
                Reply::Pending if Instant::now() < until => {
                    monoio::time::sleep(look).await;
                    look = look.saturating_mul(2).min(JWKS_LOOK_MAX);
                    continue;
                }
                Reply::Pending | Reply::Failed => return Err(Refusal::NoKeys),
            }
            match self.judge(policy, carrier) {
                Err(TokenError {
                    missing: Some(key), ..
                }) => missing = key,
                result => return result.map_err(|denied| denied.refusal),
            }
        }
    }

    /// What of the request may carry a token.
    pub(super) fn carrier(&self, target: Target<'a>) -> Carrier<'a> {
        Carrier {
            fields: &self.received.head.fields,
            bytes: &self.received.bytes,
            query: target.query(),
        }
    }

    /// Whether the rule itself answers a browser that asks whether it may ask: such a request never
    /// has a token, and never comes to a backend (Fetch standard, section 4.8).
    pub(super) fn is_preflight(&self, matched: &Matched<'a>) -> bool {
        let received = self.received;
        matched.rule.cors().is_some()
            && Preflight::of(received.method(), &received.head.fields, &received.bytes).is_some()
    }
}

/// Seconds of Unix time; a clock before 1970 reads as its beginning.
fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

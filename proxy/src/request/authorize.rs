//! Authorization, if the rule has a policy.

use crate::exchange::{Exchange, Matched};
use crate::failure::{Failure, FailureKind};
use crate::policy::authorization::Subject;
use crate::policy::jwt::Principal;

impl<'a> Exchange<'a> {
    /// Refuses the request if a policy of the rule restricts access in a way that cannot be enforced. A
    /// preflight reaches no backend, and lets a browser read the refusal.
    pub(super) fn refuse_by_invalid_policy(&self, matched: &Matched<'a>) -> Result<(), Failure> {
        let policy = matched.rule.refused_by();
        match policy.filter(|_| !self.is_preflight(matched)) {
            Some(policy) => Err(self.refused_by(policy)),
            None => Ok(()),
        }
    }

    /// The refusal by an invalid policy.
    pub(super) fn refused_by(&self, policy: &str) -> Failure {
        if let Some(trace) = &self.record.trace {
            trace.invalid_policy(policy);
        }
        tracing::debug!(policy, "refused a request, since the policy is invalid");
        FailureKind::PolicyInvalid.into()
    }

    /// Allows or rejects the request by the rule's authorization policy.
    pub(super) fn authorize(&mut self, matched: &Matched<'a>, host: &str) -> Result<(), Failure> {
        let Some(policy) = matched.rule.authorization.as_deref() else {
            return Ok(());
        };
        if self.is_preflight(matched) {
            self.trace_preflight("authorization");
            return Ok(());
        }
        let own = if policy.reads_headers() {
            self.own_lines(matched.target)
        } else {
            Vec::new()
        };
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let subject = Subject {
            method: received.method(),
            host,
            path: matched.target.path(),
            fields: self.effective_fields(&own),
            client: self.bind.trust.client(&self.client.hop, fields, bytes),
            claims: self.principal.as_ref().and_then(Principal::claims),
        };
        let attributes = policy.attributes(subject);
        let verdict = policy.evaluate(&attributes);
        self.shard.counters.authorizations.count(verdict.result);
        if let Some(trace) = &self.record.trace {
            trace.authorization(&verdict);
        }
        if let Err(forbidden) = verdict.result {
            tracing::debug!(
                route = &*matched.rule.name,
                rule = verdict.rule,
                errors = ?verdict.errors,
                why = forbidden.reason(),
                "rejected"
            );
            return Err(forbidden.into());
        }
        Ok(())
    }
}

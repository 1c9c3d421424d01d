//! Authorization, if the rule has a policy.

use crate::exchange::{Exchange, Matched};
use crate::failure::Failure;
use crate::policy::authorization::{Attributes, Subject};
use crate::policy::jwt::Principal;

impl<'a> Exchange<'a> {
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
        let attributes = Attributes::of(subject, policy);
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

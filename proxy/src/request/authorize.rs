//! Authorization, if the rule has a policy.

use crate::config::RuleAuthorization;
use crate::exchange::{Exchange, Matched};
use crate::failure::{Failure, FailureKind};

impl<'a> Exchange<'a> {
    /// The refusal by an invalid policy, which restricts access in a way that cannot be enforced.
    pub(super) fn refused_by(&self, policy: &str) -> Failure {
        if let Some(trace) = &self.record.trace {
            trace.invalid_policy(policy);
        }
        tracing::debug!(policy, "refused a request, since the policy is invalid");
        FailureKind::PolicyInvalid.into()
    }

    /// Allows or rejects the request by the rule's authorization policies, of which each has to allow it.
    pub(super) fn authorize(&mut self, matched: &Matched<'a>, host: &str) -> Result<(), Failure> {
        let policies = &*matched.rule.authorization;
        if policies.is_empty() {
            return Ok(());
        }
        if self.is_preflight(matched) {
            self.trace_preflight("authorization");
            return Ok(());
        }
        policies
            .iter()
            .try_for_each(|policy| self.authorize_by(matched, host, policy))
    }

    fn authorize_by(
        &mut self,
        matched: &Matched<'a>,
        host: &str,
        rules: &RuleAuthorization,
    ) -> Result<(), Failure> {
        let policy = &*rules.policy;
        let is_read = |view| policy.reads_headers() && view == rules.view;
        let lines = self.lines_seen(matched.target, is_read);
        let subject = self.subject((host, matched.target.path()), rules.view, &lines);
        let attributes = policy.attributes(subject);
        let verdict = policy.evaluate(&attributes);
        self.shard.counters.authorizations.count(verdict.result);
        if let Some(trace) = &self.record.trace {
            trace.authorization(policy.name(), &verdict);
        }
        if let Err(forbidden) = verdict.result {
            tracing::debug!(
                route = &*matched.rule.name,
                policy = policy.name(),
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

//! What is told of policies and filters: which hold, and what they did.

use admin_types::trace::{Message, PolicyOutcome, Severity};

use super::Tracer;
use crate::config::{Rule, RuleBackend};
use crate::policy::jwt::{Proof, Refusal};

/// What a filter came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    /// It did something: what.
    Applied(&'static str),
    /// It did nothing: why not.
    Skipped(&'static str),
}

impl Tracer {
    /// What holds for requests of a rule.
    #[cold]
    pub(crate) fn policies(&self, rule: &Rule) {
        let answers = rule.answers.as_deref();
        let holds = [
            ("jwt", rule.jwt.is_some()),
            ("cors", answers.is_some_and(|it| it.cors.is_some())),
            ("redirect", answers.is_some_and(|it| it.redirect.is_some())),
            ("requestTimeout", rule.request_timeout.is_some()),
            ("backendRequestTimeout", rule.backend_timeout.is_some()),
            ("retry", rule.retry.is_some()),
            ("sessionPersistence", rule.session.is_some()),
            ("accessLog", !rule.access_log.off),
        ];
        let policies = holds.into_iter().filter(|(_, holds)| *holds);
        let policies = policies.map(|(name, _)| name.to_owned()).collect();
        self.tell(Severity::Info, Message::PolicySelection { policies });
    }

    /// Whether the policy of tokens lets the request in. Of the token itself nothing is told.
    #[cold]
    pub(crate) fn token(&self, result: Result<Proof, Refusal>) {
        let (severity, allowed, detail) = match result {
            Ok(Proof::None) => (
                Severity::Success,
                true,
                "without a token, which is optional",
            ),
            Ok(Proof::Cached) => (
                Severity::Success,
                true,
                "by a token that was verified before",
            ),
            Ok(Proof::Verified) => (Severity::Success, true, "by a token that was verified"),
            Err(refusal) => (Severity::Error, false, refusal.reason()),
        };
        let message = Message::AuthorizationResult {
            by: "jwt".to_owned(),
            allowed,
            detail: detail.to_owned(),
        };
        self.tell(severity, message);
    }

    /// What a filter did, or why it did nothing.
    #[cold]
    pub(crate) fn policy(&self, kind: &'static str, did: Did) {
        let (outcome, detail) = match did {
            Did::Applied(what) => (PolicyOutcome::Applied, what),
            Did::Skipped(why) => (PolicyOutcome::Skipped, why),
        };
        let message = Message::Policy {
            kind: kind.to_owned(),
            outcome,
            detail: detail.to_owned(),
        };
        self.tell(Severity::Info, message);
    }

    /// What the filters of the drawn backend do to the request, and will do to the response.
    #[cold]
    pub(crate) fn backend_filters(&self, backend: &RuleBackend) {
        let Some(policy) = backend.policy.as_deref() else {
            return;
        };
        let filters = [
            ("rewrite", policy.rewrite.is_some()),
            ("requestHeaders", !policy.request_headers.is_empty()),
            ("responseHeaders", !policy.response_headers.is_empty()),
            ("mirror", !policy.mirrors.is_empty()),
        ];
        for (kind, _) in filters.into_iter().filter(|(_, is_there)| *is_there) {
            self.policy(kind, Did::Applied(""));
        }
    }
}

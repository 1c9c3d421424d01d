//! Authorization policies.

use super::value::list;
use crate::model::{AuthorizationPolicy, AuthorizationRule};
use crate::proto;

impl From<&AuthorizationPolicy> for proto::AuthorizationPolicy {
    fn from(policy: &AuthorizationPolicy) -> Self {
        Self {
            deny: list(&policy.deny),
            allow: list(&policy.allow),
        }
    }
}

impl From<&AuthorizationRule> for proto::AuthorizationRule {
    fn from(rule: &AuthorizationRule) -> Self {
        Self {
            name: rule.name.clone(),
            when: rule.when.clone(),
        }
    }
}

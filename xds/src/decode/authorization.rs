//! Authorization policies.

use super::field_path::FieldPath;
use crate::model::{AuthorizationPolicy, AuthorizationRule};
use crate::proto;

pub(super) fn authorization(
    at: &FieldPath<'_>,
    message: proto::AuthorizationPolicy,
) -> Option<AuthorizationPolicy> {
    let deny = at.list("deny", message.deny, rule);
    let allow = at.list("allow", message.allow, rule);
    Some(AuthorizationPolicy {
        deny: deny?,
        allow: allow?,
    })
}

fn rule(at: &FieldPath<'_>, message: proto::AuthorizationRule) -> Option<AuthorizationRule> {
    Some(AuthorizationRule {
        name: message.name,
        when: at.text("when", message.when)?,
    })
}

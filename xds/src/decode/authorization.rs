//! Authorization policies.

use super::field_path::FieldPath;
use crate::model::{AuthorizationPolicy, AuthorizationRule};
use crate::proto;

pub(super) fn authorization(
    place: &FieldPath<'_>,
    message: proto::AuthorizationPolicy,
) -> Option<AuthorizationPolicy> {
    let deny = place.list("deny", message.deny, rule);
    let allow = place.list("allow", message.allow, rule);
    Some(AuthorizationPolicy {
        deny: deny?,
        allow: allow?,
    })
}

fn rule(place: &FieldPath<'_>, message: proto::AuthorizationRule) -> Option<AuthorizationRule> {
    Some(AuthorizationRule {
        name: message.name,
        when: place.text("when", message.when)?,
    })
}

//! Authorization of requests by their attributes and their tokens' claims.

use serde::Serialize;

/// The authorization rules of a target. A request is rejected if a rule of `deny` is true, or if
/// there are rules of `allow` and none of them is true. A rule that cannot be evaluated counts
/// against the request: as true in `deny`, as false in `allow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuthorizationPolicy {
    /// A request that matches any of them is rejected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<AuthorizationRule>,
    /// Unless empty, a request has to match one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<AuthorizationRule>,
}

impl AuthorizationPolicy {
    /// A policy that rejects every request.
    #[must_use]
    pub fn deny_all() -> Self {
        Self {
            deny: vec![AuthorizationRule {
                name: String::new(),
                when: "true".to_owned(),
            }],
            allow: Vec::new(),
        }
    }
}

/// A condition on requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuthorizationRule {
    /// Its name in the policy; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A CEL expression that is true for matching requests.
    pub when: String,
}

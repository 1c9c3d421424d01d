//! Authorization rules in a dump.

use serde::{Deserialize, Serialize};

/// Authorization rules of a policy, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authorization {
    /// A request that matches any of them is rejected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<AuthorizationRule>,
    /// Unless empty, a request has to match one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<AuthorizationRule>,
}

/// A condition on requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationRule {
    /// Its name, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// CEL expression that is true for matching requests.
    pub when: String,
}

//! `TrafficPolicy.spec.authorization`: which requests are let through.

use serde::{Deserialize, Serialize};

/// Rules on requests and the claims of their tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AuthorizationSpec {
    /// Any of them refuses.
    #[serde(default)]
    pub deny: Vec<AuthorizationRuleSpec>,
    /// If there are any, one of them has to match.
    #[serde(default)]
    pub allow: Vec<AuthorizationRuleSpec>,
}

/// A condition on requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AuthorizationRuleSpec {
    /// Its name, for traces and logs.
    #[serde(default)]
    pub name: Option<String>,
    /// An expression in CEL.
    pub when: String,
}

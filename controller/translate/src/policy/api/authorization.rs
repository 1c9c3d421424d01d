//! `TrafficPolicy.spec.authorization`: which requests are allowed.

use serde::{Deserialize, Serialize};

/// Rules on requests and the claims of their tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AuthorizationSpec {
    /// A request that matches any of them is rejected.
    #[serde(default)]
    pub deny: Vec<AuthorizationRuleSpec>,
    /// Unless empty, a request has to match one of them.
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

//! `TrafficPolicy.spec.basicAuth`: authentication by passwords of users.

use serde::{Deserialize, Serialize};

use super::JwtModeSpec;
use crate::gateway::api::SecretObjectReference;

/// Passwords, one of which a request must or may carry.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuthSpec {
    /// Secrets with files of `htpasswd`.
    #[serde(default)]
    pub secret_refs: Vec<SecretObjectReference>,
    /// How requests without a password are handled.
    #[serde(default)]
    pub mode: JwtModeSpec,
    /// Named in the challenge of a 401.
    #[serde(default)]
    pub realm: Option<String>,
    /// The header with the name of the user, for backends.
    #[serde(default)]
    pub user_header: Option<String>,
}

impl BasicAuthSpec {
    /// The entries of Secrets that have users: of ingress-nginx, and of Envoy Gateway.
    pub const ENTRIES: [&str; 2] = ["auth", ".htpasswd"];
}

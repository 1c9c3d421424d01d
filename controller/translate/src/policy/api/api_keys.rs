//! `TrafficPolicy.spec.apiKeys`: authentication by keys of clients.

use serde::{Deserialize, Serialize};

use super::JwtFromSpec;
use crate::gateway::api::SecretObjectReference;

/// API keys, one of which a request must carry.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeysSpec {
    /// Secrets, each entry of which is a key: its name is the client's.
    #[serde(default)]
    pub secret_refs: Vec<SecretObjectReference>,
    /// Where keys are read from; `Authorization: Bearer` and `x-api-key` by default, or the latter alone beside
    /// `jwt`.
    #[serde(default)]
    pub from: Option<JwtFromSpec>,
    /// The header with the name of the client, for backends.
    #[serde(default)]
    pub client_header: Option<String>,
    /// Whether the key is forwarded to the backend.
    #[serde(default)]
    pub forward: bool,
    /// Whether entries are SHA-256 of keys in hexadecimal digits, and not the keys.
    #[serde(default)]
    pub hashed: bool,
}

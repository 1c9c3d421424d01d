//! `TrafficPolicy.spec.jwt`: token authentication.

use serde::{Deserialize, Serialize};

use super::BackendObjectReference;

/// JSON Web Tokens that requests must or may carry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct JwtSpec {
    /// How requests without a token are handled.
    #[serde(default)]
    pub mode: JwtModeSpec,
    /// Named in the challenge of a 401.
    #[serde(default)]
    pub realm: Option<String>,
    /// Issuers whose tokens are accepted.
    #[serde(default)]
    pub providers: Vec<JwtProviderSpec>,
}

/// How requests without a token are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum JwtModeSpec {
    #[default]
    Strict,
    Optional,
}

/// One issuer of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProviderSpec {
    /// Its name in the policy.
    pub name: String,
    /// The `iss` of its tokens.
    pub issuer: String,
    /// A token is for one of them; none means that `aud` is not looked at.
    #[serde(default)]
    pub audiences: Vec<String>,
    pub jwks: JwksSpec,
    /// Where a token is looked for; `Authorization: Bearer` where nothing is given.
    #[serde(default)]
    pub from: JwtFromSpec,
    /// Whether the backend gets the token too.
    #[serde(default)]
    pub forward: bool,
    /// Claims that the backend gets as headers.
    #[serde(default)]
    pub claims_to_headers: Vec<ClaimHeaderSpec>,
}

/// A JSON Web Key Set: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct JwksSpec {
    #[serde(default)]
    pub inline: Option<String>,
    #[serde(default)]
    pub remote: Option<RemoteJwksSpec>,
}

/// Where a key set is fetched from: a path of a backend, or a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteJwksSpec {
    #[serde(default)]
    pub backend_ref: Option<BackendObjectReference>,
    /// The path at the backend.
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub url: Option<String>,
    /// Fetched again after this.
    #[serde(default)]
    pub cache_duration: Option<String>,
}

/// Where a token is looked for, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct JwtFromSpec {
    #[serde(default)]
    pub header: Option<JwtHeaderSpec>,
    #[serde(default)]
    pub query: Option<String>,
    #[serde(default)]
    pub cookie: Option<String>,
}

/// A header with a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct JwtHeaderSpec {
    pub name: String,
    /// Prefix of the token, such as `Bearer `.
    #[serde(default)]
    pub prefix: Option<String>,
}

/// A claim that the backend gets as a header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClaimHeaderSpec {
    /// The claim; dots lead into objects.
    pub claim: String,
    pub header: String,
}

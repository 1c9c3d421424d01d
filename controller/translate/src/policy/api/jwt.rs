//! `TrafficPolicy.spec.jwt`: token authentication.

use serde::{Deserialize, Serialize};

use crate::backend::api::BackendObjectReference;

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
    /// Accepted `aud` claims, one of which has to match; empty accepts any.
    #[serde(default)]
    pub audiences: Vec<String>,
    pub jwks: JwksSpec,
    /// Where tokens are read from; `Authorization: Bearer` by default.
    #[serde(default)]
    pub from: JwtFromSpec,
    /// Whether the token is forwarded to the backend.
    #[serde(default)]
    pub forward: bool,
    /// Claims that are forwarded to the backend as headers.
    #[serde(default)]
    pub claims_to_headers: Vec<ClaimHeaderSpec>,
    /// Whether tokens without `exp` are rejected; true by default.
    #[serde(default)]
    pub require_expiry: Option<bool>,
    /// How far the issuer's clock may differ.
    #[serde(default)]
    pub clock_skew: Option<String>,
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
    /// Refresh interval.
    #[serde(default)]
    pub cache_duration: Option<String>,
}

/// Where a token is read from, in this order.
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

/// A claim that is forwarded to the backend as a header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClaimHeaderSpec {
    /// Path of the claim, separated by dots.
    pub claim: String,
    pub header: String,
}

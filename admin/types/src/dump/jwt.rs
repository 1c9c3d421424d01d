//! JWT authentication; keys are shown by id only, since some of them are secrets.

use serde::{Deserialize, Serialize};

use super::Target;

/// JSON Web Tokens that requests must or may carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwt {
    /// Whether requests without a token are rejected (`Strict`) or allowed (`Optional`).
    pub mode: String,
    /// Realm of the challenge in a 401.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// Issuers whose tokens are accepted.
    pub providers: Vec<JwtProvider>,
}

/// One issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProvider {
    /// Name in the policy.
    pub name: String,
    /// The `iss` claim of its tokens.
    pub issuer: String,
    /// Accepted `aud` claims; empty accepts any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Keys that sign its tokens.
    pub keys: JwtKeys,
    /// Where tokens are read from: `header:name`, `query:name` or `cookie:name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Prefixes of tokens in headers, of those that have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub header_prefixes: Vec<HeaderPrefix>,
    /// Whether the token is forwarded to the backend.
    pub forward: bool,
    /// Claims forwarded as headers: claim and header.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims_to_headers: Vec<(String, String)>,
    /// How far the issuer's clock may differ, such as `30s`; None for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<String>,
    /// Whether tokens that never expire are accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_expiry: bool,
}

/// The prefix of tokens in a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderPrefix {
    /// Name of the header.
    pub name: String,
    /// Text before the token, such as `Bearer `.
    pub prefix: String,
}

/// Keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum JwtKeys {
    /// Part of the policy.
    Inline {
        /// The `kid` of each key.
        key_ids: Vec<String>,
    },
    /// Fetched from a backend.
    Backend {
        /// The backend that serves the key set.
        target: Target,
        /// Path of the key set.
        path: String,
        /// Interval between fetches, such as `5m`; None for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
    /// Fetched from a URL.
    Url {
        /// The URL; credentials in it are masked.
        url: String,
        /// Interval between fetches, such as `5m`; None for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
}

//! Rate limits in a dump.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Rate limits of a policy, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimit {
    /// A request has to pass all of them.
    pub rules: Vec<RateLimitRule>,
    /// Status of refusals.
    pub status: u16,
    /// Which header fields tell clients about the limits: `Disabled`, `Draft` or `Legacy`.
    pub headers: String,
}

/// A rule of rate limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitRule {
    /// Its name.
    pub name: String,
    /// CEL expression that is true for the requests that it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What it counts separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<RateLimitKey>,
    /// Requests of a period; 0 refuses all.
    pub requests: u32,
    /// The period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Requests that may come at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Whether it only counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Keys that it keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_keys: Option<u32>,
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RateLimitKey {
    /// The first bits of the client's address.
    ClientAddress {
        /// Bits of an IPv4 address.
        ipv4_prefix: u8,
        /// Bits of an IPv6 address.
        ipv6_prefix: u8,
    },
    /// A header.
    Header(String),
    /// A claim.
    Claim(String),
    /// A cookie.
    Cookie(String),
    /// The host; there are no fields.
    Host(BTreeMap<String, String>),
    /// The path; there are no fields.
    Path(BTreeMap<String, String>),
}

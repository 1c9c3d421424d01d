//! `TrafficPolicy.spec.rateLimit`: how many requests pass.

use serde::{Deserialize, Serialize};

/// Limits of requests per client, or per other keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RateLimitSpec {
    /// A request has to pass all of them.
    #[serde(default)]
    pub rules: Vec<RateLimitRuleSpec>,
    /// Status of refusals, 429 or 503.
    #[serde(default = "too_many_requests")]
    pub status: u16,
    /// Which header fields tell clients about the limits.
    #[serde(default)]
    pub headers: RateLimitHeadersSpec,
}

fn too_many_requests() -> u16 {
    429
}

/// Which header fields tell clients about the limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum RateLimitHeadersSpec {
    /// None. The value is not called `Off`: kubectl reads that as `false`.
    #[default]
    #[serde(rename = "Disabled")]
    Off,
    /// Those of the IETF's draft.
    Draft,
    /// `X-RateLimit-*`.
    Legacy,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitRuleSpec {
    /// Its name, unique in the policy.
    pub name: String,
    /// An expression in CEL: which requests count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What is counted separately.
    #[serde(default)]
    pub key: Vec<RateLimitKeySpec>,
    /// Requests of a period; 0 refuses all.
    pub requests: u32,
    /// The period.
    #[serde(default)]
    pub per: RatePeriodSpec,
    /// Requests that may come at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Whether it only counts.
    #[serde(default)]
    pub dry_run: bool,
    /// Keys that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_keys: Option<u32>,
}

/// The period of a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum RatePeriodSpec {
    #[default]
    Second,
    Minute,
    Hour,
    Day,
}

/// A part of a key: one of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitKeySpec {
    /// The first bits of the client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_address: Option<ClientAddressKeySpec>,
    /// A header, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A claim of the token, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// A cookie, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<WholeKeySpec>,
    /// The normalised path, without query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WholeKeySpec>,
}

/// The first bits of addresses that count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientAddressKeySpec {
    /// Bits of an IPv4 address.
    #[serde(default = "thirty_two")]
    pub ipv4_prefix: u8,
    /// Bits of an IPv6 address.
    #[serde(default = "sixty_four")]
    pub ipv6_prefix: u8,
}

fn thirty_two() -> u8 {
    32
}

fn sixty_four() -> u8 {
    64
}

/// All of something: there are no fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct WholeKeySpec {}

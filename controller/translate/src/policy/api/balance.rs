//! `spec.balance` of a policy: how requests are spread over endpoints.

use serde::{Deserialize, Serialize};

use super::ClientAddressKeySpec;

/// How requests are spread over the endpoints of a Service or Backend.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BalanceSpec {
    /// Which requests go to the same endpoint.
    #[serde(default)]
    pub hash: Option<HashSpec>,
    /// How endpoints that have just become ready get their share.
    #[serde(default)]
    pub slow_start: Option<SlowStartSpec>,
    /// Which endpoints are preferred by where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<LocalitySpec>,
}

/// Which endpoints are preferred by where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct LocalitySpec {
    /// What decides.
    #[serde(default)]
    pub mode: LocalityMode,
    /// Whether the others get nothing, whatever happens.
    #[serde(default)]
    pub strict: bool,
}

/// What decides which endpoints are preferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum LocalityMode {
    /// Nothing.
    Off,
    /// The hints of EndpointSlices.
    #[default]
    Hints,
    /// The zone of the proxy.
    PreferZone,
    /// The node of the proxy, then its zone.
    PreferNode,
}

/// How endpoints that have just become ready get their share.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct SlowStartSpec {
    /// Until they have all of it.
    pub window: String,
    /// The least share, in percent.
    #[serde(default = "ten")]
    pub minimum: u32,
    /// The root of the share.
    #[serde(default = "one")]
    pub aggression: f64,
}

fn ten() -> u32 {
    10
}

fn one() -> f64 {
    1.0
}

/// Which requests go to the same endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashSpec {
    /// What is hashed: the first of them that a request has.
    #[serde(default)]
    pub by: Vec<HashKeySpec>,
    /// Slots of the table, a prime number.
    #[serde(default = "slots")]
    pub table: u32,
    /// Requests in flight at one endpoint, in percent of the average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_load: Option<u32>,
}

fn slots() -> u32 {
    65_537
}

/// Something of a request: one of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashKeySpec {
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
    /// A parameter of the query, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

//! Backends, and the endpoints of backends and services.

use serde::{Deserialize, Serialize};

use super::BackendTls;

/// A `Backend` or InferencePool resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// `Backend/namespace/name`; `InferencePool` or `XBackend` in its place.
    pub key: String,
    /// Application protocol, such as `HTTP`.
    pub protocol: String,
    /// TLS to the backend; None for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// Version of the PROXY protocol header sent to it; None for no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<String>,
    /// Hosts as configured; `endpoints` are their addresses.
    pub hosts: Hosts,
    /// Resolved addresses with their state.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
}

/// Configured addresses of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Hosts {
    /// A list of hosts.
    Static {
        /// Addresses or names with ports.
        hosts: Vec<Host>,
    },
    /// All addresses of a DNS name.
    Dns {
        /// DNS name to resolve.
        name: String,
        /// Port on every address.
        port: u16,
        /// Longest interval between lookups; None for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refresh: Option<String>,
    },
    /// A unix socket on the proxy's machine.
    Unix {
        /// Path of the socket.
        path: String,
    },
    /// The pods of an inference pool, which are its endpoints.
    Pool {
        /// The picker that selects among them; None for load balancing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        picker: Option<Picker>,
    },
}

/// An endpoint picker of an inference pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Picker {
    /// Its addresses that are ready.
    pub addresses: Vec<String>,
    /// TLS to it; None for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// `FailOpen` or `FailClose`: what happens to requests that it does not answer.
    pub failure_mode: String,
}

/// A host of a static backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// IP address or DNS name.
    pub host: String,
    /// TCP port, from 1.
    pub port: u16,
    /// Weight relative to the other hosts.
    pub weight: u32,
    /// Zone that it is in, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// An address of a backend or service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Its address: `address:port`, or `unix:/path`.
    pub name: String,
    /// Service port that it serves; None for a backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Weight relative to the other endpoints.
    pub weight: u32,
    /// Readiness as configured, such as by an EndpointSlice.
    pub status: EndpointHealth,
    /// Zone that it is in, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it comes before others because of where it is; None where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred: Option<bool>,
    /// Why, and the part of the requests that all at the same distance get if nothing is ejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<String>,
    /// Its part of its share of the requests in percent, while it warms up; None where it has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming_percent: Option<u8>,
    /// What its health check says; None where it is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<EndpointCheck>,
    /// State observed from requests.
    #[serde(flatten)]
    pub live: EndpointStats,
}

/// What the health check of an endpoint says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCheck {
    /// Whether it is in service by its probes.
    pub state: EndpointCheckState,
    /// Why its last probe failed; None where it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether an endpoint is in service by its probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointCheckState {
    /// Without a verdict, and in service.
    Untried,
    /// Without a verdict, and out of service until its first success.
    Waiting,
    /// In service.
    Healthy,
    /// Out of service.
    Unhealthy,
    /// In service although its probes fail: so many do that they are ignored.
    Ignored,
}

impl EndpointCheckState {
    /// Whether the endpoint gets no requests.
    #[must_use]
    pub fn is_out(self) -> bool {
        matches!(self, Self::Waiting | Self::Unhealthy)
    }
}

/// Configured readiness of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointHealth {
    /// Receives new requests.
    Ready,
    /// Receives requests of existing sessions, and others only where no endpoint is ready.
    Draining,
    /// Receives no requests at all.
    NotReady,
}

/// Observed state of an endpoint, merged over the shards: averages are weighted by recent requests,
/// counts are summed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointStats {
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Moving average of the time to the response head; 0 before the first response.
    pub latency_ms: f64,
    /// Requests since the start.
    pub requests: u64,
    /// Number of requests in flight.
    pub in_flight: u64,
    /// Failures since the last success; the largest of all shards.
    pub consecutive_failures: u32,
    /// Remaining time of its ejection; None where it is not ejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejected_for: Option<String>,
    /// Number of shards that have ejected it.
    #[serde(skip_serializing_if = "is_zero")]
    pub ejected_shards: u16,
    /// Number of shards in this state: all but stuck ones.
    pub shards: u16,
}

impl Default for EndpointStats {
    /// An endpoint without requests yet.
    fn default() -> Self {
        Self {
            health: 1.0,
            latency_ms: 0.0,
            requests: 0,
            in_flight: 0,
            consecutive_failures: 0,
            ejected_for: None,
            ejected_shards: 0,
            shards: 0,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u16) -> bool {
    *value == 0
}

//! Services and the addresses that serve them.

use serde::{Deserialize, Serialize};

use super::{BackendTls, Endpoint, EndpointHealth};

/// A Kubernetes Service with its endpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Its key: `Service/namespace/name`.
    pub key: String,
    /// Cluster IP addresses; empty for a headless service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<String>,
    /// `ClientIP` if clients stay at an endpoint; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<String>,
    /// Ports with their protocol.
    pub ports: Vec<ServicePort>,
    /// Endpoints with their state.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePort {
    /// Port of the service, as `spec.ports` declares it.
    pub port: u16,
    /// Name of the port; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Transport protocol: `tcp` or `udp`.
    pub transport: String,
    /// Application protocol, such as `HTTP`.
    pub protocol: String,
    /// TLS to the endpoints; None for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
}

/// An address that serves services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its key: `EndpointSlice/namespace/service/address`.
    pub key: String,
    /// IP address of the pod.
    pub address: String,
    /// Name of the node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Zone of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The proxies that should send it requests; None where its EndpointSlice has no hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<TopologyHints>,
    /// Readiness from the EndpointSlice.
    pub health: EndpointHealth,
    /// Service ports that it serves.
    pub serves: Vec<Serves>,
}

/// The proxies that should send requests to a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyHints {
    /// Those in these zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Those on these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// A service port that a workload serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Serves {
    /// Key of the service.
    pub service: String,
    /// Port of the service.
    pub port: u16,
    /// Port of the workload.
    pub target_port: u16,
    /// Transport protocol: `tcp` or `udp`.
    pub transport: String,
}

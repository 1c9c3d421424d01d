//! Services and the addresses that serve them.

use serde::{Deserialize, Serialize};
use xds::model;

use super::backend::protocol;
use super::{BackendTls, Endpoint, EndpointHealth};

/// A Kubernetes Service with its endpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its key: `Service/namespace/name`.
    pub key: String,
    /// Cluster IP addresses; empty for a headless service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<String>,
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

impl From<&model::Service> for Service {
    fn from(service: &model::Service) -> Self {
        Self {
            key: service.key.to_string(),
            vips: service.vips.iter().map(ToString::to_string).collect(),
            ports: service.ports.iter().map(Into::into).collect(),
            endpoints: Vec::new(),
        }
    }
}

impl From<&model::ServicePort> for ServicePort {
    fn from(port: &model::ServicePort) -> Self {
        Self {
            port: port.port.get(),
            name: port.name.clone(),
            transport: port.transport.as_str().to_owned(),
            protocol: protocol(port.protocol).to_owned(),
            tls: port.tls.as_deref().map(Into::into),
        }
    }
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
    /// Readiness from the EndpointSlice.
    pub health: EndpointHealth,
    /// Service ports that it serves.
    pub serves: Vec<Serves>,
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

impl From<&model::Workload> for Workload {
    fn from(workload: &model::Workload) -> Self {
        Self {
            key: workload.key.to_string(),
            address: workload.address.to_string(),
            node: workload.node.clone(),
            zone: workload.zone.clone(),
            health: workload.health.into(),
            serves: workload.serves.iter().map(Into::into).collect(),
        }
    }
}

impl From<&model::Serves> for Serves {
    fn from(serves: &model::Serves) -> Self {
        Self {
            service: serves.service.to_string(),
            port: serves.port.get(),
            target_port: serves.target_port.get(),
            transport: serves.transport.as_str().to_owned(),
        }
    }
}

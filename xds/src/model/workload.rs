//! Services, and the workloads that serve them.

use std::net::IpAddr;
use std::num::NonZeroU16;

use serde::Serialize;

use super::{BackendProtocol, BackendTls, ServiceKey, Transport, WorkloadKey};

/// A `Service` with its ports. Workloads name the services that they serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Service {
    /// Key of the Service.
    pub key: ServiceKey,
    /// Virtual addresses; empty for a headless Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<IpAddr>,
    /// TCP and UDP ports.
    pub ports: Vec<ServicePort>,
    /// Whether a client stays at an endpoint.
    #[serde(
        rename = "sessionAffinity",
        skip_serializing_if = "SessionAffinity::is_none"
    )]
    pub session_affinity: SessionAffinity,
}

/// Whether a client stays at an endpoint of a Service, unless a policy says by what requests are spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum SessionAffinity {
    /// It does not.
    #[default]
    None,
    /// Requests and connections from the same address go to the same endpoint.
    #[serde(rename = "ClientIP")]
    ClientAddress,
}

impl SessionAffinity {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A port of a service. TCP and UDP each have their own numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServicePort {
    /// Port number in the Service.
    pub port: NonZeroU16,
    /// Name in the Service; empty if it is the only port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Transport protocol of the port.
    pub transport: Transport,
    /// Application protocol (`appProtocol`, GEP-1911).
    pub protocol: BackendProtocol,
    /// TLS settings; always set with [`BackendProtocol::Https`] and [`BackendProtocol::H2`]. Boxed: few
    /// ports have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<BackendTls>>,
}

/// One address that serves services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Key of object and address.
    pub key: WorkloadKey,
    /// IP address of the pod.
    pub address: IpAddr,
    /// Node that it runs on, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Zone that it runs in, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whose requests it should get, if its EndpointSlice says so. Boxed: few have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<TopologyHints>>,
    /// Whether it receives requests.
    pub health: Health,
    /// Ports of services that it serves.
    pub serves: Vec<Serves>,
}

/// Whose requests a workload should get (`hints` of an EndpointSlice, KEP-2433 and KEP-4444).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TopologyHints {
    /// Those of proxies in these zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Those of proxies on these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// Whether a workload receives requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Health {
    /// Receives new requests.
    Ready,
    /// Terminating but still serving: used if nothing ready is left (KEP-1669).
    Draining,
    /// Receives no requests at all.
    NotReady,
}

/// A service port that a workload serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Serves {
    /// Key of the Service.
    pub service: ServiceKey,
    /// Port number in the Service.
    pub port: NonZeroU16,
    /// Port number on the workload.
    pub target_port: NonZeroU16,
    /// Transport protocol of the port.
    pub transport: Transport,
}

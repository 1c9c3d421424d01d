//! Services, and the workloads that serve them.

use std::net::IpAddr;
use std::num::NonZeroU16;

use super::{BackendProtocol, BackendTls, ServiceKey, Transport, WorkloadKey};

/// A `Service`: its ports. Which workloads serve it, the workloads say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its key.
    pub key: ServiceKey,
    /// Its virtual addresses; none for a headless one.
    pub vips: Vec<IpAddr>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
}

/// A port of a service. TCP and UDP each have their own numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Number in the Service.
    pub port: NonZeroU16,
    /// What carries it.
    pub transport: Transport,
    /// Name in the Service; empty where there is one port alone.
    pub name: String,
    /// What stands behind it (`appProtocol`, GEP-1911).
    pub protocol: BackendProtocol,
    /// TLS towards it; with [`BackendProtocol::Https`] and [`BackendProtocol::H2`] there always is.
    pub tls: Option<BackendTls>,
}

/// One address that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its key.
    pub key: WorkloadKey,
    /// Its address.
    pub address: IpAddr,
    /// Node it runs on.
    pub node: Option<String>,
    /// Zone it runs in.
    pub zone: Option<String>,
    /// Whether it takes requests.
    pub health: Health,
    /// What it serves.
    pub serves: Vec<Serves>,
}

/// Whether a workload takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// Takes new requests.
    Ready,
    /// Serving but terminating: used where nothing ready is left (KEP-1669).
    Draining,
    /// Takes none.
    NotReady,
}

/// A service port that a workload serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serves {
    /// Which service.
    pub service: ServiceKey,
    /// Number of the port in the Service.
    pub port: NonZeroU16,
    /// What carries it.
    pub transport: Transport,
    /// Number of the port on the workload.
    pub target_port: NonZeroU16,
}

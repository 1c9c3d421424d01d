//! Backends, and the endpoints that requests to them and to services end up at.

use serde::{Deserialize, Serialize};
use xds::model;

use super::BackendTls;
use crate::text::of_duration;

/// A backend outside of services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Its key.
    pub key: String,
    /// What it speaks, such as `HTTP`.
    pub protocol: String,
    /// TLS towards it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// The version of the PROXY protocol header that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<String>,
    /// Where it is, as the configuration says.
    pub hosts: Hosts,
    /// Where it is, and how that fares.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
}

impl From<&model::Backend> for Backend {
    fn from(backend: &model::Backend) -> Self {
        Self {
            key: backend.key.to_string(),
            protocol: protocol(backend.protocol).to_owned(),
            tls: backend.tls.as_ref().map(Into::into),
            proxy_protocol: backend.proxy_protocol.map(|version| match version {
                model::ProxyProtocolVersion::V1 => "V1".to_owned(),
                model::ProxyProtocolVersion::V2 => "V2".to_owned(),
            }),
            hosts: (&backend.hosts).into(),
            endpoints: Vec::new(),
        }
    }
}

/// What a backend or service port speaks, as a `Backend` has it.
pub(super) fn protocol(protocol: model::BackendProtocol) -> &'static str {
    match protocol {
        model::BackendProtocol::Http => "HTTP",
        model::BackendProtocol::H2c => "H2C",
        model::BackendProtocol::Https => "HTTPS",
        model::BackendProtocol::H2 => "H2",
        model::BackendProtocol::Tcp => "TCP",
    }
}

/// Where a backend is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Hosts {
    /// At listed hosts.
    Static {
        /// The hosts.
        hosts: Vec<Host>,
    },
    /// At every address of a DNS name.
    Dns {
        /// The name.
        name: String,
        /// The port.
        port: u16,
        /// It is looked up at least this often.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refresh: Option<String>,
    },
    /// At a unix socket.
    Unix {
        /// Its path.
        path: String,
    },
}

/// A listed host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Address or name.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Its share, relative to the other hosts.
    pub weight: u32,
}

impl From<&model::Hosts> for Hosts {
    fn from(hosts: &model::Hosts) -> Self {
        match hosts {
            model::Hosts::Static(hosts) => Self::Static {
                hosts: hosts.iter().map(Into::into).collect(),
            },
            model::Hosts::Dns {
                name,
                port,
                refresh,
            } => Self::Dns {
                name: name.to_string(),
                port: port.get(),
                refresh: refresh.map(of_duration),
            },
            model::Hosts::Unix { path } => Self::Unix {
                path: path.display().to_string(),
            },
        }
    }
}

impl From<&model::Host> for Host {
    fn from(host: &model::Host) -> Self {
        Self {
            host: match &host.address {
                model::HostAddress::Ip(ip) => ip.to_string(),
                model::HostAddress::Name(name) => name.to_string(),
            },
            port: host.port.get(),
            weight: host.weight.get(),
        }
    }
}

/// An address that requests are sent to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `address:port`, or `unix:` and a path.
    pub name: String,
    /// Port of the service that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Its share, relative to the other endpoints.
    pub weight: u32,
    /// What the configuration says of it.
    pub status: EndpointHealth,
    /// What requests say of it.
    #[serde(flatten)]
    pub live: Live,
}

/// Whether an endpoint is to take requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointHealth {
    /// It takes new requests.
    Ready,
    /// It takes requests where nothing ready is left, and those of its sessions.
    Draining,
    /// It takes none.
    NotReady,
}

impl From<model::Health> for EndpointHealth {
    fn from(health: model::Health) -> Self {
        match health {
            model::Health::Ready => Self::Ready,
            model::Health::Draining => Self::Draining,
            model::Health::NotReady => Self::NotReady,
        }
    }
}

/// How an endpoint fares, merged over the shards: averages by their recent requests, the rest summed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Live {
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Average time to the response's head; 0 before the first.
    pub latency_ms: f64,
    /// Requests so far.
    pub requests: u64,
    /// Requests now.
    pub in_flight: u64,
    /// Failures since the last success, on the shard that saw most.
    pub consecutive_failures: u32,
    /// For how much longer it is put aside, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejected_for: Option<String>,
    /// Shards that have put it aside.
    #[serde(skip_serializing_if = "is_zero")]
    pub ejected_shards: u16,
    /// Shards that this is merged from: a stuck one is not among them.
    pub shards: u16,
}

impl Default for Live {
    /// Nobody has asked it yet.
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

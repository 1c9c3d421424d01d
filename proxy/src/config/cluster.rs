//! Where requests can be sent to: clusters and their endpoints.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use xds::model;

use super::endpoints::{EndpointIdentity, EndpointSet};
use super::hashed::Hashed;
use super::health_check::{CheckedEndpoints, ProbeCounts, ProbeState};
use crate::http::engine::Scheme;
use crate::names::Interned;
use crate::policy::proxy_protocol::Version;
use crate::tls::UpstreamTls;

/// Position of a cluster in its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterIndex(pub usize);

/// A service port, or a backend: interchangeable endpoints.
#[derive(Debug)]
pub struct Cluster {
    /// Its id on the shards.
    pub id: Interned,
    /// Its key in logs and metrics: `Service/namespace/name:port` or `Backend/namespace/name`.
    pub name: Arc<str>,
    /// How connections to the endpoints are protected.
    pub protection: Protection,
    /// The application protocol of its endpoints.
    pub protocol: Protocol,
    /// The endpoints that take requests, with weights, for load balancing.
    pub set: EndpointSet,
    /// How requests are spread by hash in the place of load; `None` if they are not.
    pub hashed: Option<Box<Hashed>>,
    /// Where endpoints are, sorted by id.
    pub endpoints: Box<[Endpoint]>,
    /// Connections of one shard to all of it.
    pub connections_per_shard: NonZeroU32,
    /// Most connections to one endpoint, over all shards; `None` without a limit.
    pub endpoint_connections: Option<u32>,
    /// Most requests that wait for a connection to one endpoint.
    pub endpoint_pending_per_shard: NonZeroU32,
    /// Requests of one shard that wait for a connection to it.
    pub pending_per_shard: NonZeroU32,
    /// The PROXY protocol header that each connection to it begins with.
    pub proxy_protocol: Option<Version>,
    /// The limit of retries to it.
    pub retry_limit: RetryLimit,
    /// The endpoint picker, if the backend is an inference pool.
    pub picker: Option<Box<Picker>>,
    /// How its endpoints are asked whether they can serve.
    pub health_check: Option<Box<ClusterHealthCheck>>,
}

/// The health check of a cluster.
#[derive(Debug)]
pub struct ClusterHealthCheck {
    /// The service or backend, as policies name it: `Service/namespace/name`.
    pub object: Arc<str>,
    /// What is asked.
    pub check: Arc<model::HealthCheck>,
    /// The endpoints that are asked.
    pub endpoints: Arc<CheckedEndpoints>,
    /// What is counted of its probes.
    pub counts: Arc<ProbeCounts>,
}

/// The limit of retries to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryLimit {
    /// Their number in flight.
    InFlight(model::RetryBudget),
    /// Their rate; the least one is a shard's share.
    Rate(Arc<model::RetryConstraint>),
}

/// An endpoint picker of the Inference Extension.
#[derive(Debug)]
pub struct Picker {
    /// The cluster of the endpoint picker itself.
    pub cluster: Cluster,
    /// Whether requests fail or go to any endpoint if the picker fails.
    pub failure_mode: model::PickerFailureMode,
}

impl Cluster {
    /// The endpoint of this id.
    #[must_use]
    pub fn endpoint(&self, id: Interned) -> Option<&Endpoint> {
        let at = self
            .endpoints
            .binary_search_by_key(&id, |endpoint| endpoint.id)
            .ok()?;
        self.endpoints.get(at)
    }

    /// Whether an endpoint of this cluster is out of service because its probes fail.
    #[must_use]
    pub fn is_probed_out(&self, endpoint: &Endpoint) -> bool {
        let (Some(checked), Some(probe)) = (self.set.health_checks(), &endpoint.probe) else {
            return false;
        };
        checked.takes_out(&probe.state)
    }
}

/// How the connections to a cluster are protected.
#[derive(Debug, Clone)]
pub enum Protection {
    /// No TLS: plain text.
    Plain,
    /// TLS, with the cluster's client configuration.
    Tls(Arc<UpstreamTls>),
    /// TLS that cannot be set up, so there are no connections.
    Unusable,
}

impl Protection {
    /// The scheme of requests over such connections.
    pub(crate) fn scheme(&self) -> Scheme {
        match self {
            Self::Plain => Scheme::Http,
            Self::Tls(_) | Self::Unusable => Scheme::Https,
        }
    }
}

/// The application protocol of the endpoints of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: an exchange at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: exchanges share a connection.
    Http2,
}

/// Where an endpoint is.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its id on the shards.
    pub id: Interned,
    /// IP address and port, or unix socket.
    pub address: Address,
    /// Its identity in session tokens.
    pub identity: EndpointIdentity,
    /// Its address as text, for logs.
    pub name: Arc<str>,
    /// Its share relative to the others.
    pub weight: NonZeroU32,
    /// Whether it takes requests.
    pub health: model::Health,
    /// Its zone, if known.
    pub zone: Option<Arc<str>>,
    /// How it is probed, if it is.
    pub probe: Option<Box<EndpointProbe>>,
}

/// How an endpoint is probed.
#[derive(Debug, Clone)]
pub struct EndpointProbe {
    /// What is known by probes.
    pub state: Arc<ProbeState>,
    /// The `Host` of probes, if the check does not name one.
    pub host: Arc<str>,
}

/// An address to connect to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

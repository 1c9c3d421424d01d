//! What is asked of which endpoints, by the clusters of a configuration.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use xds::model::{Alpn, HealthCheck, HealthProbe};

use super::state::ProbeState;
use crate::config::{Address, Cluster, Protection, Protocol};
use crate::names::Interned;
use crate::policy::proxy_protocol::Version;

/// Identifies the probes of an endpoint: the object, the cluster unless all of its ports are asked at the same
/// port, and the address.
pub(super) type ProbeKey = (Arc<str>, Option<Interned>, Address);

/// What is asked of an endpoint.
#[derive(Debug)]
pub(super) struct ProbeTarget {
    /// The service or backend, or a port of it.
    pub(super) name: Arc<str>,
    /// The service or backend.
    pub(super) object: Arc<str>,
    pub(super) check: Arc<HealthCheck>,
    pub(super) address: Address,
    /// The `Host`, if the check does not name another.
    pub(super) host: Arc<str>,
    pub(super) security: Security,
    pub(super) protocol: Protocol,
    pub(super) proxy_protocol: Option<Version>,
}

/// How connections are protected.
#[derive(Clone)]
pub(super) enum Security {
    Plain,
    Tls(Arc<ClientConfig>, ServerName<'static>),
    /// TLS that cannot be set up.
    Unusable,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(..) => "Tls",
            Self::Unusable => "Unusable",
        })
    }
}

/// Probes of an endpoint, and the states that follow from them.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) target: Arc<ProbeTarget>,
    pub(super) watchers: Vec<Watcher>,
}

/// An endpoint of a cluster whose state follows from probes.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Index of the cluster among those of the plan.
    pub(super) cluster: usize,
    pub(super) state: Arc<ProbeState>,
}

/// The probes of these clusters.
pub(super) fn plan(clusters: &[Arc<Cluster>]) -> BTreeMap<ProbeKey, Planned> {
    let mut planned: BTreeMap<ProbeKey, Planned> = BTreeMap::new();
    for (index, cluster) in clusters.iter().enumerate() {
        let Some(checks) = &cluster.health_check else {
            continue;
        };
        let check = &checks.check;
        let protocol = match check.probe {
            HealthProbe::Grpc { .. } => Protocol::Http2,
            HealthProbe::Http { .. } | HealthProbe::Tcp => cluster.protocol,
        };
        let security = security(&cluster.protection, &check.probe, protocol);
        let name = match check.port {
            Some(_) => Arc::clone(&checks.object),
            None => Arc::clone(&cluster.name),
        };
        for endpoint in &cluster.endpoints {
            let Some(probe) = &endpoint.probe else {
                continue;
            };
            let watcher = Watcher {
                cluster: index,
                state: Arc::clone(&probe.state),
            };
            let address = address(&endpoint.address, check);
            let shared = check.port.is_none().then_some(cluster.id);
            let key = (Arc::clone(&checks.object), shared, address.clone());
            match planned.entry(key) {
                Entry::Occupied(mut entry) => entry.get_mut().watchers.push(watcher),
                Entry::Vacant(entry) => {
                    let target = ProbeTarget {
                        name: Arc::clone(&name),
                        object: Arc::clone(&checks.object),
                        check: Arc::clone(check),
                        address,
                        host: Arc::clone(&probe.host),
                        security: security.clone(),
                        protocol,
                        proxy_protocol: cluster.proxy_protocol,
                    };
                    entry.insert(Planned {
                        target: Arc::new(target),
                        watchers: vec![watcher],
                    });
                }
            }
        }
    }
    planned
}

/// Where an endpoint is asked. A unix socket has no other port.
fn address(address: &Address, check: &HealthCheck) -> Address {
    match (address, check.port) {
        (Address::Tcp(socket), Some(port)) => {
            Address::Tcp(SocketAddr::new(socket.ip(), port.get()))
        }
        _ => address.clone(),
    }
}

fn security(protection: &Protection, probe: &HealthProbe, protocol: Protocol) -> Security {
    let alpn = match (probe, protocol) {
        (HealthProbe::Tcp, _) => None,
        (_, Protocol::Http1) => Some(Alpn::Http11),
        (_, Protocol::Http2) => Some(Alpn::H2),
    };
    match protection {
        Protection::Plain => Security::Plain,
        Protection::Tls(tls) => match tls.off_shards(alpn) {
            Some((config, name)) => Security::Tls(Arc::new(config), name),
            None => Security::Unusable,
        },
        Protection::Unusable => Security::Unusable,
    }
}

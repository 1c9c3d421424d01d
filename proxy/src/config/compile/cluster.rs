//! Clusters: service ports with the workloads behind them, and backends with their addresses.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use xds::model::{
    Backend, BackendProtocol, BackendTls, Certificate, Health, HostAddress, Hosts, InvalidBackend,
    Model, ObjectName, PolicySpec, ProxyProtocolVersion, Service, ServicePort, Target, Transport,
    Workload,
};

use super::ids::{EndpointKey, Ids};
use super::policy::{Layer, Policies};
use super::tls::TlsCompiler;
use crate::config::dns::Resolved;
use crate::config::{Address, Cluster, ClusterIndex, Endpoint, Protection, Protocol};
use crate::limits::{EJECTION, Limits, RETRY_BUDGET, per_shard};
use crate::policy::proxy_protocol::Version;
use crate::upstream::balance::{EndpointRef, EndpointSet};
use crate::upstream::session::Identity;

/// Everything in a model that requests can be sent to, by what routes call it.
pub(super) struct Targets<'a> {
    /// By name, and what is shown to it, by position in `shown`.
    positions: HashMap<(Name<'a>, usize), ClusterIndex>,
    list: Vec<(Place<'a>, Shown<'a>)>,
    /// What the Gateways show to backends that are reached by TLS, all that differ.
    shown: Vec<Shown<'a>>,
    by_gateway: HashMap<&'a ObjectName, usize>,
}

/// What the connections to a cluster are made with, so that Gateways with different certificates
/// share none.
#[derive(Clone, Copy)]
struct Shown<'a> {
    certificate: Option<&'a Certificate>,
    /// The first Gateway that shows it; `None` for the first of all.
    gateway: Option<&'a ObjectName>,
}

/// Key of a service with transport and number of its port, or key of a backend.
type Name<'a> = (&'a str, Option<(Transport, u16)>);

/// What becomes a cluster.
enum Place<'a> {
    Port {
        service: &'a Service,
        port: &'a ServicePort,
        members: Vec<Member<'a>>,
    },
    Backend(&'a Backend),
}

impl Place<'_> {
    fn protocol(&self) -> Protocol {
        match self {
            Self::Port { port, .. } => spoken(port.protocol),
            Self::Backend(backend) => spoken(backend.protocol),
        }
    }
}

/// A workload that serves a port, and the port on it.
struct Member<'a> {
    workload: &'a Workload,
    port: u16,
}

impl<'a> Targets<'a> {
    pub(super) fn of(model: &'a Model, policies: &Policies<'a>) -> Self {
        let mut targets = Self {
            positions: HashMap::new(),
            list: Vec::new(),
            shown: Vec::new(),
            by_gateway: HashMap::new(),
        };
        for bind in model.binds.values() {
            targets.note_gateway(&bind.gateway, policies);
        }
        for service in model.services.values() {
            for port in &service.ports {
                let place = || Place::Port {
                    service,
                    port,
                    members: Vec::new(),
                };
                let number = (port.transport, port.port.get());
                let name = (service.key.as_str(), Some(number));
                targets.add(name, port.tls.as_ref(), place);
            }
        }
        let backends = model.backends.values();
        for backend in backends {
            let name = (backend.key.as_str(), None);
            targets.add(name, backend.tls.as_ref(), || Place::Backend(backend));
        }
        for workload in model.workloads.values() {
            targets.join(workload);
        }
        targets
    }

    fn note_gateway(&mut self, gateway: &'a ObjectName, policies: &Policies<'a>) {
        let own = policies.of_gateway(gateway);
        let certificate = own.field(|spec| spec.client_certificate.as_ref());
        let known = self
            .shown
            .iter()
            .position(|shown| shown.certificate == certificate);
        let position = known.unwrap_or_else(|| {
            let gateway = (!self.shown.is_empty()).then_some(gateway);
            self.shown.push(Shown {
                certificate,
                gateway,
            });
            self.shown.len() - 1
        });
        self.by_gateway.insert(gateway, position);
    }

    /// Adds a cluster; where it is reached by TLS, one for each that is shown something else.
    fn add(&mut self, name: Name<'a>, tls: Option<&BackendTls>, place: impl Fn() -> Place<'a>) {
        let plain = Shown {
            certificate: None,
            gateway: None,
        };
        let differing = if tls.is_some() { self.shown.len() } else { 1 };
        for position in 0..differing.max(1) {
            let shown = self.shown.get(position).filter(|_| tls.is_some());
            let index = ClusterIndex(self.list.len());
            self.positions.insert((name, position), index);
            self.list.push((place(), *shown.unwrap_or(&plain)));
        }
    }

    fn join(&mut self, workload: &'a Workload) {
        for serves in &workload.serves {
            let port = (serves.transport, serves.port.get());
            for shown in 0..self.shown.len().max(1) {
                let name = (serves.service.as_str(), Some(port));
                let Some(position) = self.positions.get(&(name, shown)) else {
                    break;
                };
                if let (Place::Port { members, .. }, _) = &mut self.list[position.0] {
                    let port = serves.target_port.get();
                    members.push(Member { workload, port });
                }
            }
        }
    }

    /// Where the target of a Gateway's route is; of a service, a port of this transport.
    pub(super) fn find(
        &self,
        target: &Target,
        transport: Transport,
        gateway: &ObjectName,
    ) -> Result<ClusterIndex, InvalidBackend> {
        let name = match target {
            Target::Service { service, port } => (service.as_str(), Some((transport, *port))),
            Target::Backend(key) => (key.as_str(), None),
            Target::Invalid { why, .. } => return Err(*why),
        };
        let shown = self.by_gateway.get(gateway).copied().unwrap_or_default();
        // What is reached in plain text is shown nothing, and is there once.
        let found = self.positions.get(&(name, shown));
        let found = found.or_else(|| self.positions.get(&(name, 0)));
        found.copied().ok_or(InvalidBackend::NotFound)
    }
}

/// The version of HTTP that requests go out in, unless their rule asks for HTTP/2.
fn spoken(protocol: BackendProtocol) -> Protocol {
    match protocol {
        BackendProtocol::H2c | BackendProtocol::H2 => Protocol::Http2,
        BackendProtocol::Http | BackendProtocol::Https | BackendProtocol::Tcp => Protocol::Http1,
    }
}

/// Which Gateways send requests to each cluster, as the rules tell.
pub(super) struct Users<'a> {
    by_cluster: Vec<BTreeSet<&'a ObjectName>>,
    /// Whether it matters: whether a policy aims at a Gateway.
    wanted: bool,
}

impl<'a> Users<'a> {
    pub(super) fn new(targets: &Targets<'_>, policies: &Policies<'_>) -> Self {
        let wanted = !policies.gateways_are_silent();
        let clusters = if wanted { targets.list.len() } else { 0 };
        Self {
            by_cluster: vec![BTreeSet::new(); clusters],
            wanted,
        }
    }

    pub(super) fn note(&mut self, cluster: ClusterIndex, gateway: &'a ObjectName) {
        if self.wanted {
            self.by_cluster[cluster.0].insert(gateway);
        }
    }

    fn of(&self, cluster: usize) -> impl Iterator<Item = &'a ObjectName> {
        self.by_cluster.get(cluster).into_iter().flatten().copied()
    }
}

/// Compiles everything that requests can be sent to.
pub(super) struct ClusterCompiler<'a, 'c> {
    pub(super) targets: &'c Targets<'a>,
    pub(super) policies: &'c Policies<'a>,
    pub(super) users: &'c Users<'a>,
    pub(super) resolved: &'c Resolved,
    pub(super) shards: NonZeroU32,
    pub(super) ids: &'c mut Ids,
    pub(super) tls: &'c mut TlsCompiler,
}

impl ClusterCompiler<'_, '_> {
    pub(super) fn compile(mut self) -> Vec<Cluster> {
        let places = self.targets.list.iter().enumerate();
        places
            .map(|(number, place)| self.cluster(number, place))
            .collect()
    }

    fn cluster(&mut self, number: usize, (place, shown): &(Place<'_>, Shown<'_>)) -> Cluster {
        let (mut name, own, tls) = match place {
            Place::Port { service, port, .. } => {
                let own = self.policies.of_service(&service.key);
                (port_name(service, port), own, &port.tls)
            }
            Place::Backend(backend) => {
                let own = self.policies.of_backend(&backend.key);
                (backend.key.as_str().to_owned(), own, &backend.tls)
            }
        };
        if let Some(gateway) = shown.gateway {
            name = format!("{name} from {gateway}");
        }
        let name: Arc<str> = name.into();
        let (settings, protection) = match tls {
            Some(tls) => self.tls.backend(&name, tls, shown.certificate, self.shards),
            None => (None, Protection::Plain),
        };
        let gateways = self.users.of(number);
        let gateways = gateways.map(|gateway| self.policies.of_gateway(gateway));
        let said = Said(std::iter::once(own).chain(gateways).collect());
        let limits = Limits::default();
        let connections = said.field(|spec| spec.limits.upstream_connections);
        let pending = said.field(|spec| spec.limits.upstream_pending);
        let id = self.ids.clusters.intern(&name);
        let (mut endpoints, mut members) = (Vec::new(), Vec::new());
        for (address, standing) in standings(place, self.resolved) {
            let endpoint = self.endpoint((id, settings, address), &name, &standing);
            let member = EndpointRef {
                id: endpoint.id,
                weight: standing.weight,
            };
            members.push((member, standing.health, endpoint.identity));
            endpoints.push(endpoint);
        }
        endpoints.sort_unstable_by_key(|endpoint| endpoint.id);
        let ejection = said.field(|spec| spec.ejection).unwrap_or(EJECTION);
        Cluster {
            id,
            protection,
            protocol: place.protocol(),
            set: EndpointSet::new(id, ejection, &members),
            endpoints,
            connections_per_shard: per_shard(
                connections.unwrap_or(limits.upstream_connections),
                self.shards,
            ),
            proxy_protocol: place.proxy_protocol(),
            pending_per_shard: per_shard(pending.unwrap_or(limits.upstream_pending), self.shards),
            retry_budget: said.field(|spec| spec.retry_budget).unwrap_or(RETRY_BUDGET),
            name,
        }
    }

    /// An address of the cluster of this name.
    fn endpoint(&mut self, key: EndpointKey, cluster: &str, standing: &Standing) -> Endpoint {
        let text: Arc<str> = key.2.to_string().into();
        Endpoint {
            id: self.ids.endpoints.intern(&key),
            address: key.2,
            identity: Identity::new(cluster, &text),
            name: text,
            weight: standing.weight,
            health: standing.health,
        }
    }
}

/// A port's name; that of TCP is silent.
fn port_name(service: &Service, port: &ServicePort) -> String {
    match port.transport {
        Transport::Tcp => format!("{}:{}", service.key, port.port),
        Transport::Udp => format!("{}:{}/udp", service.key, port.port),
    }
}

impl Place<'_> {
    /// The header that connections to it begin with.
    fn proxy_protocol(&self) -> Option<Version> {
        let Place::Backend(backend) = self else {
            return None;
        };
        backend.proxy_protocol.map(|version| match version {
            ProxyProtocolVersion::V1 => Version::V1,
            ProxyProtocolVersion::V2 => Version::V2,
        })
    }
}

/// The policies of a cluster, the nearest first: its own, then those of the Gateways that use it,
/// by name.
struct Said<'a>(Vec<&'a Layer<'a>>);

impl<'a> Said<'a> {
    fn field<T>(&self, field: impl Fn(&'a PolicySpec) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|layer| layer.field(&field))
    }
}

/// How an address stands in its cluster.
struct Standing {
    weight: NonZeroU32,
    health: Health,
}

/// The addresses of a cluster, each once.
fn standings(place: &Place<'_>, resolved: &Resolved) -> BTreeMap<Address, Standing> {
    match place {
        Place::Port { members, .. } => workloads(members),
        Place::Backend(backend) => hosts(&backend.hosts, resolved),
    }
}

/// A workload can be listed twice while it moves from one list to another: its better state counts.
fn workloads(members: &[Member<'_>]) -> BTreeMap<Address, Standing> {
    let mut standings = BTreeMap::new();
    for Member { workload, port } in members {
        let address = Address::Tcp(SocketAddr::new(workload.address, *port));
        let health = workload.health;
        let standing = standings.entry(address).or_insert(Standing {
            weight: NonZeroU32::MIN,
            health,
        });
        if preference(health) < preference(standing.health) {
            standing.health = health;
        }
    }
    standings
}

/// The smaller, the better.
fn preference(health: Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Draining => 1,
        Health::NotReady => 2,
    }
}

/// Hosts that come to one address add their weights. Names without an answer have no endpoint.
fn hosts(hosts: &Hosts, resolved: &Resolved) -> BTreeMap<Address, Standing> {
    let mut standings = BTreeMap::new();
    let mut add = |address, weight| {
        let standing: &mut Standing = match standings.entry(address) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let health = Health::Ready;
                entry.insert(Standing { weight, health });
                return;
            }
        };
        standing.weight = standing.weight.saturating_add(weight.get());
    };
    let tcp = |ip: IpAddr, port: NonZeroU16| Address::Tcp(SocketAddr::new(ip, port.get()));
    match hosts {
        Hosts::Static(hosts) => {
            for host in hosts {
                let ip = match &host.address {
                    HostAddress::Ip(ip) => Some(*ip),
                    HostAddress::Name(name) => resolved.addresses(name).first().copied(),
                };
                if let Some(ip) = ip {
                    add(tcp(ip, host.port), host.weight);
                }
            }
        }
        Hosts::Dns { name, port, .. } => {
            for ip in resolved.addresses(name) {
                add(tcp(*ip, *port), NonZeroU32::MIN);
            }
        }
        Hosts::Unix { path } => add(Address::Unix(path.clone()), NonZeroU32::MIN),
    }
    standings
}

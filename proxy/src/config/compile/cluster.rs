//! Clusters: service ports with the workloads behind them, and backends with their addresses.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use xds::model::{
    Backend, Health, HostAddress, Hosts, InvalidBackend, Model, ObjectName, PolicySpec, Service,
    Target, Workload,
};

use super::ids::Ids;
use super::policy::{Layer, Policies};
use crate::config::dns::Resolved;
use crate::config::{Address, Cluster, ClusterIndex, Endpoint};
use crate::limits::{EJECTION, Limits, RETRY_BUDGET, per_shard};
use crate::upstream::balance::{EndpointRef, EndpointSet};
use crate::upstream::session::Identity;

/// Everything in a model that requests can be sent to, by what routes call it.
pub(super) struct Targets<'a> {
    /// By key, and port where it is a service.
    positions: HashMap<(&'a str, u16), ClusterIndex>,
    list: Vec<Place<'a>>,
}

/// What becomes a cluster.
enum Place<'a> {
    Port {
        service: &'a Service,
        port: u16,
        members: Vec<Member<'a>>,
    },
    Backend(&'a Backend),
}

/// A workload that serves a port, and the port on it.
struct Member<'a> {
    workload: &'a Workload,
    port: u16,
}

impl<'a> Targets<'a> {
    pub(super) fn of(model: &'a Model) -> Self {
        let mut targets = Self {
            positions: HashMap::new(),
            list: Vec::new(),
        };
        for service in model.services.values() {
            for port in &service.ports {
                let (port, members) = (port.port.get(), Vec::new());
                targets.add(
                    (service.key.as_str(), port),
                    Place::Port {
                        service,
                        port,
                        members,
                    },
                );
            }
        }
        for backend in model.backends.values() {
            targets.add((backend.key.as_str(), 0), Place::Backend(backend));
        }
        for workload in model.workloads.values() {
            targets.join(workload);
        }
        targets
    }

    fn add(&mut self, name: (&'a str, u16), place: Place<'a>) {
        self.positions.insert(name, ClusterIndex(self.list.len()));
        self.list.push(place);
    }

    fn join(&mut self, workload: &'a Workload) {
        for serves in &workload.serves {
            let name = (serves.service.as_str(), serves.port.get());
            let Some(position) = self.positions.get(&name) else {
                continue;
            };
            if let Place::Port { members, .. } = &mut self.list[position.0] {
                let port = serves.target_port.get();
                members.push(Member { workload, port });
            }
        }
    }

    /// Where a route's target is.
    pub(super) fn find(&self, target: &Target) -> Result<ClusterIndex, InvalidBackend> {
        let name = match target {
            Target::Service { service, port } => (service.as_str(), *port),
            Target::Backend(key) => (key.as_str(), 0),
            Target::Invalid(why) => return Err(*why),
        };
        let found = self.positions.get(&name).copied();
        found.ok_or(InvalidBackend::NotFound)
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
}

impl ClusterCompiler<'_, '_> {
    pub(super) fn compile(mut self) -> Vec<Cluster> {
        let places = self.targets.list.iter().enumerate();
        places
            .map(|(number, place)| self.cluster(number, place))
            .collect()
    }

    fn cluster(&mut self, number: usize, place: &Place<'_>) -> Cluster {
        let (name, own): (Arc<str>, _) = match place {
            Place::Port { service, port, .. } => {
                let own = self.policies.of_service(&service.key);
                (format!("{}:{port}", service.key).into(), own)
            }
            Place::Backend(backend) => {
                let own = self.policies.of_backend(&backend.key);
                (backend.key.as_str().into(), own)
            }
        };
        let gateways = self.users.of(number);
        let gateways = gateways.map(|gateway| self.policies.of_gateway(gateway));
        let said = Said(std::iter::once(own).chain(gateways).collect());
        let limits = Limits::default();
        let connections = said.field(|spec| spec.limits.upstream_connections);
        let pending = said.field(|spec| spec.limits.upstream_pending);
        let id = self.ids.clusters.intern(&name);
        let mut endpoints = Vec::new();
        let mut members = Vec::new();
        for (address, Standing { weight, health }) in standings(place, self.resolved) {
            let text: Arc<str> = address.to_string().into();
            let key = (id, address);
            let endpoint = self.ids.endpoints.intern(&key);
            let member = EndpointRef {
                id: endpoint,
                weight,
            };
            let identity = Identity::new(&name, &text);
            members.push((member, health, identity));
            endpoints.push(Endpoint {
                id: endpoint,
                address: key.1,
                identity,
                name: text,
            });
        }
        endpoints.sort_unstable_by_key(|endpoint| endpoint.id);
        let ejection = said.field(|spec| spec.ejection).unwrap_or(EJECTION);
        Cluster {
            id,
            set: EndpointSet::new(id, ejection, &members),
            endpoints,
            connections_per_shard: per_shard(
                connections.unwrap_or(limits.upstream_connections),
                self.shards,
            ),
            pending_per_shard: per_shard(pending.unwrap_or(limits.upstream_pending), self.shards),
            retry_budget: said.field(|spec| spec.retry_budget).unwrap_or(RETRY_BUDGET),
            name,
        }
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

//! Clusters: service ports with the workloads behind them, and backends with their addresses.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Instant;

use xds::model::{
    self, Certificate, HashBalance, Health, Hosts, LocalityMode, Member, Model, RetryConstraint,
    RetryRate, Workload,
};

use super::hash::{self, HashSettings};
use super::health_check::CheckCompiler;
use super::ids::{EndpointKey, Ids};
use super::index::Index;
use super::last::Last;
use super::locality::{LocalityCompiler, Locations};
use super::policy::{Layer, Policies};
use super::source::{Source, socket};
use super::targets::{ClientCredential, ClusterUsers, TargetCluster, Targets};
use super::tls::{SettingsId, TlsCompiler};
use crate::config::dns::Resolved;
use crate::config::{
    Address, Cluster, Endpoint, EndpointIdentity, EndpointRef, EndpointSet, Location, Picker,
    Place, Protection, Protocol, RetryLimit,
};
use crate::limits::{EJECTION, Limits, RETRY_BUDGET, per_shard};
use crate::names::Interned;

/// Compiles everything that requests can be sent to.
pub(super) struct ClusterCompiler<'c> {
    pub(super) model: &'c Model,
    pub(super) index: &'c Index,
    pub(super) targets: &'c Targets,
    pub(super) policies: &'c Policies,
    pub(super) users: &'c ClusterUsers,
    pub(super) resolved: &'c Resolved,
    pub(super) shards: NonZeroU32,
    /// Where this proxy runs.
    pub(super) place: &'c Place,
    /// The ejection of the cluster that was compiled last.
    pub(super) last: &'c mut Last<model::Ejection>,
    pub(super) ids: &'c mut Ids,
    pub(super) tls: &'c mut TlsCompiler,
}

/// A cluster, and the keys that its ids were acquired with.
#[derive(Debug)]
pub(super) struct CompiledCluster {
    pub(super) cluster: Arc<Cluster>,
    settings: Option<SettingsId>,
    /// Of its endpoint picker.
    picker_settings: Option<SettingsId>,
}

impl CompiledCluster {
    /// Releases its ids.
    pub(super) fn remove_reference(&self, ids: &mut Ids) {
        remove_reference(&self.cluster, self.settings, ids);
        if let Some(picker) = &self.cluster.picker {
            remove_reference(&picker.cluster, self.picker_settings, ids);
        }
    }
}

fn remove_reference(cluster: &Cluster, settings: Option<SettingsId>, ids: &mut Ids) {
    for endpoint in &cluster.endpoints {
        let key = (cluster.id, settings, endpoint.address.clone());
        ids.endpoints.remove_reference(&key);
    }
    ids.clusters.remove_reference(&cluster.name);
}

impl<'c> ClusterCompiler<'c> {
    /// The cluster at a place of the service or backend of this key, where `before` was before this change.
    pub(super) fn compile(
        &mut self,
        key: &str,
        place: TargetCluster,
        before: Option<&Cluster>,
    ) -> Option<CompiledCluster> {
        let source = Source::of(key, place.port, self.model)?;
        let policies = self.policies;
        let own = match source {
            Source::Port(service, _) => policies.of_service(&service.key),
            Source::Backend(backend) => policies.of_backend(&backend.key),
        };
        let (name, settings, protection) = self.protection(source, place);
        let gateways = self.users.of(place.index);
        let gateways = gateways.map(|gateway| policies.of_gateway(gateway));
        let layers = GatewayLayers(std::iter::once(own).chain(gateways).collect());
        let limits = layers.limits();
        let ejection = layers.field(|spec| spec.ejection).unwrap_or(EJECTION);
        let (id, mut set, mut endpoints, locations) =
            self.endpoints(&name, settings, ejection, self.address_states(source));
        let hash = self.hash(source);
        // A hash does not draw by weight.
        let slow_start = own.field(|spec| spec.balance.slow_start);
        if let Some(slow) = slow_start.filter(|_| hash.is_none()) {
            set = set.with_slow_start(slow, before.map(|it| &it.set), Instant::now());
        }
        let hash_decides = hash.as_ref().is_some_and(|hash| !hash.is_affinity());
        let hashed = hash.map(|hash| Box::new(hash::hashed(&hash, &set, &endpoints, before)));
        let mut health_check = None;
        if let Some(check) = self.health_check(source, place, own) {
            let compiler = CheckCompiler {
                check,
                source,
                resolved: self.resolved,
                before,
            };
            let (checked, compiled) = compiler.compile(set, &mut endpoints);
            set = checked;
            health_check = Some(Box::new(compiled));
        }
        set = self.local(set, (own, hash_decides), &locations, before);
        let picker = source.pool().and_then(|pool| pool.picker.as_ref());
        let (picker, picker_settings) = picker.map(|picker| self.picker(&name, picker)).unzip();
        let cluster = Cluster {
            id,
            protection,
            protocol: source.protocol(),
            set,
            hashed,
            endpoints,
            connections_per_shard: per_shard(limits.upstream_connections, self.shards),
            endpoint_connections: limits.endpoint_connections,
            endpoint_pending_per_shard: per_shard(limits.endpoint_pending, self.shards),
            proxy_protocol: source.proxy_protocol(),
            pending_per_shard: per_shard(limits.upstream_pending, self.shards),
            retry_limit: self.retry_limit(&layers),
            picker: picker.map(Box::new),
            health_check,
            name,
        };
        Some(CompiledCluster {
            cluster: Arc::new(cluster),
            settings,
            picker_settings: picker_settings.flatten(),
        })
    }

    /// The health check of a cluster that requests are sent to.
    fn health_check<'l>(
        &self,
        source: Source<'_>,
        place: TargetCluster,
        own: &'l Layer,
    ) -> Option<&'l model::HealthCheck> {
        let check = own.field(|spec| spec.health_check.as_ref())?;
        let is_used = self.users.of(place.index).next().is_some();
        (is_used && source.can_be_probed(check)).then_some(check)
    }

    /// The endpoints of a cluster, of which some may be preferred by where they are, unless a hash decides.
    fn local(
        &self,
        set: EndpointSet,
        (own, hash_decides): (&Layer, bool),
        locations: &Locations<'_>,
        before: Option<&Cluster>,
    ) -> EndpointSet {
        let locality = own.field(|spec| spec.balance.locality);
        let locality = locality.unwrap_or_default();
        let compiler = LocalityCompiler {
            place: self.place,
            mode: if hash_decides {
                LocalityMode::Off
            } else {
                locality.mode
            },
            spill: locality.spill,
            locations,
            before: before.and_then(|it| it.set.locality()),
        };
        compiler.compile(set)
    }

    /// By what its requests are spread.
    fn hash(&self, source: Source<'_>) -> Option<HashBalance> {
        let settings = HashSettings {
            model: self.model,
            policies: self.policies,
        };
        match source {
            Source::Port(service, _) => settings.of_service(&service.key),
            Source::Backend(backend) => settings.of_backend(&backend.key),
        }
    }

    fn retry_limit(&self, layers: &GatewayLayers<'_>) -> RetryLimit {
        let Some(constraint) = layers.field(|spec| spec.retry_constraint) else {
            let budget = layers.field(|spec| spec.retry_budget);
            return RetryLimit::InFlight(budget.unwrap_or(RETRY_BUDGET));
        };
        let min_rate = RetryRate {
            count: per_shard(constraint.min_rate.count, self.shards),
            ..constraint.min_rate
        };
        RetryLimit::Rate(Arc::new(RetryConstraint {
            min_rate,
            ..constraint
        }))
    }

    /// The endpoint picker of the pool of this name.
    fn picker(&mut self, pool: &str, picker: &model::Picker) -> (Picker, Option<SettingsId>) {
        let name: Arc<str> = format!("{pool} picker").into();
        let (settings, protection) = match &picker.tls {
            Some(tls) => self.tls.backend(&name, tls, None, self.shards),
            None => (None, Protection::Plain),
        };
        let address_states = members(&picker.members);
        let (id, set, endpoints, _) = self.endpoints(&name, settings, EJECTION, address_states);
        let limits = Limits::default();
        let cluster = Cluster {
            id,
            name,
            protection,
            protocol: Protocol::Http2,
            set,
            hashed: None,
            endpoints,
            connections_per_shard: per_shard(limits.upstream_connections, self.shards),
            endpoint_connections: None,
            endpoint_pending_per_shard: per_shard(limits.endpoint_pending, self.shards),
            pending_per_shard: per_shard(limits.upstream_pending, self.shards),
            proxy_protocol: None,
            retry_limit: RetryLimit::InFlight(RETRY_BUDGET),
            picker: None,
            health_check: None,
        };
        let picker = Picker {
            cluster,
            failure_mode: picker.failure_mode,
        };
        (picker, settings)
    }

    /// The id of the cluster of this name, and its endpoints, with where they are.
    fn endpoints<'m>(
        &mut self,
        name: &Arc<str>,
        settings: Option<SettingsId>,
        ejection: model::Ejection,
        address_states: BTreeMap<Address, AddressState<'m>>,
    ) -> (Interned, EndpointSet, Box<[Endpoint]>, Locations<'m>) {
        let id = self.ids.clusters.acquire(name);
        let mut endpoints = Vec::with_capacity(address_states.len());
        let mut members = Vec::with_capacity(address_states.len());
        let mut locations = Locations::default();
        for (address, state) in address_states {
            let mut endpoint = self.endpoint((id, settings, address), name, &state);
            endpoint.zone = locations.add(endpoint.id, state.location);
            let member = EndpointRef {
                id: endpoint.id,
                weight: state.weight,
            };
            members.push((member, state.health, endpoint.identity));
            endpoints.push(endpoint);
        }
        endpoints.sort_unstable_by_key(|endpoint| endpoint.id);
        let ejection = self.last.share(ejection);
        (
            id,
            EndpointSet::new(id, ejection, &members),
            endpoints.into(),
            locations,
        )
    }

    /// Its name, and how connections to it are protected.
    fn protection(
        &mut self,
        source: Source<'_>,
        place: TargetCluster,
    ) -> (Arc<str>, Option<SettingsId>, Protection) {
        let Some(tls) = source.tls() else {
            return (source.name().into(), None, Protection::Plain);
        };
        let shown: Option<&ClientCredential> = self.targets.shown(place);
        let name = match shown.and_then(|shown| shown.gateway.as_ref()) {
            Some(gateway) => format!("{} from {gateway}", source.name()),
            None => source.name(),
        };
        let name: Arc<str> = name.into();
        let own = match source {
            Source::Port(..) => None,
            Source::Backend(backend) => self
                .policies
                .of_backend(&backend.key)
                .field(|spec| spec.client_certificate.as_ref()),
        };
        let certificate: Option<&Certificate> =
            own.or_else(|| shown.and_then(|it| it.certificate.as_ref()));
        let (settings, protection) = self.tls.backend(&name, tls, certificate, self.shards);
        (name, settings, protection)
    }

    /// The addresses of a cluster, each once.
    fn address_states(&self, source: Source<'c>) -> BTreeMap<Address, AddressState<'c>> {
        let (service, port) = match source {
            Source::Port(service, port) => (service, port),
            Source::Backend(backend) => return hosts(&backend.hosts, self.resolved),
        };
        let workloads = self.index.workloads_of(&service.key);
        let workloads = workloads.filter_map(|key| self.model.workloads.get(key));
        let members = workloads.flat_map(|workload| {
            let serves = workload
                .serves
                .iter()
                .filter(|it| it.service == service.key);
            let serves = serves.filter(|it| it.port == port.port && it.transport == port.transport);
            serves.map(|it| (&**workload, it.target_port))
        });
        address_states(members)
    }

    /// An address of the cluster of this name.
    fn endpoint(&mut self, key: EndpointKey, cluster: &str, state: &AddressState<'_>) -> Endpoint {
        let text: Arc<str> = key.2.to_string().into();
        Endpoint {
            id: self.ids.endpoints.acquire(&key),
            address: key.2,
            identity: EndpointIdentity::new(cluster, &text),
            name: text,
            weight: state.weight,
            health: state.health,
            zone: None,
            probe: None,
        }
    }
}

/// The policies of a cluster, the nearest first: its own, then those of the Gateways that use it,
/// by name.
struct GatewayLayers<'a>(Vec<&'a Layer>);

impl<'a> GatewayLayers<'a> {
    fn field<T>(&self, field: impl Fn(&'a model::PolicySpec) -> Option<T>) -> Option<T> {
        // What a Gateway enforces comes before what the service sets.
        self.of(model::Precedence::Overrides, &field)
            .or_else(|| self.of(model::Precedence::Defaults, &field))
    }

    fn of<T>(
        &self,
        precedence: model::Precedence,
        field: impl Fn(&'a model::PolicySpec) -> Option<T>,
    ) -> Option<T> {
        self.0.iter().find_map(|layer| layer.of(precedence, &field))
    }

    /// The limits of connections: those of the nearest policies, within what Gateways enforce.
    fn limits(&self) -> Limits {
        let nearest = |limit: fn(&model::Limits) -> Option<NonZeroU32>| {
            self.of(model::Precedence::Defaults, |spec| limit(&spec.limits))
        };
        let given = model::Limits {
            upstream_connections: nearest(|limits| limits.upstream_connections),
            upstream_pending: nearest(|limits| limits.upstream_pending),
            endpoint_connections: nearest(|limits| limits.endpoint_connections),
            endpoint_pending: nearest(|limits| limits.endpoint_pending),
            ..model::Limits::default()
        };
        let bounds = self.0.iter().flat_map(|layer| layer.bounds());
        bounds.fold(Limits::default().with(&given), Limits::bounded_by)
    }
}

/// Weight and health of an address in its cluster, and where it is.
struct AddressState<'m> {
    weight: NonZeroU32,
    health: Health,
    location: Location<'m>,
}

/// A workload can be listed twice while it moves from one list to another: its better state counts.
fn address_states<'a>(
    members: impl Iterator<Item = (&'a Workload, NonZeroU16)>,
) -> BTreeMap<Address, AddressState<'a>> {
    let mut address_states = BTreeMap::new();
    for (workload, port) in members {
        let address = Address::Tcp(SocketAddr::new(workload.address, port.get()));
        let location = Location {
            node: workload.node.as_deref(),
            zone: workload.zone.as_deref(),
            hints: workload.hints.as_deref(),
        };
        record_state(&mut address_states, address, (workload.health, location));
    }
    address_states
}

/// Endpoints of pods. One that is listed twice gets the better of its two states.
fn members(members: &[Member]) -> BTreeMap<Address, AddressState<'static>> {
    let mut address_states = BTreeMap::new();
    for member in members {
        let address = Address::Tcp(SocketAddr::new(member.address, member.port.get()));
        let state = (member.health, Location::default());
        record_state(&mut address_states, address, state);
    }
    address_states
}

/// Records the state of an address, unless a better one is known.
fn record_state<'m>(
    address_states: &mut BTreeMap<Address, AddressState<'m>>,
    address: Address,
    (health, location): (Health, Location<'m>),
) {
    let state = address_states.entry(address).or_insert(AddressState {
        weight: NonZeroU32::MIN,
        health,
        location,
    });
    if preference(health) < preference(state.health) {
        (state.health, state.location) = (health, location);
    }
}

/// The smaller, the better.
fn preference(health: Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Draining => 1,
        Health::NotReady => 2,
    }
}

/// Hosts that resolve to the same address add their weights. Names that do not resolve have no
/// endpoints.
fn hosts<'m>(hosts: &'m Hosts, resolved: &Resolved) -> BTreeMap<Address, AddressState<'m>> {
    let mut address_states = BTreeMap::new();
    let mut add = |address, weight, zone| {
        let state: &mut AddressState<'_> = match address_states.entry(address) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let health = Health::Ready;
                let location = Location {
                    zone,
                    ..Location::default()
                };
                entry.insert(AddressState {
                    weight,
                    health,
                    location,
                });
                return;
            }
        };
        state.weight = state.weight.saturating_add(weight.get());
    };
    let tcp = |ip: IpAddr, port: NonZeroU16| Address::Tcp(SocketAddr::new(ip, port.get()));
    match hosts {
        Hosts::Static(hosts) => {
            for host in hosts {
                if let Some(socket) = socket(host, resolved) {
                    add(Address::Tcp(socket), host.weight, host.zone.as_deref());
                }
            }
        }
        Hosts::Dns { name, port, .. } => {
            for ip in resolved.addresses(name) {
                add(tcp(*ip, *port), NonZeroU32::MIN, None);
            }
        }
        Hosts::Unix { path } => add(Address::Unix(path.clone()), NonZeroU32::MIN, None),
        Hosts::Pool(pool) => return members(&pool.members),
    }
    address_states
}

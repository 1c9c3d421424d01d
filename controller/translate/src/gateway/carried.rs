//! The resources that a Gateway carries: binds, listeners, its client certificate, and its session keys.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use xds::model::{
    Bind, BindKey, ExternalAuth, Hostname, Listener as ModelListener, ListenerKey,
    ListenerProtocol, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, Resource, Transport,
};

use super::all_listeners::{JoinedListeners, socket};
use super::api::Gateway;
use super::listener::{Listener, ListenerWithConflicts};
use super::properties::GatewayProperties;
use super::protocol::Family;
use super::session_keys;
use super::socket as sockets;
use crate::backend::upstream::Destination;
use crate::budgets::closed_hosts::{Place, wider};
use crate::engine::emitted::Emitted;
use crate::engine::fact::Fact;
use crate::engine::outcome::Gateways;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::api::Resource as _;
use crate::objects::owner::Owner;
use crate::route::name::RouteKind;
use crate::status::problem::Problem;
use crate::units::{CarriedUnit, ClosedHostsUnit};

/// The resources that a Gateway carries.
#[derive(Debug, PartialEq)]
pub(crate) struct CarriedGateway {
    emitted: Emitted,
    /// The listeners that are carried.
    listeners: BTreeSet<ListenerKey>,
    /// Whether any of them has what it needs to serve.
    is_served: bool,
    /// The ListenerSets with a carried listener.
    sets: BTreeSet<ObjectName>,
    /// The authorization servers of its listeners.
    users: BTreeSet<(Destination, ObjectName)>,
    /// Why listeners have no socket: by object, and by index of the listener in it.
    unusable: HashMap<Owner, BTreeMap<usize, Problem>>,
    /// The host names of refused listeners for which there is no room, at the wider listeners that would get
    /// their requests, by namespace.
    left_open: BTreeMap<Arc<str>, BTreeSet<Place>>,
}

impl CarriedGateway {
    /// Whether it carries anything.
    pub(crate) fn is_carried(&self) -> bool {
        !self.listeners.is_empty()
    }
}

impl Unit for CarriedUnit {
    type Output = CarriedGateway;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<CarriedGateway> {
        let properties = reader.properties(&self.0)?;
        let joined = reader.joined(&self.0)?;
        let mut carried = CarriedGateway {
            emitted: Emitted::default(),
            listeners: BTreeSet::new(),
            is_served: false,
            sets: BTreeSet::new(),
            users: BTreeSet::new(),
            unusable: HashMap::new(),
            left_open: BTreeMap::new(),
        };
        let mut resources = Vec::new();
        for owner in &joined.owners {
            self.of_owner(
                reader,
                (properties, joined, owner),
                &mut carried,
                &mut resources,
            );
        }
        carried.left_open = self.keep_host_names(reader, properties, joined, &mut resources);
        if carried.is_carried()
            && let Some(Ok(certificate)) = &properties.client_certificate
        {
            resources.push(client_certificate(&self.0, certificate).into());
        }
        let keys = reader
            .session_keys(&self.0)
            .filter(|_| carried.is_carried());
        resources.extend(keys.map(|keys| session_keys::policy(&self.0, keys).into()));
        let gateways: Gateways = [self.0.clone()].into();
        let resources = resources.into_iter();
        let resources = resources.map(|resource| (resource, Arc::clone(&gateways)));
        carried.emitted = Emitted::new(resources.collect());
        Some(carried)
    }

    fn publish(
        &self,
        old: Option<&CarriedGateway>,
        new: Option<&CarriedGateway>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&'_ CarriedGateway>| it.map(|it| it.emitted.clone());
        let (before, after) = (emitted(old), emitted(new));
        Emitted::publish(before.as_ref(), after.as_ref(), changes.outcome);
        let state = |it: Option<&CarriedGateway>| it.map(|it| (it.is_carried(), it.is_served));
        if state(old) != state(new) {
            changes.fact(Fact::Carried(self.0.clone()));
        }
        let none = CarriedGateway {
            emitted: Emitted::default(),
            listeners: BTreeSet::new(),
            is_served: false,
            sets: BTreeSet::new(),
            users: BTreeSet::new(),
            unusable: HashMap::new(),
            left_open: BTreeMap::new(),
        };
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        changes.users(old.users.iter(), new.users.iter());
        if old.left_open != new.left_open {
            changes.run(ClosedHostsUnit(self.0.clone()));
        }
        for listener in old.listeners.symmetric_difference(&new.listeners) {
            changes.fact(Fact::CarriedListener(listener.clone()));
        }
        for set in old.sets.symmetric_difference(&new.sets) {
            changes.fact(Fact::CarriedSet(set.clone()));
        }
        let owners: BTreeSet<&Owner> = old.unusable.keys().chain(new.unusable.keys()).collect();
        for owner in owners {
            if old.unusable.get(owner) != new.unusable.get(owner) {
                changes.fact(Fact::Unusable(owner.clone()));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.gateways.contains_key(&self.0)
    }
}

impl CarriedUnit {
    fn of_owner(
        &self,
        reader: &UnitReader<'_>,
        (properties, joined, owner): (&GatewayProperties, &JoinedListeners, &Owner),
        carried: &mut CarriedGateway,
        resources: &mut Vec<Resource>,
    ) {
        let (Some(declared), Some(conflicts)) =
            (reader.listeners(owner), joined.conflicts.get(owner))
        else {
            return;
        };
        let listeners = declared.list.iter().zip(&**conflicts);
        for (place, (listener, conflicts)) in listeners.enumerate() {
            let is_active = properties.is_carried && listener.is_claimed(conflicts);
            let unusable = is_active.then(|| self.unusable(reader, listener)).flatten();
            let resolved = ListenerWithConflicts {
                listener,
                conflicts,
                unusable: unusable.as_ref(),
            };
            if properties.is_carried && resolved.is_carried() {
                self.carry(properties, listener, carried, resources);
            }
            if let Some(problem) = unusable {
                let problems = carried.unusable.entry(owner.clone()).or_default();
                problems.insert(place, problem);
            }
        }
    }

    /// Why a listener of a machine has no socket.
    fn unusable(&self, reader: &UnitReader<'_>, listener: &Listener) -> Option<Problem> {
        if !reader.is_machine() {
            return None;
        }
        let port = (self.0.clone(), listener.offer.port);
        let holder = reader.socket_holder(socket(listener.protocol?, listener), &port)?;
        Some(sockets::problem(holder, &self.0, listener))
    }

    /// Lets listeners that are not carried reject their requests, on binds that other listeners
    /// have. Of those beyond a limit, the oldest do, as many as the limit of listeners again. Returns the
    /// host names of the others, at the listeners that get their requests.
    fn keep_host_names(
        &self,
        reader: &UnitReader<'_>,
        properties: &GatewayProperties,
        joined: &JoinedListeners,
        resources: &mut Vec<Resource>,
    ) -> BTreeMap<Arc<str>, BTreeSet<Place>> {
        let mut places = Places::of(resources);
        let mut over_limit = 0;
        let mut left_open: BTreeMap<Arc<str>, BTreeSet<Place>> = BTreeMap::new();
        for owner in &joined.owners {
            let declared = reader.listeners(owner).map(|declared| &*declared.list);
            let conflicts = joined.conflicts.get(owner).map_or(&[][..], |it| &**it);
            let listeners = declared.unwrap_or_default().iter().zip(conflicts);
            for (listener, conflicts) in listeners {
                let Some(protocol) = listener.refusing() else {
                    continue;
                };
                let cost = u64::from(conflicts.over_limit.is_some());
                let bind = self.bind_of(listener, &protocol);
                if over_limit + cost > properties.max_set_listeners {
                    if let Some(place) = places.wider(&bind, &protocol, listener) {
                        let namespace = Arc::clone(&owner.name().namespace);
                        left_open.entry(namespace).or_default().insert(place);
                    }
                } else if places.take(bind, &protocol, listener) {
                    over_limit += cost;
                    self.emit(properties, listener, (&protocol, &[]), resources);
                }
            }
        }
        left_open
    }

    fn bind_of(&self, listener: &Listener, protocol: &ListenerProtocol) -> BindKey {
        BindKey::new(protocol.transport(), listener.offer.port.get(), &self.0)
    }

    fn carry(
        &self,
        properties: &GatewayProperties,
        listener: &Listener,
        carried: &mut CarriedGateway,
        resources: &mut Vec<Resource>,
    ) {
        let Some(protocol) = &listener.carried else {
            return;
        };
        let protocol = (protocol, &*listener.external_auth);
        self.emit(properties, listener, protocol, resources);
        let servers = listener.external_auth.iter();
        let servers = servers.filter_map(|it| Destination::of(&it.target, Transport::Tcp));
        let users = servers.map(|server| (server, self.0.clone()));
        carried.users.extend(users);
        carried.is_served |= listener.has_certificate();
        carried.listeners.insert(listener.offer.key.clone());
        if let Owner::ListenerSet(set) = &listener.owner {
            carried.sets.insert(set.clone());
        }
    }

    fn emit(
        &self,
        properties: &GatewayProperties,
        listener: &Listener,
        (protocol, external_auth): (&ListenerProtocol, &[ExternalAuth]),
        resources: &mut Vec<Resource>,
    ) {
        let (offer, gateway) = (&listener.offer, &self.0);
        let transport = protocol.transport();
        let bind = self.bind_of(listener, protocol);
        let address = properties.addresses.bind;
        let of_bind = Bind {
            key: bind.clone(),
            address,
            port: listener.socket_port,
            transport,
            gateway: gateway.clone(),
        };
        resources.push(of_bind.into());
        let lowered = ModelListener {
            key: offer.key.clone(),
            bind,
            gateway: gateway.clone(),
            name: offer.name.clone(),
            hostname: offer.hostname.clone(),
            protocol: protocol.clone(),
            external_auth: external_auth.to_vec(),
        };
        resources.push(lowered.into());
    }
}

/// The host names of the listeners of each bind.
#[derive(Default)]
struct Places {
    families: HashMap<BindKey, Family>,
    hosts: HashSet<(BindKey, Option<Hostname>)>,
    /// The listeners that serve.
    serving: HashMap<(BindKey, Option<Hostname>), (ListenerKey, RouteKind)>,
}

impl Places {
    fn of(resources: &[Resource]) -> Self {
        let mut places = Self::default();
        for resource in resources {
            if let Resource::Listener(listener) = resource {
                let family = Family::of(&listener.protocol);
                places.families.insert(listener.bind.clone(), family);
                let host = (listener.bind.clone(), listener.hostname.clone());
                let kind = match listener.protocol {
                    ListenerProtocol::Http | ListenerProtocol::Https(_) => Some(RouteKind::Http),
                    ListenerProtocol::TlsPassthrough => Some(RouteKind::Tls),
                    // Its routes are not told apart by host names.
                    ListenerProtocol::Tls(_) | ListenerProtocol::Tcp | ListenerProtocol::Udp => {
                        None
                    }
                };
                if let Some(kind) = kind {
                    let serving = (listener.key.clone(), kind);
                    places.serving.insert(host.clone(), serving);
                }
                places.hosts.insert(host);
            }
        }
        places
    }

    /// Whether a listener gets its host name, because its bind is there and no other has it.
    fn take(&mut self, bind: BindKey, protocol: &ListenerProtocol, listener: &Listener) -> bool {
        let shares = self.families.get(&bind) == Some(&Family::of(protocol));
        let host = (bind, listener.offer.hostname.clone());
        shares && self.hosts.insert(host)
    }

    /// The host name of a listener at the one that gets its requests, if one serves them.
    fn wider(
        &self,
        bind: &BindKey,
        protocol: &ListenerProtocol,
        listener: &Listener,
    ) -> Option<Place> {
        let host = listener.offer.hostname.as_ref()?;
        let own = (bind.clone(), Some(host.clone()));
        if self.families.get(bind) != Some(&Family::of(protocol)) || self.hosts.contains(&own) {
            return None;
        }
        let mut wider = wider(host).map(Some).chain([None]);
        let (listener, kind) =
            wider.find_map(|host| self.serving.get(&(bind.clone(), host)).cloned())?;
        let host = Some(host.clone());
        Some(Place {
            kind,
            listener,
            host,
        })
    }
}

/// The Gateway's client certificate for backends.
fn client_certificate(gateway: &ObjectName, certificate: &xds::model::Certificate) -> Policy {
    let target = format!("{}/{gateway}", Gateway::KIND);
    Policy {
        key: PolicyKey::new(Gateway::KIND.name(), gateway, &target),
        target: PolicyTarget::Gateway(gateway.clone()),
        spec: PolicySpec {
            client_certificate: Some(certificate.clone()),
            ..PolicySpec::default()
        },
    }
}

impl<'a> UnitReader<'a> {
    /// The host names that refused listeners leave to wider ones, by namespace. [`CarriedUnit`] has
    /// [`ClosedHostsUnit`] run when they change.
    pub(crate) fn hosts_left_open(
        &self,
        gateway: &ObjectName,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a BTreeSet<Place>)> {
        let carried = self.tables.get(&CarriedUnit(gateway.clone()));
        carried.into_iter().flat_map(|it| &it.left_open)
    }

    /// Whether any listener of a Gateway is carried.
    pub(crate) fn is_carried(&self, gateway: &ObjectName) -> bool {
        self.depend_on(Fact::Carried(gateway.clone()));
        let carried = self.tables.get(&CarriedUnit(gateway.clone()));
        carried.is_some_and(CarriedGateway::is_carried)
    }

    /// Whether any listener of a Gateway has what it needs to serve.
    pub(crate) fn has_served_listener(&self, gateway: &ObjectName) -> bool {
        self.depend_on(Fact::Carried(gateway.clone()));
        let carried = self.tables.get(&CarriedUnit(gateway.clone()));
        carried.is_some_and(|carried| carried.is_served)
    }

    /// The Gateway that carries a listener of an object.
    pub(crate) fn carries_listener(&self, gateway: &ObjectName, listener: &ListenerKey) -> bool {
        self.depend_on(Fact::CarriedListener(listener.clone()));
        let carried = self.tables.get(&CarriedUnit(gateway.clone()));
        carried.is_some_and(|carried| carried.listeners.contains(listener))
    }

    /// Whether any listener of a ListenerSet is carried by a Gateway.
    pub(crate) fn carries_set(&self, gateway: &ObjectName, set: &ObjectName) -> bool {
        self.depend_on(Fact::CarriedSet(set.clone()));
        let carried = self.tables.get(&CarriedUnit(gateway.clone()));
        carried.is_some_and(|carried| carried.sets.contains(set))
    }

    /// Why listeners of an object have no socket, by index.
    pub(crate) fn unusable(
        &self,
        gateway: &ObjectName,
        owner: &Owner,
    ) -> Option<&'a BTreeMap<usize, Problem>> {
        self.depend_on(Fact::Unusable(owner.clone()));
        let carried = self.tables.get(&CarriedUnit(gateway.clone()))?;
        carried.unusable.get(owner)
    }
}

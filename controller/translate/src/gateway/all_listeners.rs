//! A Gateway with the listeners of its ListenerSets: conflicts among them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{ObjectName, Transport};

use super::api::{Gateway, ListenerSet};
use super::listener::{Listener, ListenerConflicts};
use super::listener_limit::ListenerLimit;
use super::listeners_unit::DeclaredListeners;
use super::properties::GatewayProperties;
use super::protocol::Protocol;
use super::socket::SocketRank;
use super::{conflict, overlap, set_certificates, taking};
use crate::budgets::{Budget, Use};
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::status::problem::Problem;
use crate::units::{GatewayUnit, SocketUnit};

/// The conflicts among a Gateway's listeners.
#[derive(Debug, PartialEq)]
pub(crate) struct JoinedListeners {
    /// The Gateway itself, then its ListenerSets, oldest first.
    pub(crate) owners: Vec<Owner>,
    /// The conflicts of each owner's listeners.
    pub(crate) conflicts: HashMap<Owner, Arc<[ListenerConflicts]>>,
    /// The limits of listeners that are exceeded.
    pub(crate) over_limit: Vec<Problem>,
    /// On a machine, the claimed sockets.
    sockets: Vec<SocketClaim>,
    uses: Vec<(Budget, Use)>,
}

impl JoinedListeners {
    /// Whether other units read the same of it: not what is used of budgets, which changes with each
    /// certificate.
    fn is_read_as(&self, other: &Self) -> bool {
        (&self.owners, &self.conflicts, &self.over_limit)
            == (&other.owners, &other.conflicts, &other.over_limit)
    }
}

type SocketClaim = ((Transport, NonZeroU16), SocketRank, IpAddr);

impl Unit for GatewayUnit {
    type Output = JoinedListeners;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<JoinedListeners> {
        let properties = reader.properties(&self.0)?;
        let owners = self.owners(reader);
        let listeners = owners.iter().flat_map(|(_, declared)| &declared.list);
        let listeners: Vec<&Listener> = listeners.collect();
        let mut conflicts = listener_conflicts(&listeners);
        let limit = ListenerLimit::of(&self.0, properties);
        let mut room = limit.check(&listeners, &mut conflicts, || serving(reader, &owners));
        let limits = &reader.options().budgets;
        let certificates =
            set_certificates::refuse(&self.0, limits, &listeners, &mut conflicts, || {
                serving(reader, &owners)
            });
        room.problems.extend(certificates.problem);
        room.uses
            .push((Budget::SetCertificateBytes, certificates.used));
        let mut sockets = Vec::new();
        if reader.is_machine() && properties.is_carried {
            sockets = self.sockets(properties, &listeners, &conflicts);
        }
        let mut rest = conflicts.into_iter();
        let by_owner = owners.iter().map(|(owner, declared)| {
            let own = rest.by_ref().take(declared.list.len());
            (owner.clone(), own.collect())
        });
        Some(JoinedListeners {
            conflicts: by_owner.collect(),
            owners: owners.into_iter().map(|(owner, _)| owner).collect(),
            over_limit: room.problems,
            sockets,
            uses: room.uses,
        })
    }

    fn publish(
        &self,
        old: Option<&JoinedListeners>,
        new: Option<&JoinedListeners>,
        changes: &mut Changes<'_>,
    ) {
        let both = old.zip(new);
        if both.is_none_or(|(old, new)| !old.is_read_as(new)) {
            changes.fact(Fact::Gateway(self.0.clone()));
        }
        let uses = |it: Option<&JoinedListeners>| it.map(|it| it.uses.clone()).unwrap_or_default();
        changes.uses(&ObjectRef::of::<Gateway>(&self.0), &uses(old), &uses(new));
        let conflicts = |joined: Option<&'_ JoinedListeners>, owner: &Owner| {
            joined.and_then(|joined| joined.conflicts.get(owner).map(Arc::clone))
        };
        let owners = [old, new].into_iter().flatten().flat_map(|it| &it.owners);
        let changed: HashSet<&Owner> = owners
            .filter(|owner| conflicts(old, owner) != conflicts(new, owner))
            .collect();
        for owner in changed {
            changes.fact(Fact::ListenerConflicts(owner.clone()));
        }
        let claims = |joined: Option<&JoinedListeners>| -> Vec<SocketClaim> {
            joined
                .map(|joined| joined.sockets.clone())
                .unwrap_or_default()
        };
        let (before, after) = (claims(old).into_iter(), claims(new).into_iter());
        for (transport, port) in changes.claims.sockets.replace(before, after) {
            changes.run(SocketUnit(transport, port));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.gateways.contains_key(&self.0)
    }
}

impl GatewayUnit {
    /// The Gateway and its ListenerSets in order.
    fn owners<'a>(&self, reader: &UnitReader<'a>) -> Vec<(Owner, &'a DeclaredListeners)> {
        let sets = reader.sets(&self.0).filter_map(|set| {
            let owner = Owner::ListenerSet(set.clone());
            let declared = reader.listeners(&owner)?;
            let is_ours = declared.offers.gateway.as_ref() == Ok(&self.0);
            is_ours.then_some((owner, declared))
        });
        let mut sets: Vec<_> = sets.collect();
        // They are ordered by name, and the sort is stable.
        sets.sort_by_key(|(_, declared)| declared.created);
        let own = Owner::Gateway(self.0.clone());
        let declared = reader.listeners(&own);
        let own = declared.map(|declared| (own, declared));
        own.into_iter().chain(sets).collect()
    }

    fn sockets(
        &self,
        properties: &GatewayProperties,
        listeners: &[&Listener],
        conflicts: &[ListenerConflicts],
    ) -> Vec<SocketClaim> {
        let mut claims: Vec<SocketClaim> = Vec::new();
        let mut claimed = HashSet::new();
        for (index, (listener, conflicts)) in listeners.iter().zip(conflicts).enumerate() {
            let Some(protocol) = listener.protocol.filter(|_| listener.is_claimed(conflicts))
            else {
                continue;
            };
            let socket = socket(protocol, listener);
            let port = listener.offer.port;
            if claimed.insert((socket, port)) {
                let rank = (properties.created, self.0.clone(), index, port);
                claims.push((socket, rank, properties.addresses.bind));
            }
        }
        claims
    }
}

/// Which listeners served before, by their place among all: statuses record them. They are read only
/// where a limit is exceeded, since each write of them would run this again.
fn serving(reader: &UnitReader<'_>, owners: &[(Owner, &DeclaredListeners)]) -> Vec<bool> {
    let mut serving = Vec::new();
    for (owner, declared) in owners {
        let names = declared.list.iter().map(|listener| &*listener.offer.name);
        match owner {
            Owner::Gateway(name) => {
                let object = reader.object::<Gateway>(name);
                let is_serving =
                    |it| object.is_some_and(|object| object.status.accepted_before(it));
                serving.extend(names.map(is_serving));
            }
            Owner::ListenerSet(name) => {
                let object = reader.object::<ListenerSet>(name);
                // A changed set competes like a new one: its listeners may have other ports.
                let is_serving = |it| {
                    object.is_some_and(|object| {
                        let generation = object.metadata.generation();
                        object.status.accepted_in(generation, it)
                    })
                };
                serving.extend(names.map(is_serving));
            }
        }
    }
    serving
}

/// The socket of a listener.
pub(crate) fn socket(protocol: Protocol, listener: &Listener) -> (Transport, NonZeroU16) {
    (protocol.family().transport(), listener.socket_port)
}

fn listener_conflicts(listeners: &[&Listener]) -> Vec<ListenerConflicts> {
    let conflicts = conflict::conflicts_in_gateway(listeners);
    let accepted =
        |index: usize| listeners[index].refusals.is_empty() && conflicts[index].is_none();
    let overlaps = overlap::find(listeners, accepted);
    let taken = taking::find(listeners, accepted);
    let conflicts = conflicts.into_iter().zip(overlaps).zip(taken);
    conflicts
        .map(|((conflict, overlaps), taken)| ListenerConflicts {
            conflict,
            overlaps,
            taken,
            over_limit: None,
        })
        .collect()
}

impl<'a> UnitReader<'a> {
    /// The conflicts among all listeners of a Gateway.
    pub(crate) fn joined(&self, gateway: &ObjectName) -> Option<&'a JoinedListeners> {
        self.depend_on(Fact::Gateway(gateway.clone()));
        self.tables.get(&GatewayUnit(gateway.clone()))
    }

    /// The conflicts of an object's listeners in their Gateway.
    pub(crate) fn listener_conflicts(
        &self,
        gateway: &ObjectName,
        owner: &Owner,
    ) -> Option<&'a [ListenerConflicts]> {
        self.depend_on(Fact::ListenerConflicts(owner.clone()));
        let joined = self.tables.get(&GatewayUnit(gateway.clone()))?;
        joined.conflicts.get(owner).map(|conflicts| &**conflicts)
    }
}

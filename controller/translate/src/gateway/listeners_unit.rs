//! Resolves the listeners of one object, before conflicts.

use std::sync::Arc;

use xds::model::ObjectName;

use super::api;
use super::api::{Gateway, ListenerSet};
use super::listener::Listener;
use super::listener_set::{check_allowed, orphan};
use super::offer::ListenerOffers;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::status::problem::Problem;
use crate::units::ListenersUnit;

/// The resolved listeners of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct DeclaredListeners {
    /// Creation time of the object, as in [`ObjectMeta::created`](crate::objects::api::ObjectMeta::created).
    pub(crate) created: i64,
    /// `None` for a ListenerSet without a Gateway.
    pub(crate) list: Vec<Listener>,
    pub(crate) offers: Arc<ListenerOffers>,
}

impl Unit for ListenersUnit {
    type Output = DeclaredListeners;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<DeclaredListeners> {
        match &self.0 {
            Owner::Gateway(name) => {
                let object = reader.object::<Gateway>(name)?;
                let created = object.metadata.created();
                self.declared(reader, created, Ok(name.clone()), &object.spec.listeners)
            }
            Owner::ListenerSet(name) => {
                let object = reader.object::<ListenerSet>(name)?;
                let created = object.metadata.created();
                let gateway = gateway_of(reader, name, object)?;
                self.declared(reader, created, gateway, &object.spec.listeners)
            }
        }
    }

    fn publish(
        &self,
        old: Option<&DeclaredListeners>,
        new: Option<&DeclaredListeners>,
        changes: &mut Changes<'_>,
    ) {
        changes.fact(Fact::Listeners(self.0.clone()));
        let offers = |it: Option<&DeclaredListeners>| it.map(|it| Arc::clone(&it.offers));
        if offers(old) != offers(new) {
            changes.fact(Fact::ListenerOffers(self.0.clone()));
        }
        if let Owner::ListenerSet(name) = &self.0 {
            let there = (old.is_some(), new.is_some());
            changes.ours(&ObjectRef::of::<ListenerSet>(name), there);
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let store = &state.objects.store;
        match &self.0 {
            Owner::Gateway(name) => store.gateways.contains_key(name),
            Owner::ListenerSet(name) => store.listener_sets.contains_key(name),
        }
    }
}

impl ListenersUnit {
    fn declared(
        &self,
        reader: &UnitReader<'_>,
        created: i64,
        gateway: Result<ObjectName, Problem>,
        specs: &[api::Listener],
    ) -> Option<DeclaredListeners> {
        let list: Vec<Listener> = match &gateway {
            Ok(gateway) => {
                let clients = &reader.terms(gateway)?.clients;
                let specs = specs.iter().enumerate();
                specs
                    .map(|(index, spec)| Listener::resolve(reader, &self.0, clients, index, spec))
                    .collect()
            }
            Err(_) => Vec::new(),
        };
        let listeners = list.iter().map(|it| Arc::clone(&it.offer)).collect();
        Some(DeclaredListeners {
            created,
            list,
            offers: Arc::new(ListenerOffers { gateway, listeners }),
        })
    }
}

/// The Gateway that accepts a ListenerSet, or why none does. In a cluster, `None` if another
/// controller has to report it.
fn gateway_of(
    reader: &UnitReader<'_>,
    name: &ObjectName,
    object: &ListenerSet,
) -> Option<Result<ObjectName, Problem>> {
    let found = object.gateway();
    let found = found.and_then(|gateway| Some((reader.terms(&gateway)?, gateway)));
    match found {
        Some((terms, gateway)) => {
            let allowed = check_allowed(reader, &gateway, terms, name);
            Some(allowed.map(|()| gateway))
        }
        None => reader.is_machine().then(|| {
            let gateway = object.gateway();
            let is_missing = |it: &ObjectName| reader.object::<Gateway>(it).is_none();
            Err(orphan(object, gateway.as_ref().is_some_and(is_missing)))
        }),
    }
}

impl<'a> UnitReader<'a> {
    /// The listeners of an object.
    pub(crate) fn listeners(&self, owner: &Owner) -> Option<&'a DeclaredListeners> {
        self.depend_on(Fact::Listeners(owner.clone()));
        self.tables.get(&ListenersUnit(owner.clone()))
    }

    /// The offers of an object to routes.
    pub(crate) fn offers(&self, owner: &Owner) -> Option<&'a ListenerOffers> {
        self.depend_on(Fact::ListenerOffers(owner.clone()));
        let listeners = self.tables.get(&ListenersUnit(owner.clone()))?;
        Some(&listeners.offers)
    }
}

//! ListenerSets: which Gateway each brings its listeners to, and whether it may.

use xds::model::ObjectName;

use super::World;
use super::gateway::{Gateway, Gateways};
use super::listener::{Listener, Owner, allowed_namespaces};
use crate::api::{self, Resource as _};
use crate::options::Place;
use crate::problem::Problem;
use crate::status::Reason;

/// A ListenerSet. Its listeners are among those of its Gateway, after the Gateway's own.
pub(crate) struct ListenerSet<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a api::ListenerSet,
    /// Its Gateway, by its place in the list, or why there is none for it.
    pub(crate) gateway: Result<usize, Problem>,
}

impl<'a> ListenerSet<'a> {
    /// Those of its listeners that its Gateway has taken.
    pub(crate) fn listeners<'g>(
        &self,
        gateways: &'g Gateways<'a>,
    ) -> impl Iterator<Item = &'g Listener<'a>> + use<'a, 'g> {
        let gateway = self.gateway.as_ref().ok();
        let gateway = gateway.map(|&position| &gateways.list[position]);
        let owner = Owner::ListenerSet(self.name);
        let listeners = gateway.into_iter().flat_map(|gateway| &gateway.listeners);
        listeners.filter(move |listener| listener.owner == owner)
    }
}

/// Brings the listeners of all sets to their Gateways, those of the oldest set first.
pub(crate) fn attach<'a>(
    world: &World<'a>,
    gateways: &mut [Gateway<'a>],
    position: impl Fn(&str, &str) -> Option<usize>,
) -> Vec<ListenerSet<'a>> {
    let mut by_age: Vec<_> = world.store.listener_sets.iter().collect();
    by_age.sort_by_key(|(name, object)| (object.metadata.created(), *name));
    let mut sets = Vec::with_capacity(by_age.len());
    for (name, object) in by_age {
        let parent = &object.spec.parent_ref;
        let namespace = parent.namespace.as_deref().unwrap_or(&name.namespace);
        let is_gateway =
            (&*parent.group, &*parent.kind) == (api::Gateway::GROUP, api::Gateway::KIND);
        let found = position(namespace, &parent.name).filter(|_| is_gateway);
        let gateway = match found {
            Some(found) => check_allowed(world, &gateways[found], name).map(|()| found),
            None => match world.options.place {
                Place::Machine { .. } => Err(orphan(parent, namespace)),
                Place::Cluster { .. } => continue,
            },
        };
        if let Ok(position) = gateway {
            add_listeners(world, &mut gateways[position], name, object);
        }
        sets.push(ListenerSet {
            name,
            object,
            gateway,
        });
    }
    sets
}

fn check_allowed(
    world: &World<'_>,
    gateway: &Gateway<'_>,
    set: &ObjectName,
) -> Result<(), Problem> {
    let allowed = &gateway.object.spec.allowed_listeners.namespaces;
    let own = &gateway.name.namespace;
    let namespaces = allowed_namespaces(world, own, allowed.from, allowed.selector.as_ref());
    if namespaces.allow(&set.namespace) {
        return Ok(());
    }
    let message = format!(
        "Gateway {} takes no ListenerSets from namespace `{}`: see its allowedListeners",
        gateway.name, set.namespace
    );
    Err(Problem::new(Reason::NotAllowed, "spec.parentRef", message))
}

/// On one machine nobody else could answer for it, so the user hears of it from us.
fn orphan(parent: &api::ParentGatewayReference, namespace: &str) -> Problem {
    let message = format!(
        "{} {namespace}/{} is not served here: refer to a Gateway that is",
        parent.kind, parent.name
    );
    Problem::new(Reason::ParentNotAccepted, "spec.parentRef", message)
}

fn add_listeners<'a>(
    world: &World<'a>,
    gateway: &mut Gateway<'a>,
    name: &'a ObjectName,
    object: &'a api::ListenerSet,
) {
    let owner = Owner::ListenerSet(name);
    let listeners = object.spec.listeners.iter().enumerate();
    let validation = &gateway.validation;
    let resolved: Vec<_> = listeners
        .map(|(index, spec)| Listener::resolve(world, owner, validation, index, spec))
        .collect();
    gateway.listeners.extend(resolved);
}

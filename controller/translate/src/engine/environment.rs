//! Changes of the environment, which no object contains.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::ObjectName;

use super::Event;
use super::fact::Fact;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::options::{Environment, ListenerLimits, Options};

/// Applies an event to the options. Returns the fact that it changed.
pub(crate) fn change(options: &mut Options, event: Event) -> Option<Fact> {
    let environment = &mut options.environment;
    match (event, environment) {
        (Event::MachineAddresses(new), Environment::Machine { addresses }) => {
            let is_changed = *addresses != new;
            *addresses = new;
            is_changed.then_some(Fact::MachineAddresses())
        }
        (Event::AssignedAddresses(gateway, addresses), Environment::Cluster { assigned, .. }) => {
            if addresses.is_empty() {
                assigned.remove(&gateway);
            } else {
                assigned.insert(gateway.clone(), addresses);
            }
            Some(Fact::AssignedAddresses(gateway))
        }
        (Event::SessionKeys(gateway, new), Environment::Cluster { session_keys, .. }) => {
            let is_changed = replace(session_keys, gateway.clone(), new.as_ref());
            is_changed.then_some(Fact::SessionKeys(gateway))
        }
        (Event::Parameters(name, exists), Environment::Cluster { parameters, .. }) => {
            let is_changed = include(parameters, name.clone(), exists);
            is_changed.then_some(Fact::Exists(ObjectRef::new(
                ObjectKind::GatewayParameters,
                &name,
            )))
        }
        (Event::ListenerLimits(name, new), Environment::Cluster { limits, .. }) => {
            let new = (new != ListenerLimits::default()).then_some(new);
            let is_changed = replace(limits, name.clone(), new.as_ref());
            is_changed.then_some(Fact::ListenerLimits(name))
        }
        (
            Event::ClassParameters(class, new),
            Environment::Cluster {
                class_parameters, ..
            },
        ) => {
            let is_changed = replace(class_parameters, class.clone(), new.as_ref());
            is_changed.then(|| Fact::ClassParameters(class.into()))
        }
        (Event::TrustBundles(new), environment) => environment
            .set_trust_bundles(new)
            .then_some(Fact::TrustBundles()),
        (Event::Class(name, is_ours), _) => {
            let is_changed = include(&mut options.classes, name.clone(), is_ours);
            is_changed.then(|| {
                Fact::Exists(ObjectRef::new(
                    ObjectKind::GatewayClass,
                    &ObjectName::new("", &name),
                ))
            })
        }
        // Of the other environment, or of an object.
        _ => None,
    }
}

/// Adds an element to a set, or removes it. Returns whether the set changed.
fn include<T: Ord>(set: &mut BTreeSet<T>, item: T, is_in: bool) -> bool {
    if is_in {
        set.insert(item)
    } else {
        set.remove(&item)
    }
}

/// Sets a value of a map, or removes it. Returns whether the map changed.
fn replace<K: Ord, V: Clone + PartialEq>(
    map: &mut BTreeMap<K, V>,
    key: K,
    new: Option<&V>,
) -> bool {
    let old = match new {
        Some(new) => map.insert(key, new.clone()),
        None => map.remove(&key),
    };
    old.as_ref() != new
}

//! The Gateways that are ours, with their listeners.

use std::collections::HashMap;

use xds::model::ObjectName;

use super::World;
use super::address::Addresses;
use super::conflict;
use super::listener::Listener;
use crate::api::{self, OWN_GROUP};
use crate::options::Place;
use crate::problem::Problem;
use crate::status::Reason;

/// A Gateway, and what is wrong with it.
pub(crate) struct Gateway<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a api::Gateway,
    pub(crate) listeners: Vec<Listener<'a>>,
    pub(crate) addresses: Addresses,
    /// Why it is refused as a whole.
    pub(crate) refusals: Vec<Problem>,
}

impl<'a> Gateway<'a> {
    fn resolve(world: &World<'a>, name: &'a ObjectName, object: &'a api::Gateway) -> Self {
        let listeners = object.spec.listeners.iter().enumerate();
        let mut listeners: Vec<_> = listeners
            .map(|(index, spec)| Listener::resolve(world, name, index, spec))
            .collect();
        conflict::within_gateway(&mut listeners);
        let mut addresses = Addresses::of(name, object, &world.options.place);
        let mut refusals = std::mem::take(&mut addresses.refusals);
        refusals.extend(check_parameters(name, object, &world.options.place).err());
        Self {
            name,
            object,
            listeners,
            addresses,
            refusals,
        }
    }

    /// Whether it is carried, if any of its listeners is.
    pub(crate) fn is_served(&self) -> bool {
        self.refusals.is_empty() && self.addresses.unusable.is_empty()
    }

    /// The listeners that requests come in by.
    pub(crate) fn programmed(&self) -> impl Iterator<Item = &Listener<'a>> {
        let served = self.is_served();
        self.listeners
            .iter()
            .filter(move |listener| served && listener.is_programmed())
    }
}

/// All Gateways that are ours.
pub(crate) struct Gateways<'a> {
    pub(crate) list: Vec<Gateway<'a>>,
    by_name: HashMap<(&'a str, &'a str), usize>,
}

impl<'a> Gateways<'a> {
    pub(crate) fn of(world: &World<'a>) -> Self {
        let ours = world.store.gateways.iter().filter(|(_, gateway)| {
            let class = &gateway.spec.gateway_class_name;
            world.options.classes.contains(class)
        });
        let mut list: Vec<_> = ours
            .map(|(name, object)| Gateway::resolve(world, name, object))
            .collect();
        if let Place::Machine { .. } = world.options.place {
            conflict::between_gateways(&mut list);
        }
        let names = list.iter().map(|gateway| gateway.name).enumerate();
        let by_name = names
            .map(|(index, name)| ((&*name.namespace, &*name.name), index))
            .collect();
        Self { list, by_name }
    }

    /// Where in the list a Gateway is.
    pub(crate) fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        self.by_name.get(&(namespace, name)).copied()
    }
}

fn check_parameters(
    name: &ObjectName,
    object: &api::Gateway,
    place: &Place,
) -> Result<(), Problem> {
    let infrastructure = object.spec.infrastructure.as_ref();
    let Some(reference) = infrastructure.and_then(|it| it.parameters_ref.as_ref()) else {
        return Ok(());
    };
    let fail = |message: String| {
        let field = "spec.infrastructure.parametersRef";
        Err(Problem::new(Reason::InvalidParameters, field, message))
    };
    if (&*reference.group, &*reference.kind) != (OWN_GROUP, PARAMETERS_KIND) {
        return fail(format!(
            "kind `{}` of group `{}` holds no parameters: refer to a {PARAMETERS_KIND} of group \
             {OWN_GROUP}",
            reference.kind, reference.group
        ));
    }
    let known = match place {
        Place::Machine { .. } => true,
        Place::Cluster { parameters, .. } => {
            parameters.contains(&ObjectName::new(&name.namespace, &reference.name))
        }
    };
    if known {
        Ok(())
    } else {
        fail(format!(
            "{PARAMETERS_KIND} {}/{} does not exist: create it",
            name.namespace, reference.name
        ))
    }
}

const PARAMETERS_KIND: &str = "GatewayParameters";

//! The Gateways that are ours, with their listeners.

use std::collections::HashMap;

use jiff::Timestamp;
use xds::model::{Certificate, ObjectName};

use super::World;
use super::address::Addresses;
use super::frontend::ClientValidation;
use super::listener::{Listener, Owner};
use super::listener_set::{self, ListenerSet};
use super::tls::note_expiry;
use super::{conflict, overlap};
use crate::api::{self, OWN_GROUP};
use crate::expiry::Expiries;
use crate::options::Place;
use crate::problem::Problem;
use crate::status::Reason;

/// A Gateway, and what is wrong with it.
pub(crate) struct Gateway<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a api::Gateway,
    /// Its own, then those of its ListenerSets in their order.
    pub(crate) listeners: Vec<Listener<'a>>,
    /// How its clients are judged.
    pub(crate) validation: ClientValidation,
    /// What it shows to backends, if it has something.
    pub(crate) client_certificate: Option<Result<Certificate, Problem>>,
    /// Whether that has expired.
    pub(crate) expiries: Expiries,
    pub(crate) addresses: Addresses,
    /// Why it is refused as a whole.
    pub(crate) refusals: Vec<Problem>,
}

impl<'a> Gateway<'a> {
    fn resolve(world: &World<'a>, name: &'a ObjectName, object: &'a api::Gateway) -> Self {
        let owner = Owner::Gateway(name);
        let validation = ClientValidation::of(world, name, &object.spec);
        let listeners = object.spec.listeners.iter().enumerate();
        let listeners = listeners
            .map(|(index, spec)| Listener::resolve(world, owner, &validation, index, spec))
            .collect();
        let mut addresses = Addresses::of(name, object, &world.options.place);
        let mut refusals = std::mem::take(&mut addresses.refusals);
        refusals.extend(check_parameters(name, object, &world.options.place).err());
        let mut expiries = Expiries::default();
        Self {
            name,
            object,
            listeners,
            validation,
            client_certificate: client_certificate(world, owner, object, &mut expiries),
            expiries,
            addresses,
            refusals,
        }
    }

    /// The listeners that it declares itself.
    pub(crate) fn own_listeners(&self) -> impl Iterator<Item = &Listener<'a>> {
        let own = Owner::Gateway(self.name);
        self.listeners.iter().filter(move |it| it.owner == own)
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
    by_name: Positions<'a>,
    /// The ListenerSets of our Gateways, the oldest first.
    pub(crate) sets: Vec<ListenerSet<'a>>,
    sets_by_name: Positions<'a>,
}

/// Places in a list, by namespace and name.
type Positions<'a> = HashMap<(&'a str, &'a str), usize>;

impl<'a> Gateways<'a> {
    pub(crate) fn of(world: &World<'a>) -> Self {
        let ours = world.store.gateways.iter().filter(|(_, gateway)| {
            let class = &gateway.spec.gateway_class_name;
            world.options.classes.contains(class)
        });
        let mut list: Vec<_> = ours
            .map(|(name, object)| Gateway::resolve(world, name, object))
            .collect();
        let by_name = positions(list.iter().map(|gateway| gateway.name));
        let sets = listener_set::attach(world, &mut list, |namespace, name| {
            by_name.get(&(namespace, name)).copied()
        });
        for gateway in &mut list {
            conflict::within_gateway(&mut gateway.listeners);
            overlap::mark(&mut gateway.listeners);
        }
        if let Place::Machine { .. } = world.options.place {
            conflict::between_gateways(&mut list);
        }
        let sets_by_name = positions(sets.iter().map(|set| set.name));
        Self {
            list,
            by_name,
            sets,
            sets_by_name,
        }
    }

    /// The ListenerSet of this name.
    pub(crate) fn set(&self, namespace: &str, name: &str) -> Option<&ListenerSet<'a>> {
        let position = self.sets_by_name.get(&(namespace, name))?;
        self.sets.get(*position)
    }

    /// When the first certificate expires that has not done so.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        let gateways = self.list.iter();
        let nexts = gateways.flat_map(|gateway| {
            let own = [gateway.expiries.next, gateway.validation.next_expiry()];
            let listeners = gateway.listeners.iter();
            listeners.map(|listener| listener.expiries.next).chain(own)
        });
        nexts.flatten().min()
    }

    /// Where in the list a Gateway is.
    pub(crate) fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        self.by_name.get(&(namespace, name)).copied()
    }
}

fn positions<'a>(names: impl Iterator<Item = &'a ObjectName>) -> Positions<'a> {
    let names = names.enumerate();
    names
        .map(|(index, name)| ((&*name.namespace, &*name.name), index))
        .collect()
}

/// What `spec.tls.backend` leads to.
fn client_certificate(
    world: &World<'_>,
    owner: Owner<'_>,
    object: &api::Gateway,
    expiries: &mut Expiries,
) -> Option<Result<Certificate, Problem>> {
    let backend = object.spec.tls.as_ref()?.backend.as_ref()?;
    let reference = backend.client_certificate_ref.as_ref()?;
    let found = owner.certificate(world, reference, Reason::InvalidClientCertificateRef);
    let field = "spec.tls.backend.clientCertificateRef";
    if let Ok(certificate) = &found {
        let whom = (owner, reference, "backends");
        note_expiry(world, whom, certificate, field, expiries);
    }
    Some(found.map_err(|problem| problem.under(field)))
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

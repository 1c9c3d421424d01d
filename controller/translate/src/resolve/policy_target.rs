//! What a policy's target references lead to.

use std::collections::{BTreeMap, HashMap};

use xds::model::{BackendKey, ObjectName, PolicyTarget, ServiceKey};

use super::World;
use super::gateway::Gateways;
use super::route::Route;
use crate::api::{
    Backend, Gateway, GrpcRoute, HttpRoute, ListenerSet, PolicyTargetReference, Resource, Service,
};
use crate::options::Place;
use crate::problem::Problem;
use crate::status::Reason;

/// Finds what policies aim at.
pub(crate) struct Targets<'t, 'a> {
    world: &'t World<'a>,
    gateways: &'t Gateways<'a>,
    routes: HashMap<(&'static str, &'t ObjectName), &'t Route<'a>>,
}

/// Why there is no target.
pub(crate) enum TargetError {
    /// Another controller answers for it.
    NotOurs,
    Problem(Problem),
}

type Found = Result<PolicyTarget, TargetError>;

impl<'t, 'a> Targets<'t, 'a> {
    pub(crate) fn of(
        world: &'t World<'a>,
        gateways: &'t Gateways<'a>,
        routes: &'t [Route<'a>],
    ) -> Self {
        let routes = routes.iter();
        Self {
            world,
            gateways,
            routes: routes
                .map(|route| ((route.kind, route.name), route))
                .collect(),
        }
    }

    /// Follows a reference of a policy in `namespace`.
    pub(crate) fn find(&self, namespace: &str, reference: &PolicyTargetReference) -> Found {
        let name = ObjectName::new(namespace, &reference.name);
        let section = reference.section_name.as_deref();
        let is = |group, kind| (&*reference.group, &*reference.kind) == (group, kind);
        if is(Gateway::GROUP, Gateway::KIND) {
            self.gateway(name, section)
        } else if is(ListenerSet::GROUP, ListenerSet::KIND) {
            self.listener_set(name, section)
        } else if is(HttpRoute::GROUP, HttpRoute::KIND) {
            self.route(&self.world.store.http_routes, name, section)
        } else if is(GrpcRoute::GROUP, GrpcRoute::KIND) {
            self.route(&self.world.store.grpc_routes, name, section)
        } else if is(Service::GROUP, Service::KIND) {
            whole(section)?;
            let there = self.world.store.services.contains_key(&name);
            let target = there.then(|| PolicyTarget::Service(ServiceKey::new(&name)));
            target.ok_or_else(|| not_found::<Service>(&name))
        } else if is(Backend::GROUP, Backend::KIND) {
            whole(section)?;
            let there = self.world.store.backends.contains_key(&name);
            let target = there.then(|| PolicyTarget::Backend(BackendKey::new(&name)));
            target.ok_or_else(|| not_found::<Backend>(&name))
        } else {
            let message = format!(
                "kind `{}` of group `{}` is no target: use Gateway, ListenerSet, HTTPRoute, \
                 GRPCRoute, Service or Backend",
                reference.kind, reference.group
            );
            let problem = Problem::new(Reason::Invalid, "kind", message);
            Err(TargetError::Problem(problem))
        }
    }

    fn gateway(&self, name: ObjectName, section: Option<&str>) -> Found {
        let Some(position) = self.gateways.position(&name.namespace, &name.name) else {
            let known = self.world.store.gateways.contains_key(&name);
            return Err(self.absent::<Gateway>(known, &name));
        };
        let Some(section) = section else {
            return Ok(PolicyTarget::Gateway(name));
        };
        let mut listeners = self.gateways.list[position].own_listeners();
        match listeners.find(|listener| listener.spec.name == section) {
            Some(listener) => Ok(PolicyTarget::Listener(listener.key.clone())),
            None => Err(no_section(format!(
                "Gateway {name} has no listener `{section}`"
            ))),
        }
    }

    fn listener_set(&self, name: ObjectName, section: Option<&str>) -> Found {
        let Some(set) = self.gateways.set(&name.namespace, &name.name) else {
            let known = self.world.store.listener_sets.contains_key(&name);
            return Err(self.absent::<ListenerSet>(known, &name));
        };
        let Some(section) = section else {
            return Ok(PolicyTarget::ListenerSet(name));
        };
        let mut listeners = set.listeners(self.gateways);
        match listeners.find(|listener| listener.spec.name == section) {
            Some(listener) => Ok(PolicyTarget::Listener(listener.key.clone())),
            None => Err(no_section(format!(
                "ListenerSet {name} has no listener `{section}`"
            ))),
        }
    }

    fn route<T: Resource>(
        &self,
        all: &BTreeMap<ObjectName, T>,
        object: ObjectName,
        section: Option<&str>,
    ) -> Found {
        let Some(route) = self.routes.get(&(T::KIND, &object)) else {
            return Err(self.absent::<T>(all.contains_key(&object), &object));
        };
        let kind = T::KIND.to_owned();
        let Some(section) = section else {
            return Ok(PolicyTarget::Route { kind, object });
        };
        let mut rules = route.rules.iter();
        if rules.any(|rule| rule.name == Some(section)) {
            let rule = section.to_owned();
            Ok(PolicyTarget::Rule { kind, object, rule })
        } else {
            let message = format!("{kind} {object} has no rule named `{section}`");
            Err(no_section(message))
        }
    }

    /// In a cluster, an object that is there and not ours is another controller's.
    fn absent<T: Resource>(&self, known: bool, name: &ObjectName) -> TargetError {
        match self.world.options.place {
            Place::Cluster { .. } if known => TargetError::NotOurs,
            _ if known => {
                let message = format!(
                    "{} {name} is not served here: see its own conditions",
                    T::KIND
                );
                TargetError::Problem(Problem::new(Reason::TargetNotFound, "name", message))
            }
            _ => not_found::<T>(name),
        }
    }
}

fn whole(section: Option<&str>) -> Result<(), TargetError> {
    if section.is_none() {
        return Ok(());
    }
    let message = "only Gateways and routes have sections: leave it out";
    let problem = Problem::new(Reason::Invalid, "sectionName", message);
    Err(TargetError::Problem(problem))
}

fn not_found<T: Resource>(name: &ObjectName) -> TargetError {
    let message = format!("{} {name} does not exist: create it", T::KIND);
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "name", message))
}

fn no_section(message: String) -> TargetError {
    let message = message + ": use one that it has, or leave sectionName out";
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "sectionName", message))
}

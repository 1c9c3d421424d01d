//! The parts that have to be compiled again after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{
    BindKey, Listener, ListenerKey, Model, ObjectName, PolicyTarget, Resource, Route, RouteKey,
};

use super::index::Index;

/// Parts of a configuration that have to be compiled again.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Binds whose listeners or settings may have changed.
    pub(super) binds: BTreeSet<BindKey>,
    pub(super) listeners: BTreeSet<ListenerKey>,
    /// By the listener that each is, or was, of.
    pub(super) routes: BTreeMap<ListenerKey, BTreeSet<RouteKey>>,
    pub(super) targets: BTreeSet<Arc<str>>,
    /// Whether the client certificate of a Gateway may have changed.
    pub(super) certificates: bool,
    /// Gateways with another policy.
    pub(super) gateways: BTreeSet<ObjectName>,
}

impl Dirty {
    /// Marks the dependents of a resource in a model that has it, or had it until now.
    pub(super) fn mark(&mut self, resource: &Resource, model: &Model, index: &Index) {
        match resource {
            Resource::Bind(bind) => {
                self.certificates = true;
                self.binds.insert(bind.key.clone());
                for listener in index.listeners_of(&bind.key) {
                    self.listener_with_routes(listener, index);
                }
            }
            Resource::Listener(listener) => {
                self.binds.insert(listener.bind.clone());
                self.listener_with_routes(&listener.key, index);
            }
            Resource::Route(route) => self.route(route),
            Resource::Service(service) => drop(self.targets.insert(service.key.to_shared())),
            Resource::Backend(backend) => drop(self.targets.insert(backend.key.to_shared())),
            Resource::Workload(workload) => {
                let services = workload.serves.iter().map(|it| it.service.to_shared());
                self.targets.extend(services);
            }
            Resource::Policy(policy) => self.target(&policy.target, model, index),
        }
    }

    pub(super) fn mark_all(&mut self, model: &Model) {
        self.binds
            .extend(model.binds.values().map(|it| it.key.clone()));
        for listener in model.listeners.values() {
            self.routes.entry(listener.key.clone()).or_default();
        }
        model.routes.values().for_each(|route| self.route(route));
        let services = model.services.values().map(|it| it.key.to_shared());
        self.targets.extend(services);
        let backends = model.backends.values().map(|it| it.key.to_shared());
        self.targets.extend(backends);
    }

    pub(super) fn route(&mut self, route: &Route) {
        let routes = self.routes.entry(route.listener.clone()).or_default();
        routes.insert(route.key.clone());
    }

    fn listener_with_routes(&mut self, listener: &ListenerKey, index: &Index) {
        self.listeners.insert(listener.clone());
        let routes = self.routes.entry(listener.clone()).or_default();
        routes.extend(index.routes_of(listener).cloned());
    }

    fn target(&mut self, target: &PolicyTarget, model: &Model, index: &Index) {
        match target {
            PolicyTarget::Gateway(gateway) => {
                self.certificates = true;
                self.gateways.insert(gateway.clone());
                let binds = model.binds.values().filter(|it| it.gateway == *gateway);
                self.binds.extend(binds.map(|it| it.key.clone()));
                self.matching(model, index, |it| it.gateway == *gateway);
            }
            PolicyTarget::ListenerSet(set) => {
                self.matching(model, index, |it| {
                    it.key.listener_set().as_ref() == Some(set)
                });
            }
            PolicyTarget::Listener(key) => self.matching(model, index, |it| it.key == *key),
            PolicyTarget::Route { kind, object } | PolicyTarget::Rule { kind, object, .. } => {
                self.routes_of(&format!("{kind}/{object}/"), model);
            }
            PolicyTarget::Service(key) => self.used(key.to_shared(), model, index),
            PolicyTarget::Backend(key) => self.used(key.to_shared(), model, index),
        }
    }

    fn matching(&mut self, model: &Model, index: &Index, is: impl Fn(&Listener) -> bool) {
        for listener in model.listeners.values().filter(|it| is(it)) {
            self.binds.insert(listener.bind.clone());
            self.listener_with_routes(&listener.key, index);
        }
    }

    /// The routes whose keys have this prefix.
    fn routes_of(&mut self, object: &str, model: &Model) {
        let routes = model.routes.starting_at(object);
        let routes = routes.take_while(|route| route.key.as_str().starts_with(object));
        routes.for_each(|route| self.route(route));
    }

    /// A service or backend, and the routes and listeners that name it.
    pub(super) fn used(&mut self, target: Arc<str>, model: &Model, index: &Index) {
        for key in index.users_of(&target) {
            if let Some(route) = model.routes.get(key) {
                self.route(route);
            }
        }
        for listener in index.referrers_of(&target) {
            self.routes.entry(listener.clone()).or_default();
        }
        self.targets.insert(target);
    }
}

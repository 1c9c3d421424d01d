//! The parts that have to be compiled again after a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{
    Attachment, BindKey, Listener, ListenerKey, Model, ObjectName, PolicyTarget, Resource, RouteKey,
};

use super::index::Index;

/// Parts of a configuration that have to be compiled again.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Binds whose listeners or settings may have changed.
    pub(super) binds: BTreeSet<BindKey>,
    pub(super) listeners: BTreeSet<ListenerKey>,
    /// Listeners that may have appeared or gone, or have other authorization servers.
    pub(super) changed_listeners: BTreeSet<ListenerKey>,
    /// Rules, each at all of its listeners: those whose settings are equal share it.
    pub(super) rules: BTreeSet<RouteKey>,
    /// Rules at listeners that they are no longer attached to.
    pub(super) detached: BTreeSet<(ListenerKey, RouteKey)>,
    pub(super) targets: BTreeSet<Arc<str>>,
    /// Whether the client certificate of a Gateway may have changed.
    pub(super) certificates: bool,
    /// Gateways with another policy.
    pub(super) gateways: BTreeSet<ObjectName>,
}

/// Whether it is a listener that was changed, and whose rules are as before: another certificate, say.
pub(super) fn stays_in_place(old: Option<&Resource>, new: Option<&Resource>) -> bool {
    match (old, new) {
        (Some(Resource::Listener(old)), Some(Resource::Listener(new))) => {
            (&old.bind, &old.gateway) == (&new.bind, &new.gateway)
        }
        _ => false,
    }
}

impl Dirty {
    /// Marks the dependents of a resource in a model that has it, or had it until now.
    pub(super) fn mark(&mut self, resource: &Resource, model: &Model, index: &Index) {
        match resource {
            Resource::Bind(bind) => {
                self.certificates = true;
                self.binds.insert(bind.key.clone());
                for listener in index.listeners_of(&bind.key) {
                    self.listener_with_rules(listener, index);
                }
            }
            Resource::Listener(listener) => {
                self.binds.insert(listener.bind.clone());
                self.listener_with_rules(&listener.key, index);
            }
            Resource::Route(route) => drop(self.rules.insert(route.key.clone())),
            Resource::Service(service) => drop(self.targets.insert(service.key.to_shared())),
            Resource::Backend(backend) => drop(self.targets.insert(backend.key.to_shared())),
            Resource::Workload(workload) => {
                let services = workload.serves.iter().map(|it| it.service.to_shared());
                self.targets.extend(services);
            }
            Resource::Policy(policy) => self.target(&policy.target, model, index),
        }
    }

    /// Marks a rule at the listeners that it leaves.
    pub(super) fn detach(&mut self, old: &Resource, new: Option<&Resource>) {
        let Resource::Route(old) = old else {
            return;
        };
        let now = match new {
            Some(Resource::Route(new)) if new.attachments == old.attachments => return,
            Some(Resource::Route(new)) => Some(&new.attachments),
            _ => None,
        };
        for Attachment { listener, .. } in old.attachments.iter() {
            if now.is_none_or(|now| now.find(listener).is_none()) {
                self.detached.insert((listener.clone(), old.key.clone()));
            }
        }
    }

    /// Marks a listener alone.
    pub(super) fn listener(&mut self, listener: &Listener) {
        self.binds.insert(listener.bind.clone());
        self.changed_listeners.insert(listener.key.clone());
    }

    pub(super) fn mark_all(&mut self, model: &Model) {
        self.binds
            .extend(model.binds.values().map(|it| it.key.clone()));
        let listeners = model.listeners.values().map(|it| it.key.clone());
        self.changed_listeners.extend(listeners);
        self.rules
            .extend(model.routes.values().map(|it| it.key.clone()));
        let services = model.services.values().map(|it| it.key.to_shared());
        self.targets.extend(services);
        let backends = model.backends.values().map(|it| it.key.to_shared());
        self.targets.extend(backends);
    }

    fn listener_with_rules(&mut self, listener: &ListenerKey, index: &Index) {
        self.changed_listeners.insert(listener.clone());
        self.rules.extend(index.routes_of(listener).cloned());
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
            PolicyTarget::Service(key) => self.used(key.to_shared(), index),
            PolicyTarget::Backend(key) => self.used(key.to_shared(), index),
        }
    }

    fn matching(&mut self, model: &Model, index: &Index, is: impl Fn(&Listener) -> bool) {
        for listener in model.listeners.values().filter(|it| is(it)) {
            self.binds.insert(listener.bind.clone());
            self.listener_with_rules(&listener.key, index);
        }
    }

    /// The routes whose keys have this prefix.
    fn routes_of(&mut self, object: &str, model: &Model) {
        let routes = model.routes.starting_at(object);
        let routes = routes.take_while(|route| route.key.as_str().starts_with(object));
        self.rules.extend(routes.map(|route| route.key.clone()));
    }

    /// A service or backend, and the routes and listeners that name it.
    pub(super) fn used(&mut self, target: Arc<str>, index: &Index) {
        self.rules.extend(index.users_of(&target).cloned());
        let referrers = index.referrers_of(&target).cloned();
        self.changed_listeners.extend(referrers);
        self.targets.insert(target);
    }
}

//! The parts that have to be compiled again after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{
    Attachment, BindKey, Listener, ListenerKey, Model, ObjectName, PolicyTarget, Resource, Route,
    RouteKey, SessionAffinity,
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
    pub(super) rules: BTreeMap<RouteKey, DirtyRule>,
    /// Rules at listeners that they are no longer attached to.
    pub(super) detached: BTreeSet<(ListenerKey, RouteKey)>,
    pub(super) targets: BTreeSet<Arc<str>>,
    /// Whether the client certificate of a Gateway may have changed.
    pub(super) certificates: bool,
    /// Gateways with another policy.
    pub(super) gateways: BTreeSet<ObjectName>,
}

/// Where a rule has to be compiled again.
#[derive(Debug, Default)]
pub(super) struct DirtyRule {
    pub(super) at: Affected,
    /// Whether its resource is another one, also where it need not be compiled again.
    pub(super) is_replaced: bool,
}

/// The listeners where a rule has to be compiled again.
#[derive(Debug)]
pub(super) enum Affected {
    /// All of its listeners: those whose settings are equal share it.
    All,
    /// These. At the others it is as before.
    Some(BTreeSet<ListenerKey>),
}

impl Default for Affected {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl Affected {
    pub(super) fn has(&self, listener: &ListenerKey) -> bool {
        match self {
            Self::All => true,
            Self::Some(listeners) => listeners.contains(listener),
        }
    }

    fn add(&mut self, listener: &ListenerKey) {
        if let Self::Some(listeners) = self {
            listeners.insert(listener.clone());
        }
    }
}

/// Whether it is a listener that was changed, and whose rules are as before: another certificate, say. Or a rule
/// that has other listeners, and is as before where it stays.
pub(super) fn stays_in_place(old: Option<&Resource>, new: Option<&Resource>) -> bool {
    match (old, new) {
        (Some(Resource::Listener(old)), Some(Resource::Listener(new))) => {
            (&old.bind, &old.gateway) == (&new.bind, &new.gateway)
        }
        (Some(Resource::Route(old)), Some(Resource::Route(new))) => {
            (old.created, &old.rule) == (new.created, &new.rule)
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
            Resource::Route(route) => self.everywhere(&route.key),
            Resource::Service(service) => {
                let key = service.key.to_shared();
                if service.session_affinity == SessionAffinity::None {
                    self.targets.insert(key);
                } else {
                    // Backends of a rule may be drawn by it.
                    self.used(key, model, index);
                }
            }
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

    /// Marks a rule that is as before at the listeners where it stays.
    pub(super) fn reattach(&mut self, old: &Route, new: &Route) {
        let dirty = self.rules.entry(new.key.clone()).or_default();
        dirty.is_replaced = true;
        for attachment in new.attachments.iter() {
            let before = old.attachments.find(&attachment.listener);
            if before.is_none_or(|(_, before)| before.hostnames != attachment.hostnames) {
                dirty.at.add(&attachment.listener);
            }
        }
    }

    /// Marks a rule at all of its listeners.
    fn everywhere(&mut self, rule: &RouteKey) {
        self.rules.entry(rule.clone()).or_default().at = Affected::All;
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
        for route in model.routes.values() {
            self.everywhere(&route.key);
        }
        let services = model.services.values().map(|it| it.key.to_shared());
        self.targets.extend(services);
        let backends = model.backends.values().map(|it| it.key.to_shared());
        self.targets.extend(backends);
    }

    fn listener_with_rules(&mut self, listener: &ListenerKey, index: &Index) {
        self.changed_listeners.insert(listener.clone());
        for rule in index.routes_of(listener) {
            let dirty = self.rules.entry(rule.clone()).or_default();
            dirty.at.add(listener);
        }
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
            self.listener_with_rules(&listener.key, index);
        }
    }

    /// The routes whose keys have this prefix.
    fn routes_of(&mut self, object: &str, model: &Model) {
        let routes = model.routes.starting_at(object);
        let routes = routes.take_while(|route| route.key.as_str().starts_with(object));
        routes.for_each(|route| self.everywhere(&route.key));
    }

    /// A service or backend, the routes and listeners that name it, and what has its error pages from it.
    pub(super) fn used(&mut self, target: Arc<str>, model: &Model, index: &Index) {
        for policy in index.policies_of(&target) {
            if let Some(policy) = model.policies.get(policy) {
                // Of requests, so that this ends.
                self.target(&policy.target, model, index);
            }
        }
        for rule in index.users_of(&target) {
            self.everywhere(rule);
        }
        let referrers = index.referrers_of(&target).cloned();
        self.changed_listeners.extend(referrers);
        self.targets.insert(target);
    }
}

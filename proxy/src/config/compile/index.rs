//! The dependencies within a model: from a resource to those that have to be recompiled when it
//! changes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use xds::model::{
    BindKey, Listener, ListenerKey, Policy, PolicyKey, PolicyTarget, Resource, Route, RouteKey,
    ServiceKey, Target, WorkloadKey,
};
use xds::small_map::SmallMap;

/// Children by their parent, which need not exist.
#[derive(Debug, Default)]
pub(super) struct Index {
    listeners: HashMap<BindKey, SmallMap<ListenerKey>>,
    routes: HashMap<ListenerKey, SmallMap<RouteKey>>,
    /// Routes by the key of a service or backend that they name.
    users: HashMap<Arc<str>, SmallMap<RouteKey>>,
    /// Listeners by the key of the service or backend of their authorization servers.
    referrers: HashMap<Arc<str>, SmallMap<ListenerKey>>,
    /// Policies by the key of the service or backend of their page servers.
    policies: HashMap<Arc<str>, SmallMap<PolicyKey>>,
    workloads: HashMap<ServiceKey, SmallMap<WorkloadKey>>,
}

impl Index {
    /// Adds a resource, given its previous version, which was removed.
    pub(super) fn add(&mut self, resource: &Resource, old: Option<&Resource>) {
        match resource {
            Resource::Listener(it) => {
                add(&mut self.listeners, &it.bind, &it.key);
                for target in servers(it) {
                    add(&mut self.referrers, &target, &it.key);
                }
            }
            Resource::Route(it) => {
                for listener in listeners_without(it, old) {
                    add(&mut self.routes, listener, &it.key);
                }
                for target in targets(it) {
                    add(&mut self.users, &target, &it.key);
                }
            }
            Resource::Workload(it) => {
                for serves in &it.serves {
                    add(&mut self.workloads, &serves.service, &it.key);
                }
            }
            Resource::Policy(it) => {
                for target in page_servers(it) {
                    add(&mut self.policies, &target, &it.key);
                }
            }
            Resource::Bind(_) | Resource::Service(_) | Resource::Backend(_) => {}
        }
    }

    /// Removes a resource, given the version that replaces it.
    pub(super) fn remove(&mut self, resource: &Resource, new: Option<&Resource>) {
        match resource {
            Resource::Listener(it) => {
                remove(&mut self.listeners, &it.bind, &it.key);
                for target in servers(it) {
                    remove(&mut self.referrers, &target, &it.key);
                }
            }
            Resource::Route(it) => {
                for listener in listeners_without(it, new) {
                    remove(&mut self.routes, listener, &it.key);
                }
                for target in targets(it) {
                    remove(&mut self.users, &target, &it.key);
                }
            }
            Resource::Workload(it) => {
                for serves in &it.serves {
                    remove(&mut self.workloads, &serves.service, &it.key);
                }
            }
            Resource::Policy(it) => {
                for target in page_servers(it) {
                    remove(&mut self.policies, &target, &it.key);
                }
            }
            Resource::Bind(_) | Resource::Service(_) | Resource::Backend(_) => {}
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
            && self.routes.is_empty()
            && self.users.is_empty()
            && self.referrers.is_empty()
            && self.policies.is_empty()
            && self.workloads.is_empty()
    }

    pub(super) fn listeners_of(&self, bind: &BindKey) -> impl Iterator<Item = &ListenerKey> {
        self.listeners
            .get(bind)
            .into_iter()
            .flat_map(SmallMap::keys)
    }

    pub(super) fn routes_of(&self, listener: &ListenerKey) -> impl Iterator<Item = &RouteKey> {
        self.routes
            .get(listener)
            .into_iter()
            .flat_map(SmallMap::keys)
    }

    pub(super) fn users_of(&self, target: &str) -> impl Iterator<Item = &RouteKey> {
        self.users.get(target).into_iter().flat_map(SmallMap::keys)
    }

    pub(super) fn referrers_of(&self, target: &str) -> impl Iterator<Item = &ListenerKey> {
        self.referrers
            .get(target)
            .into_iter()
            .flat_map(SmallMap::keys)
    }

    /// The policies that have their pages from a service or backend.
    pub(super) fn policies_of(&self, target: &str) -> impl Iterator<Item = &PolicyKey> {
        self.policies
            .get(target)
            .into_iter()
            .flat_map(SmallMap::keys)
    }

    pub(super) fn workloads_of(&self, service: &ServiceKey) -> impl Iterator<Item = &WorkloadKey> {
        self.workloads
            .get(service)
            .into_iter()
            .flat_map(SmallMap::keys)
    }
}

/// The listeners of a rule that another version of it does not have: the others stay in the index.
fn listeners_without<'a>(
    route: &'a Route,
    other: Option<&'a Resource>,
) -> impl Iterator<Item = &'a ListenerKey> {
    let others = match other {
        Some(Resource::Route(other)) => Some(&other.attachments),
        _ => None,
    };
    let listeners = route.attachments.iter().map(|it| &it.listener);
    listeners.filter(move |it| others.is_none_or(|others| others.find(it).is_none()))
}

/// The keys of the services and backends that a route names.
fn targets(route: &Route) -> impl Iterator<Item = Arc<str>> {
    route.rule.targets().filter_map(key)
}

/// The keys of the services and backends of a listener's authorization servers.
fn servers(listener: &Listener) -> impl Iterator<Item = Arc<str>> {
    let servers = listener.external_auth.iter();
    servers.filter_map(|auth| key(&auth.target))
}

/// The keys of the services and backends that a policy has pages from, where it has requests.
fn page_servers(policy: &Policy) -> impl Iterator<Item = Arc<str>> {
    let of_requests = match &policy.target {
        PolicyTarget::Service(_) | PolicyTarget::Backend(_) => None,
        _ => Some(policy.spec.page_servers()),
    };
    of_requests.into_iter().flatten().filter_map(key)
}

fn key(target: &Target) -> Option<Arc<str>> {
    match target {
        Target::Service { service, .. } => Some(service.to_shared()),
        Target::Backend(backend) => Some(backend.to_shared()),
        Target::Invalid { .. } => None,
    }
}

fn add<K: Eq + Hash + Clone, C: Ord + Clone>(
    map: &mut HashMap<K, SmallMap<C>>,
    parent: &K,
    child: &C,
) {
    map.entry(parent.clone())
        .or_default()
        .insert(child.clone(), ());
}

fn remove<K: Eq + Hash, C: Ord>(map: &mut HashMap<K, SmallMap<C>>, parent: &K, child: &C) {
    if let Some(children) = map.get_mut(parent) {
        children.remove(child);
        if children.is_empty() {
            map.remove(parent);
        }
    }
}

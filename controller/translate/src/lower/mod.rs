//! From what objects mean to the model: rules, backends, services and their workloads, binds and
//! listeners. Nothing is looked up here that `resolve` did not find first.

pub(crate) mod backend;
pub(crate) mod cors;
pub(crate) mod filters;
pub(crate) mod header_edit;
pub(crate) mod in_use;
pub(crate) mod matches;
pub(crate) mod policy;
pub(crate) mod rewrite;
pub(crate) mod rule;
pub(crate) mod service;
pub(crate) mod session;

use std::collections::HashSet;
use std::iter;

use xds::model::{
    BackendKey, Bind, BindKey, Listener, Model, Order, Policy, Route, RouteKey, ServiceKey, Target,
};

use crate::api::{self, Resource as _};
use crate::resolve::World;
use crate::resolve::gateway::Gateways;
use crate::resolve::http_route::HttpRoute;
use crate::resolve::policy::ResolvedPolicy;
use in_use::InUse;

/// Everything that carries traffic.
pub(crate) fn model(
    world: &World<'_>,
    gateways: &Gateways<'_>,
    routes: &mut [HttpRoute<'_>],
    policies: &[ResolvedPolicy<'_>],
) -> Model {
    let mut model = Model::default();
    add_listeners(&mut model, gateways);
    for route in routes {
        add_route(&mut model, route, gateways);
    }
    add_targets(&mut model, world);
    add_policies(&mut model, policies);
    model
}

fn add_listeners(model: &mut Model, gateways: &Gateways<'_>) {
    for gateway in &gateways.list {
        for listener in gateway.programmed() {
            let Some((protocol, transport)) = listener
                .protocol
                .and_then(|it| Some((it.carried?, it.family.transport())))
            else {
                continue;
            };
            let bind = BindKey::new(transport, listener.spec.port.get(), gateway.name);
            model.binds.entry(bind.clone()).or_insert_with(|| Bind {
                key: bind.clone(),
                address: gateway.addresses.bind,
                port: listener.port,
                transport,
                gateway: gateway.name.clone(),
            });
            let lowered = Listener {
                key: listener.key.clone(),
                bind,
                gateway: gateway.name.clone(),
                name: listener.spec.name.clone(),
                hostname: listener.hostname.clone(),
                protocol,
            };
            model.listeners.insert(listener.key.clone(), lowered);
        }
    }
}

/// One resource for each rule and listener. A rule that fails closed is carried even where the
/// route is refused for it. Takes the rules out of the route.
fn add_route(model: &mut Model, route: &mut HttpRoute<'_>, gateways: &Gateways<'_>) {
    if !route.refusals.is_empty() {
        return;
    }
    let attached = route
        .parents
        .iter()
        .filter_map(|it| it.attached.as_ref().ok());
    let attached = attached.flat_map(|(gateway, attachments)| {
        let listeners = &gateways.list[*gateway].listeners;
        attachments
            .iter()
            .map(|it| (&listeners[it.listener].key, &it.hostnames))
    });
    let attached = attached.filter(|(listener, _)| model.listeners.contains_key(*listener));
    let attached: Vec<_> = attached.collect();
    let object = route.name.to_string();
    for (index, lowered) in route.rules.iter_mut().enumerate() {
        let (Some(rule), Ok(number)) = (lowered.rule.take(), u16::try_from(index)) else {
            continue;
        };
        let copies = iter::repeat_n(rule, attached.len());
        for ((listener, hostnames), rule) in attached.iter().zip(copies) {
            let key = RouteKey::new(api::HttpRoute::KIND, route.name, number, listener);
            let route = Route {
                key: key.clone(),
                listener: (*listener).clone(),
                hostnames: (*hostnames).clone(),
                order: Order {
                    created: route.object.metadata.created(),
                    object: object.clone(),
                    rule: number,
                },
                rule,
            };
            model.routes.insert(key, route);
        }
    }
}

/// The policies of what is there; the others would only be dead weight.
fn add_policies(model: &mut Model, policies: &[ResolvedPolicy<'_>]) {
    if policies.is_empty() {
        return;
    }
    let in_use = InUse::of(model);
    let outcomes = policies.iter().flat_map(|policy| &policy.targets);
    let policies: Vec<&Policy> = outcomes
        .filter_map(|target| target.outcome.as_ref().ok())
        .filter(|policy| in_use.has(&policy.target))
        .collect();
    for policy in policies {
        model.policies.insert(policy.key.clone(), policy.clone());
    }
}

/// The services and backends that routes lead to, and no others.
fn add_targets(model: &mut Model, world: &World<'_>) {
    let mut services: HashSet<ServiceKey> = HashSet::new();
    let mut backends: HashSet<BackendKey> = HashSet::new();
    for route in model.routes.values() {
        let rule = &route.rule;
        let filters = rule.backends.iter().map(|backend| &backend.filters);
        let mirrors = filters.chain([&rule.filters]).flat_map(|it| &it.mirrors);
        let targets = rule.backends.iter().map(|backend| &backend.target);
        for target in targets.chain(mirrors.map(|mirror| &mirror.target)) {
            match target {
                Target::Service { service, .. } if !services.contains(service) => {
                    services.insert(service.clone());
                }
                Target::Backend(backend) if !backends.contains(backend) => {
                    backends.insert(backend.clone());
                }
                _ => {}
            }
        }
    }
    for backend in world.backends.0.values().flatten() {
        if backends.contains(&backend.key) {
            model.backends.insert(backend.key.clone(), backend.clone());
        }
    }
    service::add(model, world.store, &services);
}

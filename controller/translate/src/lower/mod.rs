//! From what objects mean to the model: rules, backends, services and their workloads, binds and
//! listeners. Nothing is looked up here that `resolve` did not find first.

pub(crate) mod backend;
pub(crate) mod cors;
pub(crate) mod filters;
pub(crate) mod grpc_rule;
pub(crate) mod header_edit;
pub(crate) mod http_rule;
pub(crate) mod in_use;
pub(crate) mod jwt;
pub(crate) mod l4_rule;
pub(crate) mod matches;
pub(crate) mod policy;
pub(crate) mod rewrite;
pub(crate) mod rule;
pub(crate) mod service;
pub(crate) mod session;

use std::collections::HashSet;
use std::iter;

use xds::model::{
    Backend, BackendKey, BackendProtocol, Bind, BindKey, JwtPolicy, Listener, Model, Order, Policy,
    PolicyKey, PolicySpec, PolicyTarget, Route, RouteKey, ServiceKey, Target,
};

use crate::api::{self, Resource as _};
use crate::resolve::World;
use crate::resolve::gateway::Gateways;
use crate::resolve::policy::ResolvedPolicy;
use crate::resolve::route::Route as ResolvedRoute;
use in_use::InUse;

/// Everything that carries traffic.
pub(crate) fn model(
    world: &World<'_>,
    gateways: &Gateways<'_>,
    routes: &mut [ResolvedRoute<'_>],
    policies: &[ResolvedPolicy<'_>],
) -> Model {
    let mut model = Model::default();
    add_listeners(&mut model, gateways);
    for route in routes {
        add_route(&mut model, route, gateways);
    }
    // Those of listeners and routes first: keys are fetched from what they name. Then those of the
    // services and backends that came with it.
    add_policies(&mut model, policies);
    add_targets(&mut model, world);
    add_policies(&mut model, policies);
    add_client_certificates(&mut model, gateways);
    model
}

/// What each Gateway shows to backends.
fn add_client_certificates(model: &mut Model, gateways: &Gateways<'_>) {
    for gateway in &gateways.list {
        let served = gateway.programmed().next().is_some();
        let Some(Ok(certificate)) = gateway.client_certificate.as_ref().filter(|_| served) else {
            continue;
        };
        let target = format!("{}/{}", api::Gateway::KIND, gateway.name);
        let policy = Policy {
            key: PolicyKey::new(api::Gateway::KIND, gateway.name, &target),
            target: PolicyTarget::Gateway(gateway.name.clone()),
            spec: PolicySpec {
                client_certificate: Some(certificate.clone()),
                ..PolicySpec::default()
            },
        };
        model.policies.insert(policy.key.clone(), policy);
    }
}

fn add_listeners(model: &mut Model, gateways: &Gateways<'_>) {
    for gateway in &gateways.list {
        for listener in gateway.programmed() {
            let Some(protocol) = &listener.carried else {
                continue;
            };
            let transport = protocol.transport();
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
                protocol: protocol.clone(),
            };
            model.listeners.insert(listener.key.clone(), lowered);
        }
    }
}

/// One resource for each rule and listener. A rule that fails closed is carried even where the
/// route is refused for it. Takes the rules out of the route.
fn add_route(model: &mut Model, route: &mut ResolvedRoute<'_>, gateways: &Gateways<'_>) {
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
            let key = RouteKey::new(route.kind, route.name, number, listener);
            let route = Route {
                key: key.clone(),
                listener: (*listener).clone(),
                hostnames: (*hostnames).clone(),
                order: Order {
                    created: route.metadata.created(),
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
        .filter_map(|target| target.policy.as_ref())
        .filter(|policy| in_use.has(&policy.target))
        .collect();
    for policy in policies {
        model.policies.insert(policy.key.clone(), policy.clone());
    }
}

/// The services and backends that routes and policies lead to, and no others.
fn add_targets(model: &mut Model, world: &World<'_>) {
    let mut services: HashSet<ServiceKey> = HashSet::new();
    let mut backends: HashSet<BackendKey> = HashSet::new();
    let routes = model.routes.values().flat_map(|it| it.rule.targets());
    let jwt = model
        .policies
        .values()
        .filter_map(|it| it.spec.jwt.as_ref());
    for target in routes.chain(jwt.flat_map(JwtPolicy::targets)) {
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
    let lowered = world.backends.0.values().map(|backend| &backend.lowered);
    for backend in lowered.flatten() {
        if backends.contains(&backend.key) {
            let backend = with_tls(world, backend);
            model.backends.insert(backend.key.clone(), backend);
        }
    }
    service::add(model, world, &services);
}

/// A `Backend` with what a policy asks of it, unless it says so itself.
fn with_tls(world: &World<'_>, backend: &Backend) -> Backend {
    let mut backend = backend.clone();
    if backend.tls.is_none()
        && let Some(tls) = world.backend_tls.of_backend(&backend.key)
    {
        backend.tls = Some(tls.clone());
        backend.protocol = match backend.protocol {
            BackendProtocol::Http => BackendProtocol::Https,
            BackendProtocol::H2c => BackendProtocol::H2,
            other => other,
        };
    }
    backend
}

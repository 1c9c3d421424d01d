//! The statuses of BackendTLSPolicy objects: one entry for each Gateway that sends requests to
//! something they aim at, or fetches keys from it.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::{Model, ObjectName, PolicyTarget, Target};

use super::policy::{AncestorReference, PolicyAncestorStatus, PolicyStatus};
use super::{Condition, ConditionType as Type, Conditions, Reason};
use crate::api::{self, Resource as _};
use crate::options::Place;
use crate::problem::Problem;
use crate::resolve::World;
use crate::resolve::backend_tls::ResolvedBackendTls;

/// Those of all policies that are in use. On one machine also of the others, where something is
/// wrong with them: nobody else would tell the user.
pub(super) fn statuses(world: &World<'_>, model: &Model) -> BTreeMap<ObjectName, PolicyStatus> {
    if world.backend_tls.list.is_empty() {
        return BTreeMap::new();
    }
    let users = users(model);
    let policies = world.backend_tls.list.iter().filter_map(|policy| {
        let ancestors = ancestors(world, policy, &users);
        let status = (!ancestors.is_empty()).then_some(PolicyStatus { ancestors })?;
        Some((policy.name.clone(), status))
    });
    policies.collect()
}

/// The Gateways that send something to each target, by its key.
type Users<'m> = BTreeMap<&'m str, BTreeSet<&'m ObjectName>>;

fn users(model: &Model) -> Users<'_> {
    let mut users = Users::new();
    for route in model.routes.values() {
        if let Some(listener) = model.listeners.get(&route.listener) {
            note(&mut users, route.rule.targets(), &listener.gateway);
        }
    }
    for policy in model.policies.values() {
        if let Some(jwt) = &policy.spec.jwt {
            for gateway in gateways(model, &policy.target) {
                note(&mut users, jwt.targets(), gateway);
            }
        }
    }
    users
}

fn note<'m>(
    users: &mut Users<'m>,
    targets: impl Iterator<Item = &'m Target>,
    gateway: &'m ObjectName,
) {
    for target in targets {
        let key = match target {
            Target::Service { service, .. } => service.as_str(),
            Target::Backend(backend) => backend.as_str(),
            Target::Invalid { .. } => continue,
        };
        users.entry(key).or_default().insert(gateway);
    }
}

/// The Gateways whose requests a policy speaks of.
fn gateways<'m>(model: &'m Model, target: &'m PolicyTarget) -> BTreeSet<&'m ObjectName> {
    let of_listener = |key| model.listeners.get(key).map(|listener| &listener.gateway);
    match target {
        PolicyTarget::Gateway(name) => BTreeSet::from([name]),
        PolicyTarget::ListenerSet(set) => {
            let listeners = model.listeners.values();
            listeners
                .filter(|it| it.key.listener_set().as_ref() == Some(set))
                .map(|it| &it.gateway)
                .collect()
        }
        PolicyTarget::Listener(key) => of_listener(key).into_iter().collect(),
        PolicyTarget::Route { kind, object } | PolicyTarget::Rule { kind, object, .. } => {
            let object = object.to_string();
            let routes = model.routes.values();
            routes
                .filter(|it| it.key.kind() == kind && it.order.object == object)
                .filter_map(|it| of_listener(&it.listener))
                .collect()
        }
        PolicyTarget::Service(_) | PolicyTarget::Backend(_) => BTreeSet::new(),
    }
}

fn ancestors(
    world: &World<'_>,
    policy: &ResolvedBackendTls<'_>,
    users: &Users<'_>,
) -> Vec<PolicyAncestorStatus> {
    let entry = |ancestor_ref, conditions| PolicyAncestorStatus {
        ancestor_ref,
        controller_name: world.options.controller_name.clone(),
        conditions,
    };
    let gateways = policy.targets.iter();
    let gateways: BTreeSet<_> = gateways
        .filter_map(|target| users.get(target.as_str()))
        .flatten()
        .collect();
    let used = gateways.iter().map(|gateway| {
        let ancestor = AncestorReference {
            group: api::Gateway::GROUP.to_owned(),
            kind: api::Gateway::KIND.to_owned(),
            namespace: gateway.namespace.to_string(),
            name: gateway.name.to_string(),
            section_name: None,
        };
        entry(ancestor, conditions(policy, &policy.refusals))
    });
    let used: Vec<_> = used.collect();
    let machine = matches!(world.options.place, Place::Machine { .. });
    let problems: Vec<Problem> = policy
        .missing
        .iter()
        .chain(&policy.refusals)
        .cloned()
        .collect();
    let is_well =
        problems.is_empty() && policy.refs.is_empty() && policy.expiries.expired.is_empty();
    if !used.is_empty() || !machine || is_well {
        return used;
    }
    let targets = policy.object.spec.target_refs.first();
    let target = targets.map(|target| AncestorReference {
        group: target.group.clone(),
        kind: target.kind.clone(),
        namespace: policy.name.namespace.to_string(),
        name: target.name.clone(),
        section_name: target.section_name.clone(),
    });
    let entry = target.map(|target| entry(target, conditions(policy, &problems)));
    entry.into_iter().collect()
}

fn conditions(policy: &ResolvedBackendTls<'_>, refusals: &[Problem]) -> Vec<Condition> {
    let conditions = Conditions::of(policy.object.metadata.generation);
    let conditions = match refusals {
        [] => conditions.happy(Type::Accepted, Reason::Accepted, "the policy is valid"),
        refusals => conditions.unhappy(Type::Accepted, refusals),
    };
    let conditions = match &*policy.refs {
        [] => conditions.happy(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "every reference leads somewhere",
        ),
        refs => conditions.unhappy(Type::ResolvedRefs, refs),
    };
    let conditions = conditions.unhappy(Type::CertificateExpired, &policy.expiries.expired);
    conditions.done()
}

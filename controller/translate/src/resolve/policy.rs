//! Traffic policies: what each aims at, and which one wins a field.

use std::collections::{BTreeMap, HashMap};

use xds::model::{ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget};

use super::World;
use super::gateway::Gateways;
use super::http_route::HttpRoute;
use super::policy_fields::FIELDS;
use super::policy_target::{TargetError, Targets};
use crate::api::{self, PolicyTargetReference, Resource as _, TrafficPolicy};
use crate::lower::policy::lower;
use crate::problem::Problem;
use crate::status::Reason;

/// A policy, and what became of it at each of its targets.
pub(crate) struct ResolvedPolicy<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a TrafficPolicy,
    pub(crate) targets: Vec<ResolvedTarget<'a>>,
}

/// What became of a policy at one target.
pub(crate) struct ResolvedTarget<'a> {
    pub(crate) reference: &'a PolicyTargetReference,
    /// The target with what is left for it to be told; or why there is nothing.
    pub(crate) outcome: Result<Policy, Problem>,
    /// The fields that older policies have taken.
    pub(crate) lost: Vec<Problem>,
}

/// All policies that aim at something of ours.
pub(crate) fn resolve_all<'a>(
    world: &World<'a>,
    gateways: &Gateways<'_>,
    routes: &[HttpRoute<'_>],
) -> Vec<ResolvedPolicy<'a>> {
    let targets = Targets::of(world, gateways, routes);
    let mut by_age: Vec<_> = world.store.traffic_policies.iter().collect();
    by_age.sort_by_key(|(name, object)| (object.metadata.created(), *name));
    let mut taken = Taken::default();
    let resolved = by_age.into_iter().map(|(name, object)| {
        let spec = lower(&object.spec);
        let references = object.spec.target_refs.iter().enumerate();
        let targets = references.filter_map(|(index, reference)| {
            let found = targets.find(&name.namespace, reference);
            let found = match found {
                Err(TargetError::NotOurs) => return None,
                Err(TargetError::Problem(it)) => {
                    Err(it.under(format_args!("spec.targetRefs[{index}]")))
                }
                Ok(target) => Ok(target),
            };
            Some(apply(name, reference, found, spec.clone(), &mut taken))
        });
        ResolvedPolicy {
            name,
            object,
            targets: targets.collect(),
        }
    });
    resolved.collect()
}

/// Fields that older policies have taken, by target.
type Taken<'a> = BTreeMap<PolicyTarget, HashMap<&'static str, &'a ObjectName>>;

fn apply<'a>(
    name: &'a ObjectName,
    reference: &'a PolicyTargetReference,
    target: Result<PolicyTarget, Problem>,
    spec: Result<PolicySpec, Problem>,
    taken: &mut Taken<'a>,
) -> ResolvedTarget<'a> {
    let mut lost = Vec::new();
    let outcome = target.and_then(|target| {
        let mut spec = spec?;
        check_reach(&target, &spec)?;
        let owners = taken.entry(target.clone()).or_default();
        for field in FIELDS
            .iter()
            .filter(|field| (field.is_set)(&spec))
            .collect::<Vec<_>>()
        {
            let owner = *owners.entry(field.name).or_insert(name);
            if owner != name {
                lost.push(conflicted(&field.path(&spec), owner));
                (field.clear)(&mut spec);
            }
        }
        if !lost.is_empty() && spec == PolicySpec::default() {
            return Err(lost[0].clone());
        }
        Ok(Policy {
            key: PolicyKey::new(TrafficPolicy::KIND, name, &spell(&target)),
            target,
            spec,
        })
    });
    ResolvedTarget {
        reference,
        outcome,
        lost,
    }
}

fn conflicted(field: &str, owner: &ObjectName) -> Problem {
    let message = format!(
        "the older TrafficPolicy {owner} says this of the same target: remove it from one of them"
    );
    Problem::new(Reason::Conflicted, field, message)
}

fn check_reach(target: &PolicyTarget, spec: &PolicySpec) -> Result<(), Problem> {
    let mut set = FIELDS.iter().filter(|field| (field.is_set)(spec));
    match set.find(|field| !field.reach.holds(target)) {
        None => Ok(()),
        Some(field) => Err(Problem::new(
            Reason::Invalid,
            field.path(spec),
            format!(
                "this has no meaning for such a target: aim the policy at {}",
                field.reach.targets()
            ),
        )),
    }
}

/// Spells a target for keys.
fn spell(target: &PolicyTarget) -> String {
    match target {
        PolicyTarget::Gateway(name) => format!("{}/{name}", api::Gateway::KIND),
        PolicyTarget::Listener(key) => key.to_string(),
        PolicyTarget::Route { kind, object } => format!("{kind}/{object}"),
        PolicyTarget::Rule { kind, object, rule } => format!("{kind}/{object}/{rule}"),
        PolicyTarget::Service(key) => key.to_string(),
        PolicyTarget::Backend(key) => key.to_string(),
    }
}

//! Traffic policies: what each aims at, and which one wins a field.

use std::collections::{BTreeMap, HashMap};

use xds::model::{ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget};

use super::World;
use super::gateway::Gateways;
use super::policy_fields::{FIELDS, JWT};
use super::policy_target::{TargetError, Targets};
use super::route::Route;
use crate::api::{self, PolicyTargetReference, Resource as _, TrafficPolicy};
use crate::lower::policy::{LoweredPolicy, lower};
use crate::problem::Problem;
use crate::status::Reason;

/// A policy, and what became of it at each of its targets.
pub(crate) struct ResolvedPolicy<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a TrafficPolicy,
    pub(crate) targets: Vec<ResolvedTarget<'a>>,
    /// References that lead nowhere.
    pub(crate) refs: Vec<Problem>,
}

/// What became of a policy at one target.
pub(crate) struct ResolvedTarget<'a> {
    pub(crate) reference: &'a PolicyTargetReference,
    /// The target with what is left for it to be told, if anything is.
    pub(crate) policy: Option<Policy>,
    /// Why the policy is refused here. What is left then is what it says of tokens.
    pub(crate) refusal: Option<Problem>,
    /// The fields that older policies have taken.
    pub(crate) lost: Vec<Problem>,
}

/// All policies that aim at something of ours.
pub(crate) fn resolve_all<'a>(
    world: &World<'a>,
    gateways: &Gateways<'_>,
    routes: &[Route<'_>],
) -> Vec<ResolvedPolicy<'a>> {
    let targets = Targets::of(world, gateways, routes);
    let mut by_age: Vec<_> = world.store.traffic_policies.iter().collect();
    by_age.sort_by_key(|(name, object)| (object.metadata.created(), *name));
    let mut taken = Taken::default();
    let resolved = by_age.into_iter().map(|(name, object)| {
        let lowered = lower(world, name, &object.spec);
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
            Some(match found {
                Ok(target) => apply(name, reference, target, &lowered, &mut taken),
                Err(problem) => ResolvedTarget {
                    reference,
                    policy: None,
                    refusal: Some(problem),
                    lost: Vec::new(),
                },
            })
        });
        ResolvedPolicy {
            name,
            object,
            targets: targets.collect(),
            refs: lowered.refs,
        }
    });
    resolved.collect()
}

/// Fields that older policies have taken, by target.
type Taken<'a> = BTreeMap<PolicyTarget, HashMap<&'static str, &'a ObjectName>>;

fn apply<'a>(
    name: &'a ObjectName,
    reference: &'a PolicyTargetReference,
    target: PolicyTarget,
    lowered: &LoweredPolicy,
    taken: &mut Taken<'a>,
) -> ResolvedTarget<'a> {
    let mut spec = lowered.spec.clone();
    let refusal = lowered.refusal.clone();
    let mut refusal = refusal.or_else(|| check_reach(&target, &spec).err());
    if refusal.is_some() {
        keep_tokens(&target, &mut spec);
    }
    let lost = settle(name, &target, &mut spec, taken);
    let nothing_left = spec == PolicySpec::default();
    if nothing_left {
        refusal = refusal.or_else(|| lost.first().cloned());
    }
    let policy = Policy {
        key: PolicyKey::new(TrafficPolicy::KIND, name, &spell(&target)),
        target,
        spec,
    };
    ResolvedTarget {
        reference,
        policy: Some(policy).filter(|_| refusal.is_none() || !nothing_left),
        refusal,
        lost,
    }
}

/// A rule about tokens holds even where the rest of its policy is refused: without it everyone
/// would come in.
fn keep_tokens(target: &PolicyTarget, spec: &mut PolicySpec) {
    for field in FIELDS {
        if field.name != JWT || !field.reach.holds(target) {
            (field.clear)(spec);
        }
    }
}

/// Takes out the fields that older policies have taken, and takes the others.
fn settle<'a>(
    name: &'a ObjectName,
    target: &PolicyTarget,
    spec: &mut PolicySpec,
    taken: &mut Taken<'a>,
) -> Vec<Problem> {
    let owners = taken.entry(target.clone()).or_default();
    let mut lost = Vec::new();
    for field in FIELDS {
        if !(field.is_set)(spec) {
            continue;
        }
        let owner = *owners.entry(field.name).or_insert(name);
        if owner != name {
            lost.push(conflicted(&field.path(spec), owner));
            (field.clear)(spec);
        }
    }
    lost
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
        PolicyTarget::ListenerSet(name) => format!("ListenerSet/{name}"),
        PolicyTarget::Listener(key) => key.to_string(),
        PolicyTarget::Route { kind, object } => format!("{kind}/{object}"),
        PolicyTarget::Rule { kind, object, rule } => format!("{kind}/{object}/{rule}"),
        PolicyTarget::Service(key) => key.to_string(),
        PolicyTarget::Backend(key) => key.to_string(),
    }
}

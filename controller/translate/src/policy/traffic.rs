//! Resolves the references of a `TrafficPolicy`.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{ObjectName, PolicySpec, PolicyTarget};

use super::api::{
    ErrorPageSpec, NetworksSpec, PolicyStanding, PolicyTargetReference, RejectedPolicy,
    RespondSpec, Restrictions, TrafficPolicy, TrafficPolicySpec,
};
use super::findings::ReadEntries;
use super::precedence::{
    ClaimRank, PRESUMED_UNTIL_THEN, Phase, REFUSED_UNTIL_THEN, TargetedPolicy, apply_to_target,
    is_of_connections, refusing_at,
};
use super::settings::{LoweredPolicy, lower};
use super::traffic_targets::{Refused, TargetError, all_in, find, refused};
#[cfg(any(test, feature = "test-hooks"))]
use crate::engine::defects::panic_if_wanted;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, Instead, State, Unit, UnitReader};
use crate::objects::owner::Owner;
use crate::status::problem::Problem;
use crate::units::{PolicyUnit, TargetUnit};

#[derive(Debug, PartialEq)]
pub(crate) struct ResolvedPolicy {
    pub(crate) created: i64,
    pub(crate) generation: i64,
    /// Whether its settings may name backends.
    pub(crate) names_backends: bool,
    /// Whether it refers to other objects, or may.
    pub(crate) has_refs: bool,
    /// What it has read of ConfigMaps.
    read: ReadEntries,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// One for each reference to a target of this controller.
    pub(crate) targets: Vec<PolicyReference>,
    /// The ways in which it restricts access.
    pub(crate) restricts: Restrictions,
    /// Further targets that refuse every request, because the policy restricts access and names a part
    /// of them that does not exist.
    pub(crate) refused: BTreeSet<PolicyTarget>,
    /// Those that may be meant, because the policy restricts access and names nothing known.
    pub(crate) denied: BTreeSet<PolicyTarget>,
    /// The settings for both.
    refusal: Arc<PolicySpec>,
}

/// A target reference of a policy.
#[derive(Debug, PartialEq)]
pub(crate) struct PolicyReference {
    pub(crate) reference: PolicyTargetReference,
    /// The target with the policy's settings, or why it is invalid.
    pub(crate) targeted: Result<TargetedPolicy, Problem>,
}

impl Unit for PolicyUnit {
    type Output = ResolvedPolicy;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<ResolvedPolicy> {
        #[cfg(any(test, feature = "test-hooks"))]
        panic_if_wanted(&self.0);
        let object = reader.object::<TrafficPolicy>(&self.0)?;
        Some(self.resolve(reader, object))
    }

    /// A policy that restricts access in other ways than its version in effect, if there is any, refuses every
    /// request of its targets. One that restricts nothing has no effect.
    fn instead(&self, reader: &UnitReader<'_>) -> Instead<ResolvedPolicy> {
        let Some(object) = reader.object::<TrafficPolicy>(&self.0) else {
            return Instead::New(None);
        };
        let restricts = object.restrictions();
        let old = reader.tables.get(self);
        if old.is_some_and(|old| !restricts.beyond(old.restricts).any()) {
            return Instead::Old;
        }
        let rejected = RejectedPolicy {
            restricts,
            rewrites_paths: object.rewrites_paths(),
            token_sources: object.token_sources(),
            ..RejectedPolicy::default()
        };
        let closed = TrafficPolicy {
            metadata: object.metadata.clone(),
            spec: TrafficPolicySpec {
                target_refs: object.spec.target_refs.clone(),
                ..TrafficPolicySpec::default()
            },
            standing: if restricts.any() || object.rewrites_paths() {
                PolicyStanding::Rejected(rejected)
            } else {
                PolicyStanding::Admitted
            },
        };
        Instead::New(Some(self.resolve(reader, &closed)))
    }

    fn publish(
        &self,
        old: Option<&ResolvedPolicy>,
        new: Option<&ResolvedPolicy>,
        changes: &mut Changes<'_>,
    ) {
        changes.fact(Fact::Policy(self.0.clone()));
        let (before, after) = (claims(&self.0, old), claims(&self.0, new));
        for target in changes.claims.policies.replace(before, after) {
            changes.run(TargetUnit(target));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.traffic_policies;
        policies.contains_key(&self.0)
    }
}

impl PolicyUnit {
    fn resolve(&self, reader: &UnitReader<'_>, object: &TrafficPolicy) -> ResolvedPolicy {
        let name = &self.0;
        let before = reader.tables.get(self);
        let before = before.map(|before| &before.read);
        let lowered = lower(reader, name, object, before);
        let restricts = object.restrictions();
        let namespace = &name.namespace;
        let references = object.spec.target_refs.iter().enumerate();
        let mut targets: Vec<_> = references
            .filter_map(|(index, reference)| {
                let targeted = resolve(reader, namespace, reference, &lowered, restricts)?;
                let field = format!("spec.targetRefs[{index}]");
                Some(PolicyReference {
                    reference: reference.clone(),
                    targeted: targeted.map_err(|problem| problem.under(field)),
                })
            })
            .collect();
        let (mut all_refused, mut denied) = (BTreeSet::new(), BTreeSet::new());
        if restricts.any() {
            let references = object.spec.target_refs.iter();
            for refused in references.filter_map(|it| refused(reader, namespace, it)) {
                match refused {
                    Refused::Known(target) => drop(all_refused.insert(target)),
                    Refused::Presumed(targets) => denied.extend(targets),
                }
            }
            if object.spec.target_refs.is_empty() {
                denied.extend(all_in(reader, namespace));
            }
        }
        let refusal = Arc::new(lowered.spec.refusing_all());
        refuse_whole_targets(&mut targets, &mut all_refused, &refusal);
        denied.retain(|target| !all_refused.contains(target) && !is_among(target, &targets));
        denied.retain(|target| refusal.closes_connections || !is_of_connections(target));
        ResolvedPolicy {
            created: object.metadata.created(),
            generation: object.metadata.generation(),
            names_backends: lowered.spec.named_backends().next().is_some(),
            has_refs: has_refs(&object.spec),
            read: lowered.read,
            refs: lowered.refs,
            targets,
            restricts,
            refused: all_refused,
            denied,
            refusal,
        }
    }
}

/// A reference with the policy's settings for it; `None` if the target belongs to another controller.
fn resolve(
    reader: &UnitReader<'_>,
    namespace: &str,
    reference: &PolicyTargetReference,
    lowered: &LoweredPolicy,
    restricts: Restrictions,
) -> Option<Result<TargetedPolicy, Problem>> {
    let target = match find(reader, namespace, reference) {
        Ok(target) => target,
        Err(TargetError::NotOurs) => return None,
        Err(TargetError::Problem(mut problem)) => {
            if restricts.any() {
                problem.message += match refused(reader, namespace, reference) {
                    Some(Refused::Known(_)) => REFUSED_UNTIL_THEN,
                    Some(Refused::Presumed(targets)) if !targets.is_empty() => PRESUMED_UNTIL_THEN,
                    Some(Refused::Presumed(_)) | None => "",
                };
            }
            return Some(Err(problem));
        }
    };
    let owner = match &target {
        PolicyTarget::ListenerSet(set) => Some(set.clone()),
        PolicyTarget::Listener(key) => key.listener_set(),
        _ => None,
    };
    let owner = owner.and_then(|set| reader.offers(&Owner::ListenerSet(set)));
    let gateway = owner.and_then(|offers| offers.gateway.as_ref().ok());
    let refusal = lowered.refusal.as_ref();
    let mut targeted = apply_to_target(target, &lowered.spec, refusal, gateway);
    let reduced = lowered.reduced.iter();
    let reduced = reduced.filter(|it| targeted.has(&it.field)).cloned();
    let reduced: Vec<_> = reduced.collect();
    targeted.inapplicable.extend(reduced);
    if targeted.refusal.is_none() {
        targeted.inapplicable.extend_from_slice(&lowered.left_out);
    }
    Some(Ok(targeted))
}

/// Whether a policy refers to other objects, or may.
fn has_refs(spec: &TrafficPolicySpec) -> bool {
    let has_lists = |spec: &NetworksSpec| spec.lists().next().is_some();
    let has_entries = |spec: &RespondSpec| spec.entries().next().is_some();
    spec.jwt.is_some()
        || spec.basic_auth.is_some()
        || spec.api_keys.is_some()
        || spec.networks.as_ref().is_some_and(has_lists)
        || spec.respond.as_ref().is_some_and(has_entries)
        || { spec.error_pages.iter().flatten() }.any(ErrorPageSpec::refers_to_others)
}

/// Targets that are named as a whole and by a part that does not exist refuse every request too.
fn refuse_whole_targets(
    targets: &mut [PolicyReference],
    refused: &mut BTreeSet<PolicyTarget>,
    refusal: &Arc<PolicySpec>,
) {
    let problem = targets.iter().find_map(|it| it.targeted.as_ref().err());
    let problem = problem.cloned();
    for target in targets {
        if let Ok(targeted) = &mut target.targeted
            && refused.remove(&*targeted.target)
        {
            targeted.spec = refusing_at(&targeted.target, refusal);
            targeted.refusal = targeted.refusal.take().or_else(|| problem.clone());
        }
    }
}

/// Whether a policy has settings for this target.
fn is_among(target: &PolicyTarget, targets: &[PolicyReference]) -> bool {
    let mut targeted = targets.iter().filter_map(|it| it.targeted.as_ref().ok());
    targeted.any(|targeted| *targeted.target == *target)
}

type Claim = (Arc<PolicyTarget>, ClaimRank, Arc<PolicySpec>);

fn claims(name: &ObjectName, policy: Option<&ResolvedPolicy>) -> impl Iterator<Item = Claim> {
    let claims = policy.into_iter().flat_map(|policy| {
        let rank = |phase| (phase, policy.created, name.clone());
        let targeted = policy.targets.iter();
        let targeted = targeted.filter_map(|target| target.targeted.as_ref().ok());
        let targeted = targeted.map(move |targeted| {
            let spec = Arc::clone(&targeted.spec);
            (Arc::clone(&targeted.target), rank(Phase::Configured), spec)
        });
        let refused = policy.refused.iter().map(move |target| {
            let spec = refusing_at(target, &policy.refusal);
            (Arc::new(target.clone()), rank(Phase::Configured), spec)
        });
        let denied = policy.denied.iter().map(move |target| {
            let spec = Arc::clone(&policy.refusal);
            let phase = Phase::Denied(policy.restricts);
            (Arc::new(target.clone()), rank(phase), spec)
        });
        targeted.chain(refused).chain(denied).collect::<Vec<_>>()
    });
    claims.collect::<Vec<_>>().into_iter()
}

impl<'a> UnitReader<'a> {
    pub(crate) fn policy(&self, name: &ObjectName) -> Option<&'a ResolvedPolicy> {
        self.depend_on(Fact::Policy(name.clone()));
        self.tables.get(&PolicyUnit(name.clone()))
    }
}

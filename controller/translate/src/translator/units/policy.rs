//! Resolves the references of a `TrafficPolicy`.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{ObjectName, PolicySpec, PolicyTarget};

use super::TargetUnit;
use super::policy_target::{TargetError, all_in, denied, find};
use crate::api::{PolicyTargetReference, TrafficPolicy};
use crate::lower::policy::lower;
use crate::problem::Problem;
use crate::reader::Fact;
use crate::resolve::policy::{
    ClaimRank, Phase, REJECTED_UNTIL_THEN, TargetedPolicy, apply_to_target, deny_all,
};
use crate::translator::unit::{Changes, State, Unit, UnitReader};

/// A `TrafficPolicy` by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PolicyUnit(pub(crate) ObjectName);

#[derive(Debug, PartialEq)]
pub(crate) struct ResolvedPolicy {
    pub(crate) created: i64,
    pub(crate) generation: i64,
    /// Whether it has JWT settings.
    pub(crate) has_jwt: bool,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// One for each reference to a target of this controller.
    pub(crate) targets: Vec<PolicyReference>,
    /// Targets that reject every request, because the policy restricts access and a target is
    /// unidentifiable.
    pub(crate) denied: BTreeSet<PolicyTarget>,
    /// The settings for them.
    denial: Arc<PolicySpec>,
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
        let name = &self.0;
        let object = reader.object::<TrafficPolicy>(name)?;
        let lowered = lower(reader, name, &object.spec);
        let has_jwt = object.spec.jwt.is_some();
        let restricts = has_jwt || object.spec.authorization.is_some();
        let namespace = &name.namespace;
        let references = object.spec.target_refs.iter().enumerate();
        let targets = references.filter_map(|(index, reference)| {
            let targeted = match find(reader, namespace, reference) {
                Err(TargetError::NotOurs) => return None,
                Err(TargetError::Problem(problem)) => {
                    let mut problem = problem.under(format_args!("spec.targetRefs[{index}]"));
                    if restricts && !denied(reader, namespace, reference).is_empty() {
                        problem.message += REJECTED_UNTIL_THEN;
                    }
                    Err(problem)
                }
                Ok(target) => Ok(apply_to_target(
                    target,
                    &lowered.spec,
                    lowered.refusal.as_ref(),
                )),
            };
            let reference = reference.clone();
            Some(PolicyReference {
                reference,
                targeted,
            })
        });
        let targets = targets.collect();
        let mut all_denied = BTreeSet::new();
        if restricts {
            let references = object.spec.target_refs.iter();
            all_denied.extend(references.flat_map(|it| denied(reader, namespace, it)));
            if object.spec.target_refs.is_empty() {
                all_denied.extend(all_in(reader, namespace));
            }
        }
        Some(ResolvedPolicy {
            created: object.metadata.created(),
            generation: object.metadata.generation(),
            has_jwt,
            refs: lowered.refs,
            targets,
            denied: all_denied,
            denial: Arc::new(deny_all(&lowered.spec)),
        })
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
        let denials = policy.denied.iter().map(move |target| {
            let spec = Arc::clone(&policy.denial);
            (Arc::new(target.clone()), rank(Phase::Denied), spec)
        });
        targeted.chain(denials).collect::<Vec<_>>()
    });
    claims.collect::<Vec<_>>().into_iter()
}

impl<'a> UnitReader<'a> {
    pub(super) fn policy(&self, name: &ObjectName) -> Option<&'a ResolvedPolicy> {
        self.depend_on(Fact::Policy(name.clone()));
        self.tables.policies.get(&PolicyUnit(name.clone()))
    }
}

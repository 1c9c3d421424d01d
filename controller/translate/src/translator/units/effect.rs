//! A `TrafficPolicy` at its targets: the carried settings, and its status.

use std::sync::Arc;

use xds::model::{ObjectName, PolicyTarget, Resource};

use super::policy::{PolicyReference, ResolvedPolicy};
use super::room::FullGateways;
use super::tokens::gateways;
use crate::api::TrafficPolicy;
use crate::problem::Problem;
use crate::resolve::policy::{ClaimedPolicy, Phase, set_fields};
use crate::resolve::policy_fields::is_without_effect;
use crate::status::{NONE_OVERRIDDEN, Overridden, PolicyStatus, Status, TargetOutcome};
use crate::store::ObjectRef;
use crate::translator::emitted::{Emitted, Gateways};
use crate::translator::rooms::HolderKind;
use crate::translator::unit::{Changes, State, Unit, UnitReader};

/// A `TrafficPolicy` by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EffectUnit(pub(crate) ObjectName);

/// A policy for proxies, and its status.
#[derive(Debug, PartialEq)]
pub(crate) struct EffectivePolicy {
    emitted: Emitted,
    /// `None` if no target belongs to this controller.
    status: Option<PolicyStatus>,
}

impl Unit for EffectUnit {
    type Output = EffectivePolicy;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<EffectivePolicy> {
        let policy = reader.policy(&self.0)?;
        let mut resources = Vec::new();
        let overridden = self.overridden(reader, policy);
        let targets = policy.targets.iter();
        let no_room: Vec<Option<Problem>> = targets
            .map(|target| self.no_room(reader, policy, target))
            .collect();
        let targets = policy.targets.iter().zip(&no_room).zip(&overridden);
        let outcomes: Vec<TargetOutcome<'_>> = targets
            .map(|((target, no_room), overridden)| TargetOutcome {
                overridden,
                ..self.outcome(reader, policy, (target, no_room.as_ref()), &mut resources)
            })
            .collect();
        let refused = policy.refused.iter().map(|it| (Phase::Configured, it));
        let phase = Phase::Denied(policy.restricts);
        let denied = policy.denied.iter().map(|it| (phase, it));
        for (phase, target) in refused.chain(denied) {
            let target = Arc::new(target.clone());
            let rank = (phase, policy.created, &self.0);
            if let Some(claimed_policy) = reader.claimed_policy(&target, rank) {
                self.carry(reader, &target, claimed_policy, &mut resources);
            }
        }
        let controller = &reader.options().controller_name;
        let status = PolicyStatus::of(
            (&self.0, policy.generation),
            (policy.has_refs, &policy.refs),
            &outcomes,
            controller,
        );
        Some(EffectivePolicy {
            emitted: Emitted::new(resources),
            status: (!outcomes.is_empty()).then_some(status),
        })
    }

    fn publish(
        &self,
        old: Option<&EffectivePolicy>,
        new: Option<&EffectivePolicy>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&EffectivePolicy>| it.map(|it| it.emitted.clone());
        Emitted::publish(
            emitted(old).as_ref(),
            emitted(new).as_ref(),
            changes.outcome,
        );
        let status = |it: Option<&EffectivePolicy>| it.and_then(|it| it.status.clone());
        if status(old) != status(new) {
            let object = ObjectRef::of::<TrafficPolicy>(&self.0);
            changes.status(object, status(new).map(Status::Policy));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.traffic_policies;
        policies.contains_key(&self.0)
    }
}

impl EffectUnit {
    fn outcome<'a>(
        &self,
        reader: &UnitReader<'a>,
        policy: &ResolvedPolicy,
        (target, no_room): (&'a PolicyReference, Option<&'a Problem>),
        resources: &mut Vec<(Resource, Gateways)>,
    ) -> TargetOutcome<'a> {
        let reference = &target.reference;
        let targeted = match &target.targeted {
            Ok(targeted) => targeted,
            Err(problem) => {
                return TargetOutcome {
                    reference,
                    refusal: Some(problem),
                    lost: &[],
                    overridden: &NONE_OVERRIDDEN,
                    inapplicable: &[],
                    is_left: false,
                    refuses_all: false,
                    in_use: false,
                };
            }
        };
        let rank = (Phase::Configured, policy.created, &self.0);
        let claimed_policy = reader.claimed_policy(&targeted.target, rank);
        let lost = claimed_policy.map_or(&[][..], |claimed_policy| &claimed_policy.lost);
        let nothing_left = claimed_policy.is_none_or(|it| is_without_effect(&it.spec));
        let too_large = claimed_policy.and_then(|it| it.too_large.as_ref());
        let mut refusal = targeted.refusal.as_ref().or(too_large).or(no_room);
        if nothing_left {
            refusal = refusal.or_else(|| lost.first());
        }
        let mut is_left = refusal.is_none() || !nothing_left;
        let mut in_use = false;
        if is_left && let Some(claimed_policy) = claimed_policy {
            in_use = self.carry(reader, &targeted.target, claimed_policy, resources);
            is_left = in_use || no_room.is_none();
        }
        let is_closed =
            no_room.is_some() && claimed_policy.is_some_and(ClaimedPolicy::is_restricting);
        TargetOutcome {
            reference,
            refusal,
            lost,
            overridden: &NONE_OVERRIDDEN,
            inapplicable: &targeted.inapplicable,
            is_left,
            refuses_all: targeted.spec.is_invalid || too_large.is_some() || is_closed,
            in_use,
        }
    }

    /// What the policy loses at each of its targets to policies that take precedence.
    fn overridden(&self, reader: &UnitReader<'_>, policy: &ResolvedPolicy) -> Vec<Overridden> {
        let targets = policy.targets.iter();
        let overridden = targets.map(|target| {
            let Ok(targeted) = &target.targeted else {
                return Overridden::default();
            };
            let rank = (Phase::Configured, policy.created, &self.0);
            let Some(claimed) = reader.claimed_policy(&targeted.target, rank) else {
                return Overridden::default();
            };
            let problems = reader.overridden(&self.0, &targeted.target, &claimed.spec);
            Overridden {
                is_all: !problems.is_empty() && problems.len() == set_fields(&claimed.spec),
                problems,
            }
        });
        overridden.collect()
    }

    /// The Gateways that have no room for the policy or its networks.
    fn full(&self, reader: &UnitReader<'_>, gateways: &Gateways) -> FullGateways {
        let of = |kind| reader.full_gateways(kind, &self.0, gateways);
        of(HolderKind::TrafficPolicy).and(of(HolderKind::Networks))
    }

    /// Why the Gateways of a target do not have the policy's settings, if they have no room for them.
    fn no_room(
        &self,
        reader: &UnitReader<'_>,
        policy: &ResolvedPolicy,
        target: &PolicyReference,
    ) -> Option<Problem> {
        let targeted = target.targeted.as_ref().ok()?;
        let gateways = gateways(reader, &targeted.target);
        let full = self.full(reader, &gateways);
        if full.is_empty() {
            return None;
        }
        let rank = (Phase::Configured, policy.created, &self.0);
        let claimed = reader.claimed_policy(&targeted.target, rank)?;
        let effect = if claimed.is_restricting() {
            "Every request of the target gets status 503 (policy_invalid) there"
        } else {
            "It has no effect there"
        };
        reader.room_problem(&full, "policy", effect)
    }

    /// Carries the remaining settings at a target, if that carries traffic. Where a Gateway has no room for
    /// them, the target refuses every request if they restrict access. That is one small policy for each
    /// target and restriction, which other budgets bound, so it always has room: without it the target would be
    /// open.
    fn carry(
        &self,
        reader: &UnitReader<'_>,
        target: &Arc<PolicyTarget>,
        claimed_policy: &ClaimedPolicy,
        resources: &mut Vec<(Resource, Gateways)>,
    ) -> bool {
        let gateways = gateways(reader, target);
        if gateways.is_empty() {
            return false;
        }
        let full = self.full(reader, &gateways);
        let (with_room, without) = full.split(gateways);
        let mut in_use = false;
        if !with_room.is_empty() {
            resources.push((claimed_policy.at(&self.0, target).into(), with_room));
            in_use = true;
        }
        if !without.is_empty() && claimed_policy.is_restricting() {
            in_use = true;
            if !claimed_policy.is_closed_by_older {
                let closing = claimed_policy.closing(&self.0, target);
                resources.push((closing.into(), without));
            }
        }
        in_use
    }
}

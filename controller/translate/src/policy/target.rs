//! A target of traffic policies: which policy wins each field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{ObjectName, PolicySpec, PolicyTarget, Precedence};

use super::precedence::{ClaimRank, ClaimedPolicy, Phase, assign_fields, override_alike};
use super::tokens::gateway_of;
use crate::budgets::Budget;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::owner;
use crate::objects::owner::Owner;
use crate::units::TargetUnit;

/// The remaining settings of each policy of a target.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TargetPolicies {
    policies: BTreeMap<ClaimRank, ClaimedPolicy>,
    /// The Gateway at which some of them take precedence over others.
    overriding_at: Option<ObjectName>,
}

impl Unit for TargetUnit {
    type Output = TargetPolicies;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let mut policies = reader.claims.policies.at(&self.0).map(assign_fields)?;
        let limit = reader.options().budgets.of(Budget::ResourceBytes);
        for ((_, _, name), policy) in &mut policies {
            policy.check_size(name, &self.0, limit);
        }
        let has_overriding = overriding(&policies).next().is_some();
        let overriding_at = has_overriding.then(|| gateway_around(reader, &self.0));
        Some(TargetPolicies {
            policies,
            overriding_at: overriding_at.flatten(),
        })
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let none = TargetPolicies::default();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let (before, after) = (&old.policies, &new.policies);
        let ranks = before.keys().chain(after.keys());
        let changed = ranks.filter(|rank| before.get(*rank) != after.get(*rank));
        let policies: BTreeSet<&ObjectName> = changed.map(|(_, _, name)| name).collect();
        let is_same = overrides_alike(before, after);
        let gateways = (old.overriding_at.as_ref(), new.overriding_at.as_ref());
        changes.overriding(&self.0, gateways, is_same);
        for policy in policies {
            let target = Arc::clone(&self.0);
            changes.fact(Fact::ClaimedPolicy(target, policy.clone()));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.policies.at(&self.0).is_some()
    }
}

/// A policy that takes precedence, with its settings.
type Overriding<'p> = (&'p ObjectName, &'p Arc<PolicySpec>);

/// The policies of a target that take precedence over others.
fn overriding(
    policies: &BTreeMap<ClaimRank, ClaimedPolicy>,
) -> impl Iterator<Item = Overriding<'_>> {
    let policies = policies
        .iter()
        .map(|((_, _, name), policy)| (name, &policy.spec));
    policies.filter(|(_, spec)| spec.precedence == Precedence::Overrides)
}

/// Whether others lose the same to both.
fn overrides_alike(
    one: &BTreeMap<ClaimRank, ClaimedPolicy>,
    other: &BTreeMap<ClaimRank, ClaimedPolicy>,
) -> bool {
    let is_alike = |((by, one), (now_by, other)): (Overriding<'_>, Overriding<'_>)| {
        by == now_by && override_alike(one, other)
    };
    overriding(one).count() == overriding(other).count()
        && overriding(one).zip(overriding(other)).all(is_alike)
}

/// The Gateway of a target whose policies may override others.
fn gateway_around(reader: &UnitReader<'_>, target: &PolicyTarget) -> Option<ObjectName> {
    let owner = match target {
        PolicyTarget::Gateway(gateway) => return Some(gateway.clone()),
        PolicyTarget::ListenerSet(set) => Owner::ListenerSet(set.clone()),
        PolicyTarget::Listener(listener) => owner::of_listener(listener)?,
        PolicyTarget::Route { .. }
        | PolicyTarget::Rule { .. }
        | PolicyTarget::Service(_)
        | PolicyTarget::Backend(_) => return None,
    };
    gateway_of(reader, &owner).cloned()
}

impl<'a> UnitReader<'a> {
    /// The targets of a Gateway with policies that take precedence over those of targets within them, the widest
    /// first. What these override is part of the answer.
    pub(crate) fn overriding_targets(&self, gateway: &ObjectName) -> Vec<&'a Arc<PolicyTarget>> {
        self.depend_on(Fact::Overriding(gateway.clone()));
        let mut targets: Vec<_> = self.counts.overriding.at(gateway).collect();
        targets.sort_unstable();
        targets
    }

    /// The policies that take precedence, of one of the [targets](Self::overriding_targets) of a Gateway.
    pub(crate) fn overriding(
        &self,
        target: &Arc<PolicyTarget>,
    ) -> impl Iterator<Item = Overriding<'a>> {
        let policies = self.tables.get(&TargetUnit(Arc::clone(target)));
        let policies = policies.into_iter();
        policies.flat_map(|target| overriding(&target.policies))
    }

    /// The remaining settings of a policy, by rank, at a target.
    pub(crate) fn claimed_policy(
        &self,
        target: &Arc<PolicyTarget>,
        (phase, created, policy): (Phase, i64, &ObjectName),
    ) -> Option<&'a ClaimedPolicy> {
        self.depend_on(Fact::ClaimedPolicy(Arc::clone(target), policy.clone()));
        let target = self.tables.get(&TargetUnit(Arc::clone(target)))?;
        target.policies.get(&(phase, created, policy.clone()))
    }
}

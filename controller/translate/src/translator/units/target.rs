//! A target of traffic policies: which policy wins each field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{ObjectName, PolicySpec, PolicyTarget, Precedence};

use crate::budgets::Budget;
use crate::reader::Fact;
use crate::resolve::policy::{ClaimRank, ClaimedPolicy, Phase, assign_fields};
use crate::translator::unit::{Changes, State, Unit, UnitReader};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TargetUnit(pub(crate) Arc<PolicyTarget>);

impl Unit for TargetUnit {
    /// The remaining settings of each policy.
    type Output = BTreeMap<ClaimRank, ClaimedPolicy>;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let mut policies = reader.claims.policies.at(&self.0).map(assign_fields)?;
        let limit = reader.options().budgets.of(Budget::ResourceBytes);
        for ((_, _, name), policy) in &mut policies {
            policy.check_size(name, &self.0, limit);
        }
        Some(policies)
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let none = BTreeMap::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let ranks = old.keys().chain(new.keys());
        let changed = ranks.filter(|rank| old.get(*rank) != new.get(*rank));
        let policies: BTreeSet<&ObjectName> = changed.map(|(_, _, name)| name).collect();
        if !overriding(old).eq(overriding(new)) {
            changes.fact(Fact::Overrides(Arc::clone(&self.0)));
        }
        for policy in policies {
            let target = Arc::clone(&self.0);
            changes.fact(Fact::ClaimedPolicy(target, policy.clone()));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.policies.at(&self.0).is_some()
    }
}

/// The policies of a target that take precedence over others.
fn overriding(
    policies: &BTreeMap<ClaimRank, ClaimedPolicy>,
) -> impl Iterator<Item = (&ObjectName, &Arc<PolicySpec>)> {
    let policies = policies
        .iter()
        .map(|((_, _, name), policy)| (name, &policy.spec));
    policies.filter(|(_, spec)| spec.precedence == Precedence::Overrides)
}

impl<'a> UnitReader<'a> {
    /// The policies of a target that take precedence over those of targets within it.
    pub(super) fn overriding(
        &self,
        target: &Arc<PolicyTarget>,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Arc<PolicySpec>)> {
        self.depend_on(Fact::Overrides(Arc::clone(target)));
        let policies = self.tables.targets.get(&TargetUnit(Arc::clone(target)));
        policies.into_iter().flat_map(overriding)
    }

    /// The remaining settings of a policy, by rank, at a target.
    pub(super) fn claimed_policy(
        &self,
        target: &Arc<PolicyTarget>,
        (phase, created, policy): (Phase, i64, &ObjectName),
    ) -> Option<&'a ClaimedPolicy> {
        self.depend_on(Fact::ClaimedPolicy(Arc::clone(target), policy.clone()));
        let claimed_policy = self.tables.targets.get(&TargetUnit(Arc::clone(target)))?;
        claimed_policy.get(&(phase, created, policy.clone()))
    }
}

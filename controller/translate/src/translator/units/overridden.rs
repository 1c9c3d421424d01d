//! What a `TrafficPolicy` loses at a target to policies that take precedence: those of wider targets, and of the
//! same one.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, PolicySpec, PolicyTarget, Precedence};

use super::tokens::{gateway_of, gateways};
use super::{AttachedUnit, RouteKind, RouteName};
use crate::owner::{self, Owner};
use crate::problem::Problem;
use crate::reader::Fact;
use crate::resolve::policy::{overridden, set_fields, target_key};
use crate::status::Overridden;
use crate::translator::unit::UnitReader;

/// Listeners of a route for which its policies' statuses say what is overridden there: as many as a Gateway has of
/// its own. A route may have thousands, and a namespace thousands of policies for such routes.
const MOST_WAYS: usize = 64;

/// The targets that a request passes, the widest first.
type Way = Vec<Arc<PolicyTarget>>;

impl UnitReader<'_> {
    /// What the policy `name` loses of its settings at a target.
    pub(super) fn overridden(
        &self,
        name: &ObjectName,
        target: &Arc<PolicyTarget>,
        spec: &PolicySpec,
    ) -> Overridden {
        let mut problems: Vec<Problem> = Vec::new();
        let (ways, are_all) = self.ways(target, spec.precedence);
        let mut is_all = are_all && !ways.is_empty();
        for way in ways {
            let lost = self.overridden_on(&way, (name, target), spec);
            is_all &= lost.len() == set_fields(spec);
            let known = |new: &Problem| problems.iter().any(|it| it.field == new.field);
            let new: Vec<_> = lost.into_iter().filter(|it| !known(it)).collect();
            problems.extend(new);
        }
        Overridden {
            is_all: is_all && !problems.is_empty(),
            problems,
        }
    }

    /// What it loses to policies on one way: each field to that of the widest target.
    fn overridden_on(
        &self,
        way: &Way,
        (name, target): (&ObjectName, &Arc<PolicyTarget>),
        spec: &PolicySpec,
    ) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for wider in way {
            let others = self.overriding(wider);
            for (by, other) in others.filter(|(by, _)| *by != name || wider != target) {
                let at = target_key(wider).replacen('/', " ", 1);
                for problem in overridden(spec, by, &at, other) {
                    if problems.iter().all(|known| known.field != problem.field) {
                        problems.push(problem);
                    }
                }
            }
        }
        problems
    }

    /// The ways to a target, and whether these are all of them. It is itself the last step, unless its policy overrides others: of those the older
    /// one has won already.
    fn ways(&self, target: &Arc<PolicyTarget>, precedence: Precedence) -> (BTreeSet<Way>, bool) {
        let to_listener = |listener: &ListenerKey| {
            let owner = owner::of_listener(listener);
            let gateway = owner.as_ref().and_then(|owner| gateway_of(self, owner));
            let set = match owner {
                Some(Owner::ListenerSet(set)) => Some(PolicyTarget::ListenerSet(set)),
                Some(Owner::Gateway(_)) | None => None,
            };
            let gateway = gateway.cloned().map(PolicyTarget::Gateway);
            let listener = PolicyTarget::Listener(listener.clone());
            let way = gateway.into_iter().chain(set).chain([listener]);
            way.map(Arc::new).collect()
        };
        let mut are_all = true;
        let mut ways: BTreeSet<Way> = match &**target {
            PolicyTarget::Route { kind, object } | PolicyTarget::Rule { kind, object, .. } => {
                let listeners = self.listeners_of(kind, object);
                are_all = listeners.len() <= MOST_WAYS;
                listeners.iter().take(MOST_WAYS).map(to_listener).collect()
            }
            PolicyTarget::Listener(listener) => [to_listener(listener)].into(),
            PolicyTarget::Gateway(_) => [vec![Arc::clone(target)]].into(),
            PolicyTarget::ListenerSet(_) | PolicyTarget::Service(_) | PolicyTarget::Backend(_) => {
                let gateways = gateways(self, target);
                let gateways = gateways.iter().cloned().map(PolicyTarget::Gateway);
                gateways
                    .map(|gateway| vec![Arc::new(gateway), Arc::clone(target)])
                    .collect()
            }
        };
        if precedence == Precedence::Overrides {
            let without = |way: Way| way.into_iter().filter(|it| it != target).collect();
            ways = ways.into_iter().map(without).collect();
        }
        (ways, are_all)
    }

    /// The listeners that a route is attached to.
    fn listeners_of(&self, kind: &str, name: &ObjectName) -> Vec<ListenerKey> {
        let kind = RouteKind::of(kind);
        self.depend_on(Fact::CarriedRoute(kind.as_str(), name.clone()));
        let name = name.clone();
        let attached = self
            .tables
            .attached
            .get(&AttachedUnit(RouteName { kind, name }));
        attached
            .map(|it| it.listeners().to_vec())
            .unwrap_or_default()
    }
}

//! What a `TrafficPolicy` loses at a target to policies that take precedence: those of wider targets, and of the
//! same one.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, PolicySpec, PolicyTarget, Precedence};

use super::tokens::gateways;
use super::{AttachedUnit, RouteKind, RouteName};
use crate::owner::{self, Owner};
use crate::problem::Problem;
use crate::reader::Fact;
use crate::resolve::policy::{overridden, target_key};
use crate::translator::unit::UnitReader;

impl UnitReader<'_> {
    /// What the policy `name` loses of its settings at a target.
    pub(super) fn overridden(
        &self,
        name: &ObjectName,
        target: &Arc<PolicyTarget>,
        spec: &PolicySpec,
    ) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for wider in self.wider(target, spec.precedence) {
            for (by, other) in self.overriding(&wider) {
                if by == name && wider == *target {
                    continue;
                }
                let at = target_key(&wider).replacen('/', " ", 1);
                for problem in overridden(spec, by, &at, other) {
                    // The widest one wins.
                    if problems.iter().all(|known| known.field != problem.field) {
                        problems.push(problem);
                    }
                }
            }
        }
        problems
    }

    /// The targets whose overriding policies hold for a target, the widest first.
    fn wider(&self, target: &Arc<PolicyTarget>, precedence: Precedence) -> Vec<Arc<PolicyTarget>> {
        let mut wider: BTreeSet<PolicyTarget> = BTreeSet::new();
        let gateways = gateways(self, target);
        wider.extend(gateways.iter().cloned().map(PolicyTarget::Gateway));
        let listeners = match &**target {
            PolicyTarget::Route { kind, object } | PolicyTarget::Rule { kind, object, .. } => {
                self.listeners_of(kind, object)
            }
            PolicyTarget::Listener(listener) => vec![listener.clone()],
            _ => Vec::new(),
        };
        for listener in listeners {
            let set = match owner::of_listener(&listener) {
                Some(Owner::ListenerSet(set)) => Some(PolicyTarget::ListenerSet(set)),
                _ => None,
            };
            wider.extend(set);
            wider.insert(PolicyTarget::Listener(listener));
        }
        wider.insert(PolicyTarget::clone(target));
        if precedence == Precedence::Overrides {
            wider.remove(&**target);
        }
        // Gateways come before ListenerSets, and those before listeners.
        wider.into_iter().map(Arc::new).collect()
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

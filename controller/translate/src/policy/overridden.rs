//! What a `TrafficPolicy` loses at a target to policies that take precedence: those of wider targets, and of the
//! same one.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, PolicySpec, PolicyTarget, Precedence};

use super::precedence::{overridden, set_fields, target_key};
use super::status::Overridden;
use super::tokens::{gateway_of, gateways};
use crate::engine::outcome::Gateways;
use crate::engine::unit::UnitReader;
use crate::objects::owner;
use crate::route::name::{RouteKind, RouteName};
use crate::status::problem::Problem;
use crate::units::AttachedUnit;

/// Listeners of a route for which its policies' statuses say what is overridden there, if policies of listeners or
/// ListenerSets take precedence: as many as a Gateway has of its own. A route may have thousands, and a namespace
/// thousands of policies for such routes.
const MOST_WAYS: usize = 64;

/// The targets that a request passes and that have policies that take precedence, the widest first.
type Way<'a> = Vec<&'a Arc<PolicyTarget>>;

impl<'a> UnitReader<'a> {
    /// What the policy `name` loses of its settings at a target.
    pub(crate) fn overridden(
        &self,
        name: &ObjectName,
        target: &Arc<PolicyTarget>,
        spec: &PolicySpec,
    ) -> Overridden {
        let mut problems: Vec<Problem> = Vec::new();
        let (ways, are_all) = self.ways(target);
        let mut is_all = are_all && !ways.is_empty();
        for mut way in ways {
            // Of the policies of its own target that override others, the older one has won already.
            way.retain(|it| *it != target || spec.precedence == Precedence::Defaults);
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
        way: &Way<'_>,
        (name, target): (&ObjectName, &Arc<PolicyTarget>),
        spec: &PolicySpec,
    ) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for wider in way {
            let others = self.overriding(wider);
            for (by, other) in others.filter(|(by, _)| *by != name || *wider != target) {
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

    /// The different ways to a target, and whether these are all of them.
    fn ways(&self, target: &Arc<PolicyTarget>) -> (BTreeSet<Way<'a>>, bool) {
        let gateways = self.gateways_around(target);
        let overriding = gateways.iter().map(|it| (it, self.overriding_targets(it)));
        let overriding: Vec<_> = overriding.collect();
        let is_gateway =
            |target: &&Arc<PolicyTarget>| matches!(***target, PolicyTarget::Gateway(_));
        let (PolicyTarget::Route { kind, object } | PolicyTarget::Rule { kind, object, .. }) =
            &**target
        else {
            let ways = overriding.into_iter().map(|(_, mut targets)| {
                targets.retain(|it| is_on_way(it, target));
                targets
            });
            return (ways.collect(), true);
        };
        if overriding
            .iter()
            .all(|(_, targets)| targets.iter().all(is_gateway))
        {
            return (overriding.into_iter().map(|(_, it)| it).collect(), true);
        }
        let listeners = self.listeners_of(kind, object);
        let ways = listeners.iter().take(MOST_WAYS).map(|listener| {
            let gateway = || gateway_of(self, &owner::of_listener(listener)?);
            let gateway = if overriding.len() > 1 {
                gateway()
            } else {
                gateways.first()
            };
            let mut of_gateway = overriding.iter().filter(|(it, _)| Some(*it) == gateway);
            let targets = of_gateway.next().map(|(_, targets)| targets.iter());
            let listener = PolicyTarget::Listener(listener.clone());
            let on_way = targets.into_iter().flatten().copied();
            on_way.filter(|it| is_on_way(it, &listener)).collect()
        });
        (ways.collect(), listeners.len() <= MOST_WAYS)
    }

    /// The Gateways whose policies may override those of a target.
    fn gateways_around(&self, target: &PolicyTarget) -> Gateways {
        match target {
            // Also if they carry nothing.
            PolicyTarget::Gateway(gateway) => [gateway.clone()].into(),
            PolicyTarget::Listener(listener) => {
                let owner = owner::of_listener(listener);
                let gateway = owner.and_then(|owner| gateway_of(self, &owner));
                gateway.into_iter().cloned().collect()
            }
            _ => gateways(self, target),
        }
    }

    /// The listeners that a route is attached to.
    fn listeners_of(&self, kind: &str, name: &ObjectName) -> &'a [ListenerKey] {
        // It has been read that the route is carried, so a change of its listeners is seen.
        let route = RouteKind::named(kind).map(|kind| RouteName {
            kind,
            name: name.clone(),
        });
        let attached = route.and_then(|it| self.tables.get(&AttachedUnit(it)));
        attached.map_or(&[], |attached| attached.listeners())
    }
}

/// Whether requests of a listener, or to all of another target, pass a target that may override others.
fn is_on_way(overriding: &PolicyTarget, to: &PolicyTarget) -> bool {
    match overriding {
        PolicyTarget::Gateway(_) => true,
        PolicyTarget::ListenerSet(set) => match to {
            PolicyTarget::Listener(listener) => listener.listener_set().as_ref() == Some(set),
            _ => overriding == to,
        },
        _ => overriding == to,
    }
}

//! A route at its listeners: which ones accept it, which ones carry it, and its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, Route};

use super::candidate::attachments_by_gateway;
use super::closed::Starts;
use super::lowered::{ResolvedRoute, RouteParent};
use super::name::RouteName;
use super::status::RouteStatus;
use super::{conflict, lowered, rule_backends};
use crate::backend::upstream::Destination;
use crate::engine::emitted::Emitted;
use crate::engine::fact::Fact;
use crate::engine::outcome::Gateways;
use crate::engine::take_once::TakeOnce;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::status::Status;
use crate::status::problem::Problem;
use crate::units::{AttachedUnit, RouteSessionsUnit};

/// The result of attaching a route.
#[derive(Debug, PartialEq)]
pub(crate) struct AttachedRoute {
    status: TakeOnce<RouteStatus>,
    emitted: Emitted,
    /// Its rules that get session persistence from `XBackendTrafficPolicies`, by Gateway: which of
    /// these apply there depends on the users of their targets, so a later unit emits them.
    with_sessions: Box<[(Arc<Route>, ObjectName)]>,
    /// The listeners that count it as attached, in any state.
    counted: Box<[ListenerKey]>,
    /// The backends that it sends requests to, by Gateway.
    users: Box<[(Destination, ObjectName)]>,
    /// Where it is carried, if anywhere.
    carried: Option<Arc<CarriedRoute>>,
}

/// Where a route is carried.
#[derive(Debug, PartialEq)]
pub(crate) struct CarriedRoute {
    pub(crate) gateways: Gateways,
    /// The names of the rules that are.
    pub(crate) rules: BTreeSet<Arc<str>>,
}

impl Unit for AttachedUnit {
    type Output = AttachedRoute;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<AttachedRoute> {
        let route = reader.route(&self.0)?;
        let (outcomes, closed) = self.outcomes(reader, route);
        let left = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
        let left: BTreeSet<&ListenerKey> = left.flatten().copied().collect();
        let candidates = route.candidates.iter().filter(|candidate| {
            (left.contains(&candidate.listener) || closed.contains_key(&candidate.listener))
                && reader.carries_listener(&candidate.gateway, &candidate.listener)
        });
        let candidates = candidates.filter(|_| !route.templates.is_empty());
        let has_sessions = rules_with_sessions(reader, route);
        let (mut resources, mut with_sessions) = (Vec::new(), Vec::new());
        let mut users = BTreeSet::new();
        let mut gateways: BTreeSet<ObjectName> = BTreeSet::new();
        let closing = closing_rules(route, &closed);
        for (gateway, attachments) in attachments_by_gateway(candidates) {
            if self.has_no_closing_rule(reader, route, gateway) {
                continue;
            }
            gateways.insert(gateway.clone());
            let only: Gateways = [gateway.clone()].into();
            // A Gateway that does not take the route closes it at all of its listeners.
            let starts = attachments.iter().find_map(|it| closed.get(&it.listener));
            if let Some(starts) = starts {
                let closing = closing.iter().filter(|(it, _)| it == starts);
                let closing = closing.filter_map(|(_, rule)| rule.as_ref());
                let closing = closing.map(|rule| {
                    let rule = lowered::at(rule, gateway, &attachments);
                    (rule.into(), Arc::clone(&only))
                });
                resources.extend(closing);
                continue;
            }
            for (rule, has_sessions) in route.templates.iter().zip(&has_sessions) {
                let rule = lowered::at(rule, gateway, &attachments);
                let transport = rule.rule.transport();
                let targets = rule.rule.targets();
                let targets = targets.filter_map(|target| Destination::of(target, transport));
                users.extend(targets.map(|target| (target, gateway.clone())));
                if *has_sessions {
                    with_sessions.push((rule, gateway.clone()));
                } else {
                    resources.push((rule.into(), Arc::clone(&only)));
                }
            }
        }
        let carried = (!gateways.is_empty()).then(|| CarriedRoute {
            gateways: gateways.into_iter().collect(),
            rules: rule_names(route),
        });
        let counted = left.iter().filter(|_| !route.is_refused());
        let status = RouteStatus::of(route, &outcomes, &reader.options().controller_name);
        Some(AttachedRoute {
            status: TakeOnce::new(status),
            counted: counted.map(|listener| (*listener).clone()).collect(),
            emitted: Emitted::new(resources),
            with_sessions: with_sessions.into(),
            users: users.into_iter().collect(),
            carried: carried.map(Arc::new),
        })
    }

    fn publish(
        &self,
        old: Option<&AttachedRoute>,
        new: Option<&AttachedRoute>,
        changes: &mut Changes<'_>,
    ) {
        let (before, after) = (old.map(|it| &it.emitted), new.map(|it| &it.emitted));
        Emitted::publish(before, after, changes.outcome);
        if with_sessions(old) != with_sessions(new) {
            changes.run(RouteSessionsUnit(self.0.clone()));
        }
        let status = new.and_then(|route| route.status.take());
        if old.map(|route| &route.status) != new.map(|route| &route.status) {
            changes.status(self.0.object_ref(), status.map(Status::Route));
        }
        let carried = |route: Option<&AttachedRoute>| route.and_then(|it| it.carried.clone());
        let listeners = |route: Option<&AttachedRoute>| route.map(|it| it.counted.clone());
        if carried(old) != carried(new) || listeners(old) != listeners(new) {
            changes.fact(Fact::CarriedRoute(self.0.object_ref()));
        }
        let counted = |route: Option<&AttachedRoute>| {
            let listeners = route.map(|it| it.counted.clone()).unwrap_or_default();
            listeners.into_iter().map(|listener| (listener, ()))
        };
        let changed = changes.counts.routes.replace(counted(old), counted(new));
        for (listener, _) in changed {
            changes.fact(Fact::AttachedRoutes(listener));
        }
        changes.users(users(old).iter(), users(new).iter());
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.contains(&self.0.object_ref())
    }
}

impl AttachedRoute {
    /// The listeners that it is attached to.
    pub(crate) fn listeners(&self) -> &[ListenerKey] {
        &self.counted
    }
}

impl State {
    /// Whether a route has rules for [`RouteSessionsUnit`].
    pub(crate) fn has_sessions(&self, route: &RouteName) -> bool {
        let attached = self.tables.get(&AttachedUnit(route.clone()));
        attached.is_some_and(|attached| !attached.with_sessions.is_empty())
    }
}

/// The listeners that a route is attached to at a parent, or why it is to none.
type ParentOutcome<'a> = Result<Vec<&'a ListenerKey>, Problem>;

/// The rules that close a route, where they are needed: with literal starts of paths and without.
fn closing_rules(
    route: &ResolvedRoute,
    closed: &BTreeMap<&ListenerKey, Starts>,
) -> [(Starts, Option<Arc<Route>>); 2] {
    [Starts::Kept, Starts::LeftOut].map(|starts| {
        let is_needed = closed.values().any(|it| *it == starts);
        let rule = is_needed.then(|| route.closing_rule(starts));
        (starts, rule.flatten())
    })
}

impl AttachedUnit {
    /// What became of the route at each of its parents, and the listeners where rules close it.
    fn outcomes<'a>(
        &self,
        reader: &UnitReader<'a>,
        route: &'a ResolvedRoute,
    ) -> (Vec<ParentOutcome<'a>>, BTreeMap<&'a ListenerKey, Starts>) {
        let mut closed = BTreeMap::new();
        let outcomes = route.parents.iter().map(|parent| {
            let listeners = self.outcome(reader, route, parent)?;
            let Some((problem, starts)) = self.refusal(reader, route, parent) else {
                return Ok(listeners);
            };
            if let Some(starts) = starts {
                closed.extend(listeners.iter().map(|at| (*at, starts)));
            }
            Err(problem)
        });
        (outcomes.collect(), closed)
    }

    /// The listeners that are left of a parent, or why none is. A parent is lost with its last
    /// listener.
    fn outcome<'a>(
        &self,
        reader: &UnitReader<'a>,
        route: &ResolvedRoute,
        parent: &'a RouteParent,
    ) -> ParentOutcome<'a> {
        let attachments = parent.attached.as_ref().map_err(|it| (**it).clone())?;
        let mut left = Vec::with_capacity(attachments.len());
        let mut lost = None;
        for attachment in attachments {
            let listener = &attachment.listener;
            let can_conflict = self.0.kind.is_of_requests() && route.claims_hosts();
            let conflict = can_conflict.then(|| reader.conflicting_route(listener, &self.0));
            match conflict.flatten() {
                Some(other) => {
                    lost = Some(conflict::problem(other, listener, &parent.field));
                }
                None => left.push(listener),
            }
        }
        match lost {
            Some(problem) if left.is_empty() => Err(problem),
            _ => Ok(left),
        }
    }
}

impl AttachedUnit {
    /// Why the Gateway of a parent does not take the route, and what closes it, if there is room for that.
    fn refusal(
        &self,
        reader: &UnitReader<'_>,
        route: &ResolvedRoute,
        parent: &RouteParent,
    ) -> Option<(Problem, Option<Starts>)> {
        // A parent has the listeners of one Gateway. A route that is refused at all has its own reason.
        let attachments = parent.attached.as_ref().ok();
        let attachments = attachments.filter(|_| route.refusals.is_empty())?;
        let gateway = &attachments.first()?.gateway;
        if let Some(refusal) = reader.refused_by_view(gateway, &self.0) {
            let problem = reader.view_problem(gateway, refusal);
            let starts = refusal.is_closed.then_some(Starts::Kept);
            return Some((problem.under(&parent.field), starts));
        }
        if let Some(problem) = reader.closed_with_others(gateway, &self.0) {
            return Some((problem.under(&parent.field), Some(Starts::LeftOut)));
        }
        // Read only by those that have any, which are few.
        if route.expressions.is_empty() {
            return None;
        }
        let (problem, starts) = reader.refused_expressions(gateway, &self.0)?;
        Some((problem.under(&parent.field), Some(starts)))
    }

    /// Whether a Gateway has no room for what closes a route that is refused at all: there, [`ClosedHostsUnit`]
    /// closes its host names.
    fn has_no_closing_rule(
        &self,
        reader: &UnitReader<'_>,
        route: &ResolvedRoute,
        gateway: &ObjectName,
    ) -> bool {
        let refusal = route
            .is_closed()
            .then(|| reader.refused_by_view(gateway, &self.0));
        refusal.flatten().is_some_and(|it| !it.is_closed)
    }
}

/// Which rules of a route have backends with session persistence of an XBackendTrafficPolicy. Rules
/// are the same at each listener.
fn rules_with_sessions(reader: &UnitReader<'_>, route: &ResolvedRoute) -> Vec<bool> {
    let has_sessions = route.templates.iter().map(|rule| {
        let mut upstreams = rule_backends::without_session(&rule.rule);
        upstreams.any(|upstream| reader.session(&upstream).is_some())
    });
    has_sessions.collect()
}

fn users(route: Option<&AttachedRoute>) -> &[(Destination, ObjectName)] {
    route.map_or(&[], |route| &route.users)
}

fn with_sessions(route: Option<&AttachedRoute>) -> &[(Arc<Route>, ObjectName)] {
    route.map_or(&[], |route| &route.with_sessions)
}

fn rule_names(route: &ResolvedRoute) -> BTreeSet<Arc<str>> {
    let names = route.rules.iter().filter_map(|rule| rule.name.clone());
    names.collect()
}

impl<'a> UnitReader<'a> {
    /// The rules of a route that [`RouteSessionsUnit`] emits. [`AttachedUnit`] has it run when they change.
    pub(crate) fn rules_with_sessions(&self, route: &RouteName) -> &'a [(Arc<Route>, ObjectName)] {
        let attached = self.tables.get(&AttachedUnit(route.clone()));
        attached.map_or(&[], |attached| &attached.with_sessions)
    }

    /// Where a route is carried.
    pub(crate) fn carried_route(&self, route: RouteName) -> Option<&'a CarriedRoute> {
        self.depend_on(Fact::CarriedRoute(route.object_ref()));
        let carried = self.tables.get(&AttachedUnit(route))?.carried.as_ref()?;
        Some(carried)
    }
}

//! A route at its listeners: which ones accept it, which ones carry it, and its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, Route};

use super::{RouteKind, RouteName, RouteSessionsUnit};
use crate::lower::expressions::without_expressions;
use crate::lower::route::{ResolvedRoute, RouteParent};
use crate::lower::{route_conflict, rule_backends};
use crate::problem::Problem;
use crate::reader::Fact;
use crate::status::{RouteStatus, Status};
use crate::store::ObjectRef;
use crate::translator::emitted::{Emitted, Gateways};
use crate::translator::take_once::TakeOnce;
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::upstream::Upstream;

/// A route by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AttachedUnit(pub(crate) RouteName);

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
    users: Box<[(Upstream, ObjectName)]>,
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
        let parents = route.parents.iter();
        let mut closed = BTreeSet::new();
        let outcomes: Vec<_> = parents
            .map(|parent| {
                let listeners = self.outcome(reader, route, parent)?;
                match self.refused_expressions(reader, route, parent) {
                    None => Ok(listeners),
                    Some(problem) => {
                        closed.extend(listeners);
                        Err(problem)
                    }
                }
            })
            .collect();
        let left = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
        let left: BTreeSet<&ListenerKey> = left.flatten().copied().collect();
        let candidates = route.candidates.iter().filter(|candidate| {
            (left.contains(&candidate.listener) || closed.contains(&candidate.listener))
                && reader.carries_listener(&candidate.gateway, &candidate.listener)
        });
        let has_sessions = rules_with_sessions(reader, route);
        let (mut resources, mut with_sessions) = (Vec::new(), Vec::new());
        let mut users = BTreeSet::new();
        let mut gateways: BTreeMap<ObjectName, Gateways> = BTreeMap::new();
        for candidate in candidates.filter(|_| !route.templates.is_empty()) {
            let gateway = &candidate.gateway;
            let only = gateways.entry(gateway.clone());
            let only = only.or_insert_with(|| [gateway.clone()].into());
            let is_closed = closed.contains(&candidate.listener);
            for (rule, has_sessions) in route.rules_at(candidate).zip(&has_sessions) {
                let rule = if is_closed {
                    Arc::new(without_expressions(&rule, &route.expressions))
                } else {
                    rule
                };
                let targets = rule.rule.targets().filter_map(Upstream::of);
                users.extend(targets.map(|target| (target, gateway.clone())));
                if *has_sessions && !is_closed {
                    with_sessions.push((rule, gateway.clone()));
                } else {
                    resources.push((rule.into(), Arc::clone(only)));
                }
            }
        }
        let carried = (!gateways.is_empty()).then(|| CarriedRoute {
            gateways: all_of(gateways),
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
        let RouteName { kind, name } = &self.0;
        let kind = kind.as_str();
        let (before, after) = (old.map(|it| &it.emitted), new.map(|it| &it.emitted));
        Emitted::publish(before, after, changes.outcome);
        if with_sessions(old) != with_sessions(new) {
            changes.run(RouteSessionsUnit(self.0.clone()));
        }
        let status = new.and_then(|route| route.status.take());
        if old.map(|route| &route.status) != new.map(|route| &route.status) {
            let object = ObjectRef::route(kind, name);
            changes.status(object, status.map(Status::Route));
        }
        let carried = |route: Option<&AttachedRoute>| route.and_then(|it| it.carried.clone());
        if carried(old) != carried(new) {
            changes.fact(Fact::CarriedRoute(kind, name.clone()));
        }
        let counted = |route: Option<&AttachedRoute>| {
            let listeners = route.map(|it| it.counted.clone()).unwrap_or_default();
            listeners.into_iter().map(|listener| (listener, ()))
        };
        let changed = changes.counts.routes.replace(counted(old), counted(new));
        for (listener, _) in changed {
            changes.fact(Fact::AttachedRoutes(listener));
        }
        let users = |route: Option<&AttachedRoute>| {
            let users = route.map(|it| it.users.clone()).unwrap_or_default();
            users.into_iter()
        };
        changes.users(users(old), users(new));
    }

    fn is_alive(&self, state: &State) -> bool {
        state.has_route(&self.0)
    }
}

impl State {
    /// Whether a route has rules for [`RouteSessionsUnit`].
    pub(super) fn has_sessions(&self, route: &RouteName) -> bool {
        let attached = self.tables.attached.get(&AttachedUnit(route.clone()));
        attached.is_some_and(|attached| !attached.with_sessions.is_empty())
    }
}

impl AttachedUnit {
    /// The listeners that are left of a parent, or why none is. A parent is lost with its last
    /// listener.
    fn outcome<'a>(
        &self,
        reader: &UnitReader<'a>,
        route: &ResolvedRoute,
        parent: &'a RouteParent,
    ) -> Result<Vec<&'a ListenerKey>, Problem> {
        let attachments = parent.attached.as_ref().map_err(|it| (**it).clone())?;
        // A parent has the listeners of one Gateway.
        let gateway = attachments.first().map(|it| &it.gateway);
        if let Some(problem) = gateway.and_then(|it| reader.refused_by_view(it, &self.0)) {
            return Err(problem.under(&parent.field));
        }
        let mut left = Vec::with_capacity(attachments.len());
        let mut lost = None;
        let RouteName { kind, name } = &self.0;
        let kind = kind.as_str();
        for attachment in attachments {
            let listener = &attachment.listener;
            let can_conflict = route_conflict::can_conflict(kind) && !route.is_refused();
            let conflict = can_conflict.then(|| reader.conflicting_route(listener, (kind, name)));
            match conflict.flatten() {
                Some(other) => {
                    lost = Some(route_conflict::problem(other, listener, &parent.field));
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
    /// Why the Gateway of a parent does not take the route with its expressions.
    fn refused_expressions(
        &self,
        reader: &UnitReader<'_>,
        route: &ResolvedRoute,
        parent: &RouteParent,
    ) -> Option<Problem> {
        // Read only by those that have any, which are few.
        let attachments = parent.attached.as_ref().ok();
        let attachments = attachments.filter(|_| !route.expressions.is_empty())?;
        let problem = reader.refused_expressions(&attachments.first()?.gateway, &self.0)?;
        Some(problem.under(&parent.field))
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

fn with_sessions(route: Option<&AttachedRoute>) -> &[(Arc<Route>, ObjectName)] {
    route.map_or(&[], |route| &route.with_sessions)
}

/// All Gateways; of a single one, the list that exists.
fn all_of(gateways: BTreeMap<ObjectName, Gateways>) -> Gateways {
    match gateways.first_key_value() {
        Some((_, only)) if gateways.len() == 1 => Arc::clone(only),
        _ => gateways.into_keys().collect(),
    }
}

fn rule_names(route: &ResolvedRoute) -> BTreeSet<Arc<str>> {
    let names = route.rules.iter().filter_map(|rule| rule.name.clone());
    names.collect()
}

impl<'a> UnitReader<'a> {
    /// The rules of a route that [`RouteSessionsUnit`] emits. [`AttachedUnit`] has it run when they change.
    pub(super) fn rules_with_sessions(&self, route: &RouteName) -> &'a [(Arc<Route>, ObjectName)] {
        let attached = self.tables.attached.get(&AttachedUnit(route.clone()));
        attached.map_or(&[], |attached| &attached.with_sessions)
    }

    /// Where a route is carried.
    pub(super) fn carried_route(
        &self,
        kind: &'static str,
        name: &ObjectName,
    ) -> Option<&'a CarriedRoute> {
        self.depend_on(Fact::CarriedRoute(kind, name.clone()));
        let (kind, name) = (RouteKind::of(kind), name.clone());
        let unit = AttachedUnit(RouteName { kind, name });
        let carried = self.tables.attached.get(&unit)?.carried.as_ref()?;
        Some(carried)
    }
}

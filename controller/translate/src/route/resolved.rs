//! Resolves a route: its rules, and what its parents' listeners offer it.

use std::collections::HashSet;
use std::sync::Arc;

use xds::model::{Hostname, ListenerKey, ObjectName};

use super::api::{
    DefaultScope, GrpcRoute, HttpRoute, ParentReference, TcpRoute, TlsRoute, UdpRoute,
};
use super::cost::{ListenersCost, RouteCost, RuleSize};
use super::defect::closed_rule;
use super::expressions::RouteExpressions;
use super::lowered::{ResolvedRoute, RouteParent, hostnames};
use super::name::{RouteKind, RouteName};
use super::object::RouteObject;
use super::parent::{Attachment, RouteToAttach};
use super::rule::{LoweredRule, RuleContext};
use super::{closed, cost, lowered, parent};
use crate::backend::referrer::Referrer;
use crate::budgets::views::RouteRank;
use crate::budgets::{Budget, Limits, Use};
use crate::engine::claims::{Age, ExpressionClaim};
#[cfg(any(test, feature = "test-hooks"))]
use crate::engine::defects::panic_if_wanted;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, Instead, State, Unit, UnitReader};
use crate::gateway::api::RouteGroupKind;
use crate::objects::kinds::{ObjectKind, WrittenKind};
use crate::objects::owner::Owner;
use crate::status::problem::Problem;
use crate::status::reason::Reason;
use crate::units::{ClosedHostsUnit, ExpressionsUnit, RouteConflictsUnit, RouteUnit, ViewUnit};

impl Unit for RouteUnit {
    type Output = ResolvedRoute;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<ResolvedRoute> {
        #[cfg(any(test, feature = "test-hooks"))]
        panic_if_wanted(&self.0.name);
        self.resolve(reader, Rules::Lowered)
    }

    fn instead(&self, reader: &UnitReader<'_>) -> Instead<ResolvedRoute> {
        match reader.tables.get(self) {
            Some(_) => Instead::Old,
            None => Instead::New(self.resolve(reader, Rules::Closed)),
        }
    }

    fn publish(
        &self,
        old: Option<&ResolvedRoute>,
        new: Option<&ResolvedRoute>,
        changes: &mut Changes<'_>,
    ) {
        let object = self.0.object_ref();
        changes.fact(Fact::Route(object.clone()));
        if !has_same_names(old, new) {
            changes.fact(Fact::RuleNames(object.clone()));
        }
        changes.uses(&object, uses(old), uses(new));
        let views = &mut changes.claims.views;
        for gateway in views.replace(&self.0, costs(old), costs(new)) {
            changes.run(ViewUnit(gateway.clone()));
            changes.run(ClosedHostsUnit(gateway));
        }
        let expressions = &mut changes.claims.expressions;
        let claims_of = |route| expression_claims(&self.0, route);
        for gateway in expressions.replace(claims_of(old), claims_of(new)) {
            changes.run(ExpressionsUnit(gateway));
        }
        changes.ours(&object, (old.is_some(), new.is_some()));
        let name = &self.0.name;
        let table = match self.0.kind {
            RouteKind::Http => &mut changes.claims.http_routes,
            RouteKind::Grpc => &mut changes.claims.grpc_routes,
            RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => return,
        };
        let listeners = table.replace(claims(name, old), claims(name, new));
        for listener in listeners {
            changes.run(RouteConflictsUnit(listener));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.contains(&self.0.object_ref())
    }
}

fn uses(route: Option<&ResolvedRoute>) -> &[(Budget, Use)] {
    route.map_or(&[], |route| &route.uses)
}

/// Its creation time, and what it adds to the view of each Gateway.
fn costs(route: Option<&ResolvedRoute>) -> Option<(i64, &[(ObjectName, RouteCost)])> {
    route.map(|route| (route.created, &*route.costs))
}

/// Whether a route's rules have the same names as before.
fn has_same_names(old: Option<&ResolvedRoute>, new: Option<&ResolvedRoute>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            let (old, new) = (old.rules.iter(), new.rules.iter());
            old.map(|rule| &rule.name).eq(new.map(|rule| &rule.name))
        }
        (None, None) => true,
        _ => false,
    }
}

fn claims(
    name: &ObjectName,
    route: Option<&ResolvedRoute>,
) -> impl Iterator<Item = (ListenerKey, Age, Arc<[Hostname]>)> {
    let route = route.filter(|route| route.claims_hosts());
    route.into_iter().flat_map(move |route| {
        route.attachments().map(move |attachment| {
            let hostnames = Arc::clone(&attachment.hostnames);
            (
                attachment.listener.clone(),
                (route.created, name.clone()),
                hostnames,
            )
        })
    })
}

/// Its expressions at the Gateways that carry it.
fn expression_claims(
    name: &RouteName,
    route: Option<&ResolvedRoute>,
) -> impl Iterator<Item = (ObjectName, RouteRank, ExpressionClaim)> {
    let route = route.filter(|route| route.refusals.is_empty() && !route.expressions.is_empty());
    route.into_iter().flat_map(move |route| {
        let bytes = route.expression_bytes();
        let start_bytes = closed::start_bytes(route.templates.iter().map(|it| &it.rule));
        route.gateways().into_iter().map(move |gateway| {
            let claim = ExpressionClaim {
                expressions: Arc::clone(&route.expressions),
                bytes,
                start_bytes,
            };
            let rank = (route.created, name.clone());
            (gateway.clone(), rank, claim)
        })
    })
}

/// What a route is resolved with.
#[derive(Clone, Copy)]
enum Rules {
    /// Its rules.
    Lowered,
    /// What closes it, since they cannot be lowered.
    Closed,
}

impl RouteUnit {
    fn resolve(&self, reader: &UnitReader<'_>, rules: Rules) -> Option<ResolvedRoute> {
        let name = &self.0.name;
        let kind = self.0.kind;
        match kind {
            RouteKind::Http => resolve::<HttpRoute>(reader, kind, name, rules),
            RouteKind::Grpc => resolve::<GrpcRoute>(reader, kind, name, rules),
            RouteKind::Tls => resolve::<TlsRoute>(reader, kind, name, rules),
            RouteKind::Tcp => resolve::<TcpRoute>(reader, kind, name, rules),
            RouteKind::Udp => resolve::<UdpRoute>(reader, kind, name, rules),
        }
    }
}

fn resolve<T: RouteObject>(
    reader: &UnitReader<'_>,
    route_kind: RouteKind,
    name: &ObjectName,
    rules: Rules,
) -> Option<ResolvedRoute> {
    let object = reader.object::<T>(name)?;
    let (hostnames, refusals) = hostnames(object.hostnames());
    let kind = RouteGroupKind {
        group: T::KIND.group().to_owned(),
        kind: T::KIND.name().to_owned(),
    };
    let attaching = RouteToAttach {
        kind: &kind,
        namespace: &name.namespace,
        hostnames: &hostnames,
    };
    let parents: Box<[RouteParent]> = references(reader, &**object)
        .filter_map(|(field, reference)| {
            let attached = attach(reader, &attaching, &reference)?;
            Some(RouteParent {
                attached: attached.map_err(|problem| match &*problem.field {
                    "" => Box::new(problem.under(&field)),
                    _ => Box::new(problem),
                }),
                field: field.as_str().into(),
                reference,
            })
        })
        .collect();
    if parents.is_empty() {
        return None;
    }
    let limits = &reader.options().budgets;
    let expressions = RouteExpressions::new(limits);
    let rules = match rules {
        Rules::Lowered => lower_rules(reader, name, &**object, &expressions),
        Rules::Closed => vec![closed_rule(route_kind)],
    };
    let metadata = object.metadata();
    // Without any valid host name, it would close all hosts.
    let has_hosts = refusals.is_empty() || !hostnames.is_empty();
    let candidates = has_hosts.then(|| lowered::candidates(&parents));
    let mut route = ResolvedRoute {
        created: metadata.created(),
        generation: metadata.generation(),
        rules: Box::default(),
        refusals,
        parents,
        uses: expressions.uses(limits),
        expressions: expressions.into_patterns(),
        candidates: candidates.unwrap_or_default(),
        closed_bytes: 0,
        templates: Box::default(),
        costs: Box::default(),
    };
    let sizes = cost::of_rules(&rules);
    check_rules(rules.len(), &mut route, limits);
    let listeners = ListenersCost::by_gateway(&route.candidates);
    check_bytes(&sizes, &listeners, &mut route, limits);
    route.take_rules(T::KIND.name(), name, rules, (&sizes, &listeners));
    Some(route)
}

fn lower_rules<T: RouteObject>(
    reader: &UnitReader<'_>,
    name: &ObjectName,
    object: &T,
    expressions: &RouteExpressions,
) -> Vec<LoweredRule> {
    let rules = object.rules().iter().enumerate();
    let rules = rules.map(|(index, rule)| {
        let context = RuleContext {
            reader,
            from: Referrer::of::<T>(&name.namespace, T::CARRIES),
            route: name,
            expressions,
            index,
        };
        T::lower(&context, rule)
    });
    rules.collect()
}

/// Refuses a route whose rules are too many in total.
fn check_rules(rules: usize, route: &mut ResolvedRoute, limits: &Limits) {
    let listeners = route.candidates.len();
    let limit = limits.of(Budget::RouteRules);
    let used = rules.saturating_mul(listeners) as u64;
    let of_object = Use::of_object(used, limit);
    route
        .uses
        .extend(of_object.map(|it| (Budget::RouteRules, it)));
    if used > limit {
        let message = format!(
            "{rules} rules at {listeners} listeners exceed the limit of {limit} in total: name fewer \
             listeners, or split the route"
        );
        let problem = Problem::new(Reason::UnsupportedValue, "spec.parentRefs", message);
        route.refusals.push(problem);
    }
}

/// Refuses a route whose rules take too many bytes in total: at each Gateway once, with their listeners.
fn check_bytes(
    rules: &[RuleSize],
    listeners: &[(ObjectName, ListenersCost)],
    route: &mut ResolvedRoute,
    limits: &Limits,
) {
    let bytes: usize = rules.iter().map(|it| it.bytes).sum();
    let of_gateways = listeners
        .iter()
        .map(|(_, listeners)| bytes.saturating_add(rules.len().saturating_mul(listeners.bytes())));
    let used = of_gateways.fold(0, usize::saturating_add) as u64;
    let limit = limits.of(Budget::RouteBytes);
    let of_object = Use::of_object(used, limit);
    route
        .uses
        .extend(of_object.map(|it| (Budget::RouteBytes, it)));
    if used > limit {
        let message = format!(
            "the rules take {used} bytes with the names of their listeners, once for each Gateway, which exceeds \
             the limit of {}: name fewer listeners, or split the route",
            Budget::RouteBytes.definition().unit.text(limit)
        );
        let problem = Problem::new(Reason::RouteTooLarge, "spec.parentRefs", message);
        route.refusals.push(problem);
    }
}

/// The parents of a route, each with the field that names it: its references, then the default
/// Gateways that it does not reference as a whole.
fn references<T: RouteObject>(
    reader: &UnitReader<'_>,
    object: &T,
) -> impl Iterator<Item = (String, Arc<ParentReference>)> {
    let named = object.parent_refs();
    let namespace = &*object.metadata().name.namespace;
    let defaults = match object.default_scope() {
        DefaultScope::All => Some(reader.default_gateways()),
        DefaultScope::None => None,
    };
    let is_named = move |gateway: &ObjectName| {
        let owner = Some(Owner::Gateway(gateway.clone()));
        let mut whole = named
            .iter()
            .filter(|it| it.section_name.is_none() && it.port.is_none());
        whole.any(|it| parent::owner(it, namespace) == owner)
    };
    let defaults = defaults.into_iter().flatten();
    let defaults = defaults.filter(move |gateway| !is_named(gateway));
    let defaults = defaults.map(|gateway| {
        let reference = ParentReference {
            group: ObjectKind::Gateway.group().into(),
            kind: ObjectKind::Gateway.name().into(),
            namespace: Some((&*gateway.namespace).into()),
            name: (&*gateway.name).into(),
            section_name: None,
            port: None,
        };
        ("spec.useDefaultGateways".to_owned(), Arc::new(reference))
    });
    let named = named.iter().enumerate();
    let named = named.map(|(index, it)| (format!("spec.parentRefs[{index}]"), Arc::clone(it)));
    named.chain(defaults)
}

/// The attachment to a parent; `None` if the parent belongs to another controller.
fn attach(
    reader: &UnitReader<'_>,
    route: &RouteToAttach<'_>,
    reference: &ParentReference,
) -> Option<Result<Box<[Attachment]>, Problem>> {
    let owner = parent::owner(reference, route.namespace);
    let offers = owner.as_ref().and_then(|owner| reader.offers(owner));
    let Some(offers) = offers else {
        return unclaimed(reader, route.namespace, reference).map(Err);
    };
    Some(match (&offers.gateway, owner) {
        (Ok(gateway), _) => parent::attach(reader, route, reference, gateway, &offers.listeners),
        (Err(problem), Some(owner)) => Err(parent::not_attached(owner.name(), problem)),
        (Err(problem), None) => Err(problem.clone()),
    })
}

/// On one machine no other controller could report on the parent, so report it here.
fn unclaimed(
    reader: &UnitReader<'_>,
    namespace: &str,
    reference: &ParentReference,
) -> Option<Problem> {
    if !reader.is_machine() {
        return None;
    }
    let message = match parent::owner(reference, namespace) {
        Some(Owner::ListenerSet(name)) => format!("ListenerSet {name} does not exist: create it"),
        None => format!(
            "a route cannot attach to {}: refer to a Gateway or a ListenerSet",
            WrittenKind {
                group: &reference.group,
                kind: &reference.kind
            }
        ),
        Some(Owner::Gateway(name)) if reader.exists(ObjectKind::Gateway, &name) => {
            let classes = reader.options().classes.iter();
            let classes: Vec<&str> = classes.map(String::as_str).collect();
            format!(
                "Gateway {name} has a class that is not served here: change its gatewayClassName to \
                 `{}`",
                classes.join("` or `")
            )
        }
        Some(Owner::Gateway(name)) => format!("Gateway {name} does not exist: create it"),
    };
    Some(Problem::new(Reason::NoMatchingParent, "", message))
}

impl<'a> UnitReader<'a> {
    /// A route with its references resolved.
    pub(crate) fn route(&self, route: &RouteName) -> Option<&'a ResolvedRoute> {
        self.depend_on(Fact::Route(route.object_ref()));
        self.tables.get(&RouteUnit(route.clone()))
    }

    /// Names of the rules of a route of this controller.
    pub(crate) fn rule_names(&self, route: RouteName) -> Option<HashSet<&'a str>> {
        self.depend_on(Fact::RuleNames(route.object_ref()));
        let route = self.tables.get(&RouteUnit(route))?;
        Some(
            route
                .rules
                .iter()
                .filter_map(|rule| rule.name.as_deref())
                .collect(),
        )
    }
}

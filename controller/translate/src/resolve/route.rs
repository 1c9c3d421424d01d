//! Routes of every kind: their rules, and what each of their parents makes of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use xds::model::{Hostname, ObjectName};

use super::World;
use super::backend::Referrer;
use super::gateway::Gateways;
use super::parent::{self, Attaching, Attachment, Parent};
use super::route_conflict;
use super::route_object::RouteObject;
use crate::api::{self, ObjectMeta, ParentReference, Resource as _, RouteGroupKind};
use crate::lower::rule::{LoweredRule, Site};
use crate::options::Place;
use crate::problem::Problem;
use crate::status::Reason;
use crate::store::ObjectRef;

/// A route, and what is wrong with it.
pub(crate) struct Route<'a> {
    pub(crate) kind: &'static str,
    pub(crate) name: &'a ObjectName,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) rules: Vec<LoweredRule<'a>>,
    /// Why it is refused whatever its rules say.
    pub(crate) refusals: Vec<Problem>,
    pub(crate) parents: Vec<RouteParent<'a>>,
}

/// One of its parents that are ours.
pub(crate) struct RouteParent<'a> {
    pub(crate) reference: &'a ParentReference,
    /// The Gateway, by its place in the list, and the listeners; or why there is none.
    pub(crate) attached: Result<(usize, Vec<Attachment>), Problem>,
}

impl Route<'_> {
    pub(crate) fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            group: Cow::Borrowed(api::GATEWAY_GROUP),
            kind: Cow::Borrowed(self.kind),
            name: self.name.clone(),
        }
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_refused(&self) -> bool {
        let no_rule = self.rules.iter().all(|rule| !rule.problems.is_empty());
        !self.refusals.is_empty() || (no_rule && !self.rules.is_empty())
    }
}

/// All routes that name a parent of ours. Counts them at their listeners.
pub(crate) fn resolve_all<'a>(world: &World<'a>, gateways: &mut Gateways<'a>) -> Vec<Route<'a>> {
    let store = world.store;
    let mut routes = resolve_kind(world, gateways, &store.http_routes);
    routes.extend(resolve_kind(world, gateways, &store.grpc_routes));
    route_conflict::between_http_and_grpc(&mut routes, gateways);
    routes.extend(resolve_kind(world, gateways, &store.tls_routes));
    routes.extend(resolve_kind(world, gateways, &store.tcp_routes));
    routes.extend(resolve_kind(world, gateways, &store.udp_routes));
    for route in &routes {
        count(route, gateways);
    }
    routes
}

fn resolve_kind<'a, T: RouteObject>(
    world: &World<'a>,
    gateways: &Gateways<'_>,
    objects: &'a BTreeMap<ObjectName, T>,
) -> Vec<Route<'a>> {
    let kind = RouteGroupKind {
        group: T::GROUP.to_owned(),
        kind: T::KIND.to_owned(),
    };
    let routes = objects.iter();
    routes
        .filter_map(|(name, object)| resolve(world, gateways, &kind, name, object))
        .collect()
}

fn resolve<'a, T: RouteObject>(
    world: &World<'a>,
    gateways: &Gateways<'_>,
    kind: &RouteGroupKind,
    name: &'a ObjectName,
    object: &'a T,
) -> Option<Route<'a>> {
    let (hostnames, refusals) = hostnames(object.hostnames());
    let attaching = Attaching {
        kind,
        namespace: &name.namespace,
        hostnames: &hostnames,
    };
    let references = object.parent_refs().iter().enumerate();
    let parents: Vec<_> = references
        .filter_map(|(index, reference)| {
            let attached = match Parent::of(reference, &name.namespace, gateways) {
                Parent::Ours(gateway) => {
                    parent::attach(&attaching, reference, &gateways.list[gateway])
                        .map(|attachments| (gateway, attachments))
                }
                Parent::Refused(problem) => Err(problem),
                Parent::NotOurs => Err(unclaimed(world, &name.namespace, reference)?),
            };
            let at = || format!("spec.parentRefs[{index}]");
            let attached = attached.map_err(|problem| match &*problem.field {
                "" => problem.under(at()),
                _ => problem,
            });
            Some(RouteParent {
                reference,
                attached,
            })
        })
        .collect();
    if parents.is_empty() {
        return None;
    }
    let rules = object.rules().iter().enumerate();
    let rules = rules.map(|(index, rule)| {
        let site = Site {
            world,
            from: Referrer::of::<T>(&name.namespace, T::CARRIES),
            route: name,
            index,
        };
        T::lower(&site, rule)
    });
    Some(Route {
        kind: T::KIND,
        name,
        metadata: object.metadata(),
        rules: rules.collect(),
        refusals,
        parents,
    })
}

fn hostnames(texts: &[String]) -> (Vec<Hostname>, Vec<Problem>) {
    let mut hostnames = Vec::with_capacity(texts.len());
    let mut problems = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match Hostname::parse(text) {
            Ok(hostname) => hostnames.push(hostname),
            Err(error) => {
                let field = format!("spec.hostnames[{index}]");
                problems.push(Problem::new(Reason::UnsupportedValue, field, error));
            }
        }
    }
    (hostnames, problems)
}

/// On one machine nobody else could answer for a parent, so the user hears of it from us.
fn unclaimed(world: &World<'_>, namespace: &str, reference: &ParentReference) -> Option<Problem> {
    let Place::Machine { .. } = world.options.place else {
        return None;
    };
    let name = ObjectName::new(
        reference.namespace.as_deref().unwrap_or(namespace),
        &reference.name,
    );
    let kind = (&*reference.group, &*reference.kind);
    let message = if kind == (api::ListenerSet::GROUP, api::ListenerSet::KIND) {
        format!("ListenerSet {name} does not exist: create it")
    } else if kind != (api::Gateway::GROUP, api::Gateway::KIND) {
        format!(
            "a route cannot attach to kind `{}` of group `{}`: refer to a Gateway or a ListenerSet",
            reference.kind, reference.group
        )
    } else if world.store.gateways.contains_key(&name) {
        let classes: Vec<&str> = world.options.classes.iter().map(String::as_str).collect();
        format!(
            "Gateway {name} is of a class that is not served here: make its gatewayClassName `{}`",
            classes.join("` or `")
        )
    } else {
        format!("Gateway {name} does not exist: create it")
    };
    Some(Problem::new(Reason::NoMatchingParent, "", message))
}

/// Counts an accepted route once at each of its listeners, whatever state they are in.
fn count(route: &Route<'_>, gateways: &mut Gateways<'_>) {
    if route.is_refused() {
        return;
    }
    let attached = route
        .parents
        .iter()
        .filter_map(|it| it.attached.as_ref().ok());
    let mut counted: Vec<(usize, usize)> = attached
        .flat_map(|(gateway, attachments)| attachments.iter().map(|it| (*gateway, it.listener)))
        .collect();
    counted.sort_unstable();
    counted.dedup();
    for (gateway, listener) in counted {
        gateways.list[gateway].listeners[listener].attached += 1;
    }
}

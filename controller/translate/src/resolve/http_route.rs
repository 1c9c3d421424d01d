//! HTTPRoute: its rules, and what each of its parents makes of it.

use xds::model::{Hostname, ObjectName};

use super::World;
use super::gateway::Gateways;
use super::parent::{self, Attaching, Attachment, Parent};
use crate::api::{self, ParentReference, Resource as _, RouteGroupKind};
use crate::lower::rule::{self, LoweredRule};
use crate::options::Place;
use crate::problem::Problem;
use crate::status::Reason;

/// A route, and what is wrong with it.
pub(crate) struct HttpRoute<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a api::HttpRoute,
    pub(crate) rules: Vec<LoweredRule>,
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

impl HttpRoute<'_> {
    /// Whether nothing of it is left.
    pub(crate) fn is_refused(&self) -> bool {
        let no_rule = self.rules.iter().all(|rule| !rule.problems.is_empty());
        !self.refusals.is_empty() || (no_rule && !self.rules.is_empty())
    }
}

/// All routes that name a parent of ours. Counts them at their listeners.
pub(crate) fn resolve_all<'a>(
    world: &World<'a>,
    gateways: &mut Gateways<'a>,
) -> Vec<HttpRoute<'a>> {
    let kind = RouteGroupKind {
        group: api::HttpRoute::GROUP.to_owned(),
        kind: api::HttpRoute::KIND.to_owned(),
    };
    let mut routes = Vec::with_capacity(world.store.http_routes.len());
    for (name, object) in &world.store.http_routes {
        if let Some(route) = resolve(world, gateways, &kind, name, object) {
            count(&route, gateways);
            routes.push(route);
        }
    }
    routes
}

fn resolve<'a>(
    world: &World<'a>,
    gateways: &Gateways<'_>,
    kind: &RouteGroupKind,
    name: &'a ObjectName,
    object: &'a api::HttpRoute,
) -> Option<HttpRoute<'a>> {
    let (hostnames, refusals) = hostnames(object);
    let attaching = Attaching {
        kind,
        namespace: &name.namespace,
        hostnames: &hostnames,
    };
    let references = object.spec.parent_refs.iter().enumerate();
    let parents: Vec<_> = references
        .filter_map(|(index, reference)| {
            let attached = match Parent::of(reference, &name.namespace, gateways) {
                Parent::Ours(gateway) => {
                    parent::attach(&attaching, reference, &gateways.list[gateway])
                        .map(|attachments| (gateway, attachments))
                }
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
    let rules = object.spec.rules.iter().enumerate();
    let rules = rules
        .map(|(index, spec)| rule::lower(world, name, index, spec))
        .collect();
    Some(HttpRoute {
        name,
        object,
        rules,
        refusals,
        parents,
    })
}

fn hostnames(object: &api::HttpRoute) -> (Vec<Hostname>, Vec<Problem>) {
    let mut hostnames = Vec::with_capacity(object.spec.hostnames.len());
    let mut problems = Vec::new();
    for (index, text) in object.spec.hostnames.iter().enumerate() {
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
    let is_gateway = reference.kind == api::Gateway::KIND && reference.group == api::Gateway::GROUP;
    let message = if !is_gateway {
        format!(
            "a route cannot attach to kind `{}` of group `{}`: refer to a Gateway",
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
fn count(route: &HttpRoute<'_>, gateways: &mut Gateways<'_>) {
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

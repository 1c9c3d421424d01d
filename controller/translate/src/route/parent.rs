//! Which listeners a route attaches to, for each parent that it names.

use std::sync::Arc;

use xds::model::{Hostname, ListenerKey, ObjectName};

use super::api::ParentReference;
use crate::gateway::api::RouteGroupKind;
use crate::gateway::offer::ListenerOffer;
use crate::objects::kinds::ObjectKind;
use crate::objects::owner::Owner;
use crate::objects::reader::Reader;
use crate::status::problem;
use crate::status::problem::{MAX_LISTED, Problem};
use crate::status::reason::Reason;

/// The properties of a route that decide whether it attaches.
pub(crate) struct RouteToAttach<'r> {
    pub(crate) kind: &'r RouteGroupKind,
    pub(crate) namespace: &'r str,
    pub(crate) hostnames: &'r [Hostname],
}

/// A listener that a route attaches to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attachment {
    pub(crate) listener: ListenerKey,
    pub(crate) gateway: ObjectName,
    /// The route's hosts that intersect with the listener's; empty means all of the listener's. In
    /// the route's spelling, which ranks the routes of a listener.
    pub(crate) hostnames: Arc<[Hostname]>,
}

/// The object that a reference of something in `namespace` names; `None` for one that never has
/// listeners.
pub(crate) fn owner(reference: &ParentReference, namespace: &str) -> Option<Owner> {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    let name = ObjectName::new(namespace, &reference.name);
    Owner::new(ObjectKind::find(&reference.group, &reference.kind)?, name)
}

/// Why a ListenerSet that its Gateway does not accept offers no listeners to routes.
pub(crate) fn not_attached(set: &ObjectName, problem: &Problem) -> Problem {
    let message = format!("ListenerSet {set} is not attached: {problem}");
    Problem::new(Reason::NoMatchingParent, "", message)
}

/// Attaches a route to those listeners of an object that a reference means, that allow it and that
/// share a host with it. The first of these steps that leaves none is the reason of the refusal.
pub(crate) fn attach(
    reader: &Reader<'_>,
    route: &RouteToAttach<'_>,
    reference: &ParentReference,
    gateway: &ObjectName,
    offers: &[Arc<ListenerOffer>],
) -> Result<Box<[Attachment]>, Problem> {
    let meant = offers.iter().filter(|offer| refers_to(reference, offer));
    let meant: Vec<&ListenerOffer> = meant.map(|offer| &**offer).collect();
    if meant.is_empty() {
        return Err(no_matching_parent(reader, route, reference, offers));
    }
    let allowed = meant.iter().copied().filter(|offer| {
        offer.kinds.contains(route.kind) && offer.allowed.allows(reader, route.namespace)
    });
    let allowed: Vec<&ListenerOffer> = allowed.collect();
    if allowed.is_empty() {
        return Err(not_allowed(reader, route, reference, &meant));
    }
    let attachments: Box<[_]> = allowed
        .iter()
        .filter_map(|offer| {
            Some(Attachment {
                listener: offer.key.clone(),
                gateway: gateway.clone(),
                hostnames: shared_hosts(offer.hostname.as_ref(), route.hostnames)?.into(),
            })
        })
        .collect();
    if attachments.is_empty() {
        return Err(no_matching_hostname(&allowed));
    }
    Ok(attachments)
}

/// Whether a reference means a listener of its object.
pub(crate) fn refers_to(reference: &ParentReference, offer: &ListenerOffer) -> bool {
    let section = reference.section_name.as_ref();
    section.is_none_or(|section| **section == *offer.name)
        && reference.port.is_none_or(|port| port == offer.port)
}

/// The route's hosts that intersect with the listener's; `None` if there are none. Names beyond the
/// listener's do no harm: the listener is selected first.
pub(crate) fn shared_hosts(
    listener: Option<&Hostname>,
    route: &[Hostname],
) -> Option<Vec<Hostname>> {
    let Some(listener) = listener else {
        return Some(route.to_vec());
    };
    if route.is_empty() {
        return Some(Vec::new());
    }
    let shared = route
        .iter()
        .filter(|hostname| hostname.intersect(listener).is_some());
    let shared: Vec<Hostname> = shared.cloned().collect();
    (!shared.is_empty()).then_some(shared)
}

/// Names the listeners that could be meant: of those that are not for its namespace, a route's owner
/// learns nothing.
fn no_matching_parent(
    reader: &Reader<'_>,
    route: &RouteToAttach<'_>,
    reference: &ParentReference,
    offers: &[Arc<ListenerOffer>],
) -> Problem {
    let open = offers.iter().filter(|offer| {
        offer.kinds.contains(route.kind) && offer.allowed.allows(reader, route.namespace)
    });
    let names = open.map(|offer| format!("`{}` (port {})", offer.name, offer.port));
    let names: Vec<String> = names.collect();
    let advice = match &*names {
        [] => "ask its owner which one is meant for routes of your namespace".to_owned(),
        _ => format!("use one of {}", listed(&names)),
    };
    let message = format!(
        "{} has no listener{}{}: {advice}",
        parent_text(route, reference),
        QuotedField(" named ", reference.section_name.as_ref()),
        QuotedField(" on port ", reference.port),
    );
    Problem::new(Reason::NoMatchingParent, "", message)
}

fn parent_text(route: &RouteToAttach<'_>, reference: &ParentReference) -> String {
    let namespace = reference.namespace.as_deref().unwrap_or(route.namespace);
    format!("{} {namespace}/{}", reference.kind, reference.name)
}

/// The first few of them.
fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let listed = names.get(..names.len() - more).unwrap_or(names).join(", ");
    match more {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

struct QuotedField<T>(&'static str, Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for QuotedField<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.1 {
            Some(value) => write!(f, "{}`{value}`", self.0),
            None => Ok(()),
        }
    }
}

/// Names those that allow the route's namespace, and the one that it names itself.
fn not_allowed(
    reader: &Reader<'_>,
    route: &RouteToAttach<'_>,
    reference: &ParentReference,
    meant: &[&ListenerOffer],
) -> Problem {
    let open = { meant.iter() }.filter(|it| it.allowed.allows(reader, route.namespace));
    let texts = open.map(|offer| {
        let text = format!(
            "listener `{}` (protocol {}) does not accept {}",
            offer.name, offer.protocol, route.kind.kind
        );
        match &offer.kinds[..] {
            [] => text,
            kinds => {
                let kinds: Vec<&str> = kinds.iter().map(|it| &*it.kind).collect();
                format!(
                    "{text}, only {} (see its protocol and allowedRoutes.kinds)",
                    kinds.join(", ")
                )
            }
        }
    });
    let texts: Vec<String> = texts.collect();
    if !texts.is_empty() {
        let message = problem::join(texts.iter());
        return Problem::new(Reason::NotAllowedByListeners, "", message);
    }
    let parent = parent_text(route, reference);
    let subject = match &reference.section_name {
        Some(name) => format!("listener `{name}` of {parent} does not allow"),
        None => format!("no listener of {parent} allows"),
    };
    let message = format!(
        "{subject} routes from namespace `{}` (see its allowedRoutes.namespaces)",
        route.namespace
    );
    Problem::new(Reason::NotAllowedByListeners, "", message)
}

fn no_matching_hostname(allowed: &[&ListenerOffer]) -> Problem {
    let hosts = allowed.iter().filter_map(|offer| {
        let hostname = offer.hostname.as_ref()?;
        Some(format!("`{hostname}` of listener `{}`", offer.name))
    });
    let names: Vec<String> = hosts.collect();
    let message = format!(
        "none of the route's host names matches {}: change one of them",
        listed(&names)
    );
    Problem::new(
        Reason::NoMatchingListenerHostname,
        "spec.hostnames",
        message,
    )
}

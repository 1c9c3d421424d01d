//! Which listeners a route attaches to, for each parent that it names.

use xds::model::Hostname;

use super::gateway::{Gateway, Gateways};
use super::listener::{Listener, Owner};
use super::listener_set::ListenerSet;
use crate::api::{
    Gateway as ApiGateway, ListenerSet as ApiListenerSet, ParentReference, Resource as _,
    RouteGroupKind,
};
use crate::problem::Problem;
use crate::status::Reason;

/// What of a route matters for attaching it.
pub(crate) struct Attaching<'r> {
    pub(crate) kind: &'r RouteGroupKind,
    pub(crate) namespace: &'r str,
    pub(crate) hostnames: &'r [Hostname],
}

/// A listener that a route attaches to.
#[derive(Debug, Clone)]
pub(crate) struct Attachment {
    /// Its number in its Gateway.
    pub(crate) listener: usize,
    /// The route's hosts that are the listener's as well; empty means all of the listener's.
    pub(crate) hostnames: Vec<Hostname>,
}

/// The Gateway that a reference names, itself or through a ListenerSet.
pub(crate) enum Parent {
    /// One of ours, by its place in the list.
    Ours(usize),
    /// A ListenerSet that its Gateway does not take.
    Refused(Problem),
    /// Not ours to judge: another kind, another class, or none that we know.
    NotOurs,
}

impl Parent {
    pub(crate) fn of(
        reference: &ParentReference,
        namespace: &str,
        gateways: &Gateways<'_>,
    ) -> Self {
        let namespace = reference.namespace.as_deref().unwrap_or(namespace);
        match (&*reference.group, &*reference.kind) {
            (ApiGateway::GROUP, ApiGateway::KIND) => gateways
                .position(namespace, &reference.name)
                .map_or(Self::NotOurs, Self::Ours),
            (ApiListenerSet::GROUP, ApiListenerSet::KIND) => gateways
                .set(namespace, &reference.name)
                .map_or(Self::NotOurs, Self::of_set),
            _ => Self::NotOurs,
        }
    }

    fn of_set(set: &ListenerSet<'_>) -> Self {
        match &set.gateway {
            Ok(gateway) => Self::Ours(*gateway),
            Err(problem) => {
                let message = format!("ListenerSet {} is not attached: {problem}", set.name);
                Self::Refused(Problem::new(Reason::NoMatchingParent, "", message))
            }
        }
    }
}

/// Attaches a route to those listeners of a Gateway that a reference means, that allow it and that
/// share a host with it. The first of these steps that leaves none is the reason of the refusal.
pub(crate) fn attach(
    route: &Attaching<'_>,
    reference: &ParentReference,
    gateway: &Gateway<'_>,
) -> Result<Vec<Attachment>, Problem> {
    let all = gateway.listeners.iter().enumerate();
    let meant: Vec<_> = all
        .filter(|(_, listener)| is_of(route, reference, listener))
        .filter(|(_, listener)| is_meant(reference, listener))
        .collect();
    if meant.is_empty() {
        return Err(no_matching_parent(route, reference, gateway));
    }
    let allowed: Vec<_> = meant
        .iter()
        .filter(|(_, listener)| {
            listener.kinds.contains(route.kind) && listener.namespaces.allow(route.namespace)
        })
        .collect();
    if allowed.is_empty() {
        return Err(not_allowed(route, &meant));
    }
    let attachments: Vec<_> = allowed
        .iter()
        .filter_map(|(index, listener)| {
            let hostnames = shared_hosts(listener.hostname.as_ref(), route.hostnames)?;
            Some(Attachment {
                listener: *index,
                hostnames,
            })
        })
        .collect();
    if attachments.is_empty() {
        return Err(no_matching_hostname(&allowed));
    }
    Ok(attachments)
}

/// Whether a listener is declared by the very object that a reference names: a reference to a
/// Gateway does not mean the listeners of its ListenerSets.
fn is_of(route: &Attaching<'_>, reference: &ParentReference, listener: &Listener<'_>) -> bool {
    match listener.owner {
        Owner::Gateway(_) => reference.kind == ApiGateway::KIND,
        Owner::ListenerSet(set) => {
            let namespace = reference.namespace.as_deref().unwrap_or(route.namespace);
            reference.kind == ApiListenerSet::KIND
                && (&*set.namespace, &*set.name) == (namespace, &*reference.name)
        }
    }
}

fn is_meant(reference: &ParentReference, listener: &Listener<'_>) -> bool {
    let section = reference.section_name.as_ref();
    section.is_none_or(|section| *section == listener.spec.name)
        && reference.port.is_none_or(|port| port == listener.spec.port)
}

/// The hosts of both, each as the narrower of the two says it; `None` if there is none.
fn shared_hosts(listener: Option<&Hostname>, route: &[Hostname]) -> Option<Vec<Hostname>> {
    let Some(listener) = listener else {
        return Some(route.to_vec());
    };
    if route.is_empty() {
        return Some(Vec::new());
    }
    let mut shared: Vec<Hostname> = Vec::with_capacity(route.len());
    for hostname in route
        .iter()
        .filter_map(|hostname| hostname.intersect(listener))
    {
        if !shared.contains(hostname) {
            shared.push(hostname.clone());
        }
    }
    (!shared.is_empty()).then_some(shared)
}

fn no_matching_parent(
    route: &Attaching<'_>,
    reference: &ParentReference,
    gateway: &Gateway<'_>,
) -> Problem {
    let listeners = gateway.listeners.iter();
    let listeners = listeners.filter(|listener| is_of(route, reference, listener));
    let names: Vec<String> = listeners
        .map(|listener| format!("`{}` (port {})", listener.spec.name, listener.spec.port))
        .collect();
    let message = format!(
        "{} {}/{} has no listener{}{}: use one of {}",
        reference.kind,
        reference.namespace.as_deref().unwrap_or(route.namespace),
        reference.name,
        Quoted(" named ", reference.section_name.as_ref()),
        Quoted(" on port ", reference.port),
        names.join(", ")
    );
    Problem::new(Reason::NoMatchingParent, "", message)
}

struct Quoted<T>(&'static str, Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Quoted<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.1 {
            Some(value) => write!(f, "{}`{value}`", self.0),
            None => Ok(()),
        }
    }
}

fn not_allowed(route: &Attaching<'_>, meant: &[(usize, &Listener<'_>)]) -> Problem {
    let why = |listener: &Listener<'_>| {
        let name = &listener.spec.name;
        if listener.kinds.contains(route.kind) {
            format!(
                "listener `{name}` takes no routes from namespace `{}` (see its \
                 allowedRoutes.namespaces)",
                route.namespace
            )
        } else {
            format!(
                "listener `{name}` (protocol {}) takes no {}",
                listener.spec.protocol, route.kind.kind
            )
        }
    };
    let texts: Vec<String> = meant.iter().map(|(_, listener)| why(listener)).collect();
    Problem::new(Reason::NotAllowedByListeners, "", texts.join("; "))
}

fn no_matching_hostname(allowed: &[&(usize, &Listener<'_>)]) -> Problem {
    let hosts = allowed.iter().filter_map(|(_, listener)| {
        let hostname = listener.hostname.as_ref()?;
        Some(format!(
            "`{}` of listener `{}`",
            hostname, listener.spec.name
        ))
    });
    let names: Vec<String> = hosts.collect();
    let message = format!(
        "none of the route's host names is within {}: change one of them",
        names.join(", ")
    );
    Problem::new(
        Reason::NoMatchingListenerHostname,
        "spec.hostnames",
        message,
    )
}

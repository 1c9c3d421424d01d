//! Resolves the target references of a `TrafficPolicy`.

use std::sync::Arc;

use xds::model::{BackendKey, ListenerKey, ObjectName, PolicyTarget, ServiceKey};

use super::api::PolicyTargetReference;
use crate::engine::fact::Fact;
use crate::engine::unit::UnitReader;
use crate::objects::kinds::{ObjectKind, WrittenKind};
use crate::objects::owner::Owner;
use crate::route::name::{RouteKind, RouteName};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Why there is no target.
pub(crate) enum TargetError {
    /// It belongs to another controller.
    NotOurs,
    Problem(Problem),
}

type TargetResult = Result<PolicyTarget, TargetError>;

/// Resolves a reference of a policy in `namespace`.
pub(crate) fn find(
    reader: &UnitReader<'_>,
    namespace: &str,
    reference: &PolicyTargetReference,
) -> TargetResult {
    let name = ObjectName::new(namespace, &reference.name);
    let section = reference.section_name.as_deref();
    let kind = ObjectKind::find(&reference.group, &reference.kind);
    match kind.filter(|kind| KINDS.contains(kind)) {
        Some(ObjectKind::Gateway) => listeners(reader, &Owner::Gateway(name), section),
        Some(ObjectKind::ListenerSet) => listeners(reader, &Owner::ListenerSet(name), section),
        Some(kind) => match RouteKind::of(kind) {
            Some(kind) => route(reader, RouteName { kind, name }, section),
            None if section.is_some() => Err(no_sections()),
            None if reader.exists(kind, &name) => Ok(target(kind, &name)),
            None => Err(not_found(kind, &name)),
        },
        None => {
            let message = format!(
                "{} cannot be a target: use Gateway, ListenerSet, HTTPRoute, GRPCRoute, TCPRoute, \
                 TLSRoute, UDPRoute, Service or Backend",
                WrittenKind {
                    group: &reference.group,
                    kind: &reference.kind
                }
            );
            let problem = Problem::new(Reason::Invalid, "kind", message);
            Err(TargetError::Problem(problem))
        }
    }
}

/// The targets that refuse every request while an access-restricting policy has an unresolved
/// reference.
pub(crate) enum Refused {
    /// The object is known, but not the part of it: all of it.
    Known(PolicyTarget),
    /// The object is not known: these may be meant.
    Presumed(Vec<PolicyTarget>),
}

/// The targets that refuse every request if an access-restricting policy has this reference: the whole
/// object if a section is missing, everything of that name if the kind is unknown, the whole namespace
/// if there is none. A missing object has no requests to refuse.
pub(crate) fn refused(
    reader: &UnitReader<'_>,
    namespace: &str,
    reference: &PolicyTargetReference,
) -> Option<Refused> {
    match find(reader, namespace, reference) {
        Err(TargetError::NotOurs) | Ok(_) => return None,
        Err(TargetError::Problem(_)) => {}
    }
    if reference.name.is_empty() {
        return Some(Refused::Presumed(all_in(reader, namespace)));
    }
    let name = ObjectName::new(namespace, &reference.name);
    let is = |kind: &ObjectKind| reference.kind.eq_ignore_ascii_case(kind.name());
    if let Some(kind) = KINDS.into_iter().find(is) {
        return object_target(reader, kind, &name).map(Refused::Known);
    }
    let named = KINDS.into_iter();
    let named = named.filter_map(|kind| object_target(reader, kind, &name));
    let named: Vec<_> = named.collect();
    if named.is_empty() {
        return Some(Refused::Presumed(all_in(reader, namespace)));
    }
    Some(Refused::Presumed(named))
}

/// Everything in a namespace that a policy can target.
pub(crate) fn all_in(reader: &UnitReader<'_>, namespace: &str) -> Vec<PolicyTarget> {
    let namespace: Arc<str> = namespace.into();
    reader.depend_on(Fact::OursIn(Arc::clone(&namespace)));
    let ours = reader.counts.ours.at(&namespace);
    let mut targets: Vec<PolicyTarget> = ours.map(|it| target(it.kind, &it.name)).collect();
    targets.sort();
    targets
}

/// An object as a whole.
fn target(kind: ObjectKind, name: &ObjectName) -> PolicyTarget {
    match kind {
        ObjectKind::Gateway => PolicyTarget::Gateway(name.clone()),
        ObjectKind::ListenerSet => PolicyTarget::ListenerSet(name.clone()),
        ObjectKind::Service => PolicyTarget::Service(ServiceKey::new(name)),
        ObjectKind::Backend => PolicyTarget::Backend(BackendKey::new(name)),
        route => PolicyTarget::Route {
            kind: route.name().to_owned(),
            object: name.clone(),
        },
    }
}

/// The object as a target, if it exists and belongs to this controller.
fn object_target(
    reader: &UnitReader<'_>,
    kind: ObjectKind,
    name: &ObjectName,
) -> Option<PolicyTarget> {
    let is_ours = match (kind, RouteKind::of(kind)) {
        (ObjectKind::Gateway, _) => reader.offers(&Owner::Gateway(name.clone())).is_some(),
        (ObjectKind::ListenerSet, _) => {
            let set = Owner::ListenerSet(name.clone());
            reader.offers(&set).is_some()
        }
        (_, Some(kind)) => {
            let name = name.clone();
            reader.rule_names(RouteName { kind, name }).is_some()
        }
        (_, None) => reader.exists(kind, name),
    };
    is_ours.then(|| target(kind, name))
}

fn listeners(reader: &UnitReader<'_>, owner: &Owner, section: Option<&str>) -> TargetResult {
    let name = owner.name();
    let Some(offers) = reader.offers(owner) else {
        return Err(absent(reader, owner.kind(), name));
    };
    let Some(section) = section else {
        return Ok(target(owner.kind(), name));
    };
    if offers.listeners.iter().any(|offer| offer.name == section) {
        let listener = ListenerKey::new(owner.kind().name(), name, section);
        return Ok(PolicyTarget::Listener(listener));
    }
    let message = format!("{} {name} has no listener `{section}`", owner.kind());
    Err(no_section(message))
}

fn route(reader: &UnitReader<'_>, route: RouteName, section: Option<&str>) -> TargetResult {
    let (kind, object) = (route.kind.object_kind(), route.name.clone());
    let Some(rules) = reader.rule_names(route) else {
        return Err(absent(reader, kind, &object));
    };
    let Some(section) = section else {
        return Ok(target(kind, &object));
    };
    let kind = kind.name().to_owned();
    if rules.contains(section) {
        let rule = section.to_owned();
        Ok(PolicyTarget::Rule { kind, object, rule })
    } else {
        let message = format!("{kind} {object} has no rule named `{section}`");
        Err(no_section(message))
    }
}

/// In a cluster, an existing object that is not ours belongs to another controller.
fn absent(reader: &UnitReader<'_>, kind: ObjectKind, name: &ObjectName) -> TargetError {
    if !reader.exists(kind, name) {
        return not_found(kind, name);
    }
    if !reader.is_machine() {
        return TargetError::NotOurs;
    }
    let message = format!("{kind} {name} is not served here: see its own conditions");
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "name", message))
}

fn no_sections() -> TargetError {
    let message = "only Gateways and routes have sections: leave sectionName out";
    TargetError::Problem(Problem::new(Reason::Invalid, "sectionName", message))
}

fn not_found(kind: ObjectKind, name: &ObjectName) -> TargetError {
    let message = format!("{kind} {name} does not exist: create it");
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "name", message))
}

fn no_section(message: String) -> TargetError {
    let message = message + ": use one that it has, or leave sectionName out";
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "sectionName", message))
}

/// The kinds that a policy can target.
const KINDS: [ObjectKind; 9] = [
    ObjectKind::Gateway,
    ObjectKind::ListenerSet,
    ObjectKind::HttpRoute,
    ObjectKind::GrpcRoute,
    ObjectKind::TcpRoute,
    ObjectKind::TlsRoute,
    ObjectKind::UdpRoute,
    ObjectKind::Service,
    ObjectKind::Backend,
];

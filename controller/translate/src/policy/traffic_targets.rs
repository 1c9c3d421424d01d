//! Resolves the target references of a `TrafficPolicy`.

use std::sync::Arc;

use xds::model::{BackendKey, ListenerKey, ObjectName, PolicyTarget, ServiceKey};

use super::api::PolicyTargetReference;
use crate::backend::api::{Backend, Service};
use crate::engine::fact::Fact;
use crate::engine::unit::UnitReader;
use crate::gateway::api::{Gateway, ListenerSet};
use crate::objects::api::Resource as _;
use crate::objects::owner::Owner;
use crate::objects::store::StoredKind;
use crate::route::api::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
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
    let is = |group, kind| (&*reference.group, &*reference.kind) == (group, kind);
    if is(Gateway::GROUP, Gateway::KIND) {
        listeners::<Gateway>(reader, &Owner::Gateway(name), section)
    } else if is(ListenerSet::GROUP, ListenerSet::KIND) {
        listeners::<ListenerSet>(reader, &Owner::ListenerSet(name), section)
    } else if is(HttpRoute::GROUP, HttpRoute::KIND) {
        route::<HttpRoute>(reader, name, section)
    } else if is(GrpcRoute::GROUP, GrpcRoute::KIND) {
        route::<GrpcRoute>(reader, name, section)
    } else if is(TcpRoute::GROUP, TcpRoute::KIND) {
        route::<TcpRoute>(reader, name, section)
    } else if is(TlsRoute::GROUP, TlsRoute::KIND) {
        route::<TlsRoute>(reader, name, section)
    } else if is(UdpRoute::GROUP, UdpRoute::KIND) {
        route::<UdpRoute>(reader, name, section)
    } else if is(Service::GROUP, Service::KIND) {
        no_section_of(section)?;
        let target = PolicyTarget::Service(ServiceKey::new(&name));
        let there = reader.exists::<Service>(&name);
        there
            .then_some(target)
            .ok_or_else(|| not_found::<Service>(&name))
    } else if is(Backend::GROUP, Backend::KIND) {
        no_section_of(section)?;
        let target = PolicyTarget::Backend(BackendKey::new(&name));
        let there = reader.exists::<Backend>(&name);
        there
            .then_some(target)
            .ok_or_else(|| not_found::<Backend>(&name))
    } else {
        let message = format!(
            "kind `{}` of group `{}` cannot be a target: use Gateway, ListenerSet, HTTPRoute, \
             GRPCRoute, TCPRoute, TLSRoute, UDPRoute, Service or Backend",
            reference.kind, reference.group
        );
        let problem = Problem::new(Reason::Invalid, "kind", message);
        Err(TargetError::Problem(problem))
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
    let is = |kind: &&str| reference.kind.eq_ignore_ascii_case(kind);
    if let Some(kind) = KINDS.iter().copied().find(|kind| is(kind)) {
        return object_target(reader, kind, &name).map(Refused::Known);
    }
    let named: Vec<_> = KINDS
        .iter()
        .filter_map(|kind| object_target(reader, kind, &name))
        .collect();
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
    let mut targets: Vec<PolicyTarget> = ours.map(|(kind, name)| target(kind, name)).collect();
    targets.sort();
    targets
}

/// An object as a whole.
fn target(kind: &str, name: &ObjectName) -> PolicyTarget {
    match kind {
        Gateway::KIND => PolicyTarget::Gateway(name.clone()),
        ListenerSet::KIND => PolicyTarget::ListenerSet(name.clone()),
        Service::KIND => PolicyTarget::Service(ServiceKey::new(name)),
        Backend::KIND => PolicyTarget::Backend(BackendKey::new(name)),
        _ => PolicyTarget::Route {
            kind: kind.to_owned(),
            object: name.clone(),
        },
    }
}

/// The object as a target, if it exists and belongs to this controller.
fn object_target(
    reader: &UnitReader<'_>,
    kind: &'static str,
    name: &ObjectName,
) -> Option<PolicyTarget> {
    let is_ours = match kind {
        Gateway::KIND => reader.offers(&Owner::Gateway(name.clone())).is_some(),
        ListenerSet::KIND => {
            let set = Owner::ListenerSet(name.clone());
            reader.offers(&set).is_some()
        }
        Service::KIND => reader.exists::<Service>(name),
        Backend::KIND => reader.exists::<Backend>(name),
        _ => reader.rule_names(kind, name).is_some(),
    };
    is_ours.then(|| target(kind, name))
}

fn listeners<T: StoredKind>(
    reader: &UnitReader<'_>,
    owner: &Owner,
    section: Option<&str>,
) -> TargetResult {
    let name = owner.name();
    let Some(offers) = reader.offers(owner) else {
        return Err(absent::<T>(reader, name));
    };
    let Some(section) = section else {
        return Ok(match owner {
            Owner::Gateway(name) => PolicyTarget::Gateway(name.clone()),
            Owner::ListenerSet(name) => PolicyTarget::ListenerSet(name.clone()),
        });
    };
    if offers.listeners.iter().any(|offer| offer.name == section) {
        let listener = ListenerKey::new(T::KIND, name, section);
        return Ok(PolicyTarget::Listener(listener));
    }
    let message = format!("{} {name} has no listener `{section}`", T::KIND);
    Err(no_section(message))
}

fn route<T: StoredKind>(
    reader: &UnitReader<'_>,
    object: ObjectName,
    section: Option<&str>,
) -> TargetResult {
    let Some(rules) = reader.rule_names(T::KIND, &object) else {
        return Err(absent::<T>(reader, &object));
    };
    let kind = T::KIND.to_owned();
    let Some(section) = section else {
        return Ok(PolicyTarget::Route { kind, object });
    };
    if rules.contains(section) {
        let rule = section.to_owned();
        Ok(PolicyTarget::Rule { kind, object, rule })
    } else {
        let message = format!("{kind} {object} has no rule named `{section}`");
        Err(no_section(message))
    }
}

/// In a cluster, an existing object that is not ours belongs to another controller.
fn absent<T: StoredKind>(reader: &UnitReader<'_>, name: &ObjectName) -> TargetError {
    if !reader.exists::<T>(name) {
        return not_found::<T>(name);
    }
    if !reader.is_machine() {
        return TargetError::NotOurs;
    }
    let message = format!(
        "{} {name} is not served here: see its own conditions",
        T::KIND
    );
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "name", message))
}

fn no_section_of(section: Option<&str>) -> Result<(), TargetError> {
    if section.is_none() {
        return Ok(());
    }
    let message = "only Gateways and routes have sections: leave sectionName out";
    let problem = Problem::new(Reason::Invalid, "sectionName", message);
    Err(TargetError::Problem(problem))
}

fn not_found<T: StoredKind>(name: &ObjectName) -> TargetError {
    let message = format!("{} {name} does not exist: create it", T::KIND);
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "name", message))
}

fn no_section(message: String) -> TargetError {
    let message = message + ": use one that it has, or leave sectionName out";
    TargetError::Problem(Problem::new(Reason::TargetNotFound, "sectionName", message))
}

/// The kinds that a policy can target.
const KINDS: [&str; 9] = [
    Gateway::KIND,
    ListenerSet::KIND,
    HttpRoute::KIND,
    GrpcRoute::KIND,
    TcpRoute::KIND,
    TlsRoute::KIND,
    UdpRoute::KIND,
    Service::KIND,
    Backend::KIND,
];

//! The status of a Gateway.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use super::{Condition, ConditionStatus, ConditionType as Type, Conditions, Reason};
use crate::api::{self, GatewayAddress, RouteGroupKind};
use crate::problem::Problem;
use crate::resolve::frontend::lets_anyone_in;
use crate::resolve::gateway::Gateway;
use crate::resolve::listener::Listener;

/// The status of a Gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayStatus {
    /// Addresses it is reached at.
    pub addresses: Vec<GatewayAddress>,
    /// Of the Gateway as a whole.
    pub conditions: Vec<Condition>,
    /// Of each listener of its own, in the order of the spec.
    pub listeners: Vec<ListenerStatus>,
    /// How many ListenerSets are attached to it.
    #[serde(rename = "attachedListenerSets")]
    pub attached_listener_sets: u32,
}

/// The status of a listener.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Its name.
    pub name: String,
    /// Kinds of routes it takes.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// How many routes are attached to it.
    pub attached_routes: u32,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl GatewayStatus {
    pub(crate) fn of(gateway: &Gateway<'_>, attached_listener_sets: u32) -> Self {
        let generation = gateway.object.metadata.generation;
        let listeners = gateway.own_listeners();
        let conditions = programmed(accepted(Conditions::of(generation), gateway), gateway);
        let conditions = tls(conditions, gateway);
        Self {
            addresses: match &*gateway.refusals {
                [] => gateway.addresses.reached_at.clone(),
                _ => Vec::new(),
            },
            conditions: conditions.done(),
            listeners: listeners
                .map(|listener| ListenerStatus::of(generation, gateway, listener))
                .collect(),
            attached_listener_sets,
        }
    }

    /// A Gateway of a class that nobody here serves.
    pub(crate) fn of_foreign(gateway: &api::Gateway, classes: &BTreeSet<String>) -> Self {
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        let message = format!(
            "class `{}` is not served here: use `{}`",
            gateway.spec.gateway_class_name,
            classes.join("` or `")
        );
        let field = Some("spec.gatewayClassName".to_owned());
        let unknown = |conditions: Conditions, kind, message: String, field| {
            let status = ConditionStatus::Unknown;
            conditions.with(kind, status, Reason::Pending, message.into(), field)
        };
        let conditions = Conditions::of(gateway.metadata.generation);
        let conditions = unknown(conditions, Type::Accepted, message.clone(), field);
        let conditions = unknown(conditions, Type::Programmed, message, None).that_follows();
        Self {
            addresses: Vec::new(),
            conditions: conditions.done(),
            listeners: Vec::new(),
            attached_listener_sets: 0,
        }
    }
}

fn accepted(conditions: Conditions, gateway: &Gateway<'_>) -> Conditions {
    if !gateway.refusals.is_empty() {
        return conditions.unhappy(Type::Accepted, &gateway.refusals);
    }
    let broken = names(gateway, |listener| !listener.is_accepted());
    if broken.is_empty() {
        return conditions.happy(Type::Accepted, Reason::Accepted, "the Gateway is valid");
    }
    // Also by a listener of a ListenerSet: Gateway API takes them as one list.
    let status = if gateway.listeners.iter().any(Listener::is_accepted) {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    let message = format!("listeners `{}` are not valid", broken.join("`, `"));
    conditions
        .with(
            Type::Accepted,
            status,
            Reason::ListenersNotValid,
            message.into(),
            None,
        )
        .that_follows()
}

fn programmed(conditions: Conditions, gateway: &Gateway<'_>) -> Conditions {
    if !gateway.refusals.is_empty() {
        return invalid(conditions, "the Gateway is not accepted".into());
    }
    if !gateway.addresses.unusable.is_empty() {
        return conditions.unhappy(Type::Programmed, &gateway.addresses.unusable);
    }
    if gateway.programmed().next().is_some() {
        return conditions.happy(Type::Programmed, Reason::Programmed, "requests are served");
    }
    let unusable: Vec<Problem> = gateway
        .listeners
        .iter()
        .filter_map(|listener| listener.unusable.clone())
        .collect();
    if unusable.is_empty() {
        return invalid(conditions, "no listener can be programmed".into());
    }
    conditions
        .unhappy(Type::Programmed, &unusable)
        .that_follows()
}

/// What is said of TLS alone, and only where there is something to say.
fn tls(conditions: Conditions, gateway: &Gateway<'_>) -> Conditions {
    let conditions = match &gateway.client_certificate {
        None => conditions,
        Some(Ok(_)) => conditions.happy(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "every reference leads somewhere",
        ),
        Some(Err(problem)) => conditions.unhappy(Type::ResolvedRefs, std::slice::from_ref(problem)),
    };
    let conditions = conditions.unhappy(Type::CertificateExpired, &gateway.expiries.expired);
    if !lets_anyone_in(&gateway.object.spec) {
        return conditions;
    }
    let message = "clients without a valid certificate are let in: use AllowValidOnly where \
                   certificates are to protect something";
    let problem = Problem::new(Reason::ConfigurationChanged, "spec.tls.frontend", message);
    conditions.unhappy(Type::InsecureFrontendValidationMode, &[problem])
}

fn invalid(conditions: Conditions, message: Cow<'static, str>) -> Conditions {
    let status = ConditionStatus::False;
    conditions
        .with(Type::Programmed, status, Reason::Invalid, message, None)
        .that_follows()
}

fn names<'g>(gateway: &Gateway<'g>, which: impl Fn(&Listener<'_>) -> bool) -> Vec<&'g str> {
    let listeners = gateway.own_listeners().filter(|listener| which(listener));
    listeners.map(|listener| &*listener.spec.name).collect()
}

impl ListenerStatus {
    /// Judged in this generation of the object that declares it.
    pub(crate) fn of(generation: i64, gateway: &Gateway<'_>, listener: &Listener<'_>) -> Self {
        let conditions = Conditions::of(generation);
        let conditions = listener_accepted(conditions, listener);
        let conditions = listener_programmed(conditions, gateway, listener);
        let conditions = match &*listener.refs {
            [] => conditions.happy(
                Type::ResolvedRefs,
                Reason::ResolvedRefs,
                "every reference leads somewhere",
            ),
            refs => conditions.unhappy(Type::ResolvedRefs, refs),
        };
        let conditions = match &listener.conflict {
            None => conditions.happy(
                Type::Conflicted,
                Reason::NoConflicts,
                "no other listener claims the same",
            ),
            Some(conflict) => conditions.unhappy(Type::Conflicted, std::slice::from_ref(conflict)),
        };
        let conditions = match &listener.overlaps {
            None => conditions,
            Some(other) => conditions.overlapping(other),
        };
        let conditions = conditions.unhappy(Type::CertificateExpired, &listener.expiries.expired);
        Self {
            name: listener.spec.name.clone(),
            supported_kinds: listener.kinds.clone(),
            attached_routes: listener.attached,
            conditions: conditions.done(),
        }
    }
}

fn listener_accepted(conditions: Conditions, listener: &Listener<'_>) -> Conditions {
    match (&*listener.refusals, &listener.conflict) {
        ([], None) => conditions.happy(Type::Accepted, Reason::Accepted, "the listener is valid"),
        ([], Some(conflict)) => conditions
            .unhappy(Type::Accepted, std::slice::from_ref(conflict))
            .that_follows(),
        (refusals, _) => conditions.unhappy(Type::Accepted, refusals),
    }
}

fn listener_programmed(
    conditions: Conditions,
    gateway: &Gateway<'_>,
    listener: &Listener<'_>,
) -> Conditions {
    if let (true, Some(conflict)) = (listener.refusals.is_empty(), &listener.conflict) {
        return conditions
            .unhappy(Type::Programmed, std::slice::from_ref(conflict))
            .that_follows();
    }
    if !listener.is_accepted() {
        return invalid(conditions, "the listener is not accepted".into());
    }
    if let Some(problem) = &listener.unusable {
        return conditions.unhappy(Type::Programmed, std::slice::from_ref(problem));
    }
    if !listener.is_programmed() {
        return invalid(conditions, "not every reference leads somewhere".into());
    }
    if !gateway.refusals.is_empty() {
        return invalid(conditions, "the Gateway is not accepted".into());
    }
    match &*gateway.addresses.unusable {
        [] => conditions.happy(Type::Programmed, Reason::Programmed, "requests are served"),
        unusable => conditions
            .unhappy(Type::Programmed, unusable)
            .that_follows(),
    }
}

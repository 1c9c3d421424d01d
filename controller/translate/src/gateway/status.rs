//! The status of a Gateway.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use super::api;
use super::api::{GatewayAddress, RouteGroupKind};
use super::frontend::allows_unverified_clients;
use super::listener::ListenerWithConflicts;
use super::properties::GatewayProperties;
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionStatus, ConditionType as Type, Conditions, Reason};

/// The status of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct GatewayStatus {
    /// The addresses of the Gateway.
    pub addresses: Vec<GatewayAddress>,
    /// Conditions of the Gateway as a whole.
    pub conditions: Vec<Condition>,
    /// Its own listeners, in the order of the spec.
    pub listeners: Vec<ListenerStatus>,
    /// Number of attached ListenerSets.
    #[serde(rename = "attachedListenerSets")]
    pub attached_listener_sets: u32,
}

/// The status of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Section name of the listener.
    pub name: String,
    /// Kinds of routes that can attach to it.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// Number of attached routes.
    pub attached_routes: u32,
    /// Conditions of the listener.
    pub conditions: Vec<Condition>,
}

/// The combined state of the listeners of a Gateway and of its ListenerSets, and of the policies
/// for its requests.
pub(crate) struct GatewaySummary {
    /// Whether any of them is accepted.
    pub(crate) is_accepted: bool,
    /// Whether any of them is programmed.
    pub(crate) is_programmed: bool,
    /// Why ports are unavailable.
    pub(crate) unusable: Vec<Problem>,
    /// Number of attached ListenerSets.
    pub(crate) attached_sets: u32,
    /// The policies whose statuses have no room for it.
    pub(crate) left_out_of: Vec<Problem>,
    /// The limits of listeners that are exceeded.
    pub(crate) over_limit: Vec<Problem>,
}

impl GatewayStatus {
    /// The status of a Gateway with its own listeners, each with its number of routes.
    pub(crate) fn of(
        object: &api::Gateway,
        properties: &GatewayProperties,
        listeners: &[(ListenerWithConflicts<'_>, u32)],
        overall: &GatewaySummary,
    ) -> Self {
        let generation = object.metadata.generation();
        let conditions = accepted(Conditions::of(generation), properties, listeners, overall);
        let conditions = programmed(conditions, properties, overall);
        let conditions = addresses_assigned(conditions, properties);
        let conditions = default_gateway(conditions, properties);
        let conditions = tls(conditions, object, properties);
        let conditions =
            conditions.abnormal(Type::PolicyAncestorLimitReached, &overall.left_out_of);
        let conditions = conditions.abnormal(Type::ListenerLimitExceeded, &overall.over_limit);
        Self {
            addresses: properties.reached_at().to_vec(),
            conditions: conditions.done(),
            listeners: listeners
                .iter()
                .map(|(listener, routes)| {
                    ListenerStatus::of(generation, properties, listener, *routes)
                })
                .collect(),
            attached_listener_sets: overall.attached_sets,
        }
    }

    /// A Gateway of a class that is not supported.
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
        let conditions = Conditions::of(gateway.metadata.generation());
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

fn accepted(
    conditions: Conditions,
    properties: &GatewayProperties,
    listeners: &[(ListenerWithConflicts<'_>, u32)],
    overall: &GatewaySummary,
) -> Conditions {
    if !properties.refusals.is_empty() {
        return conditions.abnormal(Type::Accepted, &properties.refusals);
    }
    let broken = listeners.iter().filter(|(it, _)| !it.is_accepted());
    let broken: Vec<&str> = broken.map(|(it, _)| &*it.listener.offer.name).collect();
    if broken.is_empty() {
        return conditions.normal(Type::Accepted, Reason::Accepted, "the Gateway is valid");
    }
    // Listeners of ListenerSets count: Gateway API treats them as one list.
    let status = if overall.is_accepted {
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

fn programmed(
    conditions: Conditions,
    properties: &GatewayProperties,
    overall: &GatewaySummary,
) -> Conditions {
    if !properties.refusals.is_empty() {
        return invalid(conditions, "the Gateway is not accepted".into());
    }
    if !properties.addresses.unusable.is_empty() {
        return conditions.abnormal(Type::Programmed, &properties.addresses.unusable);
    }
    if overall.is_programmed {
        return conditions.normal(Type::Programmed, Reason::Programmed, "requests are served");
    }
    if overall.unusable.is_empty() {
        return invalid(conditions, "no listener can be programmed".into());
    }
    conditions
        .abnormal(Type::Programmed, &overall.unusable)
        .that_follows()
}

/// Not for a rejected Gateway, whose addresses are not evaluated.
fn addresses_assigned(conditions: Conditions, properties: &GatewayProperties) -> Conditions {
    let addresses = &properties.addresses;
    if !properties.refusals.is_empty() {
        return conditions;
    }
    match &*addresses.unassigned {
        [] => conditions.normal(
            Type::AddressesAssigned,
            Reason::AddressesAssigned,
            "all requested addresses are assigned",
        ),
        unassigned => {
            let conditions = conditions.abnormal(Type::AddressesAssigned, unassigned);
            match &*addresses.unusable {
                [] => conditions,
                _ => conditions.that_follows(),
            }
        }
    }
}

fn default_gateway(conditions: Conditions, properties: &GatewayProperties) -> Conditions {
    if !properties.is_default {
        return conditions;
    }
    let message = "the Gateway has default scope All";
    conditions.normal(Type::DefaultGateway, Reason::DefaultGateway, message)
}

/// Conditions about TLS, only if applicable.
fn tls(
    conditions: Conditions,
    object: &api::Gateway,
    properties: &GatewayProperties,
) -> Conditions {
    let conditions = match &properties.client_certificate {
        None => conditions,
        Some(Ok(_)) => conditions.normal(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "all references are resolved",
        ),
        Some(Err(problem)) => {
            conditions.abnormal(Type::ResolvedRefs, std::slice::from_ref(problem))
        }
    };
    let conditions = conditions.certificates(&properties.expiries.problems);
    if !allows_unverified_clients(&object.spec) {
        return conditions;
    }
    let message = "clients without a valid certificate are allowed: use AllowValidOnly where \
                   certificates are to protect something";
    let problem = Problem::new(Reason::ConfigurationChanged, "spec.tls.frontend", message);
    conditions.abnormal(Type::InsecureFrontendValidationMode, &[problem])
}

fn invalid(conditions: Conditions, message: Cow<'static, str>) -> Conditions {
    let status = ConditionStatus::False;
    conditions
        .with(Type::Programmed, status, Reason::Invalid, message, None)
        .that_follows()
}

impl ListenerStatus {
    /// The status of a listener, in this generation of its object.
    pub(crate) fn of(
        generation: i64,
        properties: &GatewayProperties,
        resolved: &ListenerWithConflicts<'_>,
        attached_routes: u32,
    ) -> Self {
        let ListenerWithConflicts {
            listener,
            conflicts,
            ..
        } = resolved;
        let conditions = Conditions::of(generation);
        let conditions = listener_accepted(conditions, resolved);
        let conditions = listener_programmed(conditions, properties, resolved);
        let conditions = match &*listener.refs {
            [] => conditions.normal(
                Type::ResolvedRefs,
                Reason::ResolvedRefs,
                "all references are resolved",
            ),
            refs => conditions.abnormal(Type::ResolvedRefs, refs),
        };
        let conditions = match &conflicts.conflict {
            None => conditions.normal(
                Type::Conflicted,
                Reason::NoConflicts,
                "there is no conflict with other listeners",
            ),
            Some(conflict) => conditions.abnormal(Type::Conflicted, std::slice::from_ref(conflict)),
        };
        let conditions = match &conflicts.overlaps {
            None => conditions,
            Some(other) => conditions.overlapping(other),
        };
        let conditions = conditions.hostnames_taken(&conflicts.taken);
        let conditions = conditions.certificates(&listener.expiries.problems);
        Self {
            name: listener.offer.name.clone(),
            supported_kinds: listener.offer.kinds.clone(),
            attached_routes,
            conditions: conditions.done(),
        }
    }
}

fn listener_accepted(conditions: Conditions, resolved: &ListenerWithConflicts<'_>) -> Conditions {
    let ListenerWithConflicts {
        listener,
        conflicts,
        ..
    } = resolved;
    if let Some(problem) = &conflicts.over_limit {
        return conditions.abnormal(Type::Accepted, std::slice::from_ref(problem));
    }
    match (&*listener.all_refusals(), &conflicts.conflict) {
        ([], None) => conditions.normal(Type::Accepted, Reason::Accepted, "the listener is valid"),
        ([], Some(conflict)) => conditions
            .abnormal(Type::Accepted, std::slice::from_ref(conflict))
            .that_follows(),
        (refusals, _) => conditions.abnormal(Type::Accepted, refusals),
    }
}

fn listener_programmed(
    conditions: Conditions,
    properties: &GatewayProperties,
    resolved: &ListenerWithConflicts<'_>,
) -> Conditions {
    let conflict = resolved.conflicts.conflict.as_ref();
    if let (true, Some(conflict)) = (resolved.listener.all_refusals().is_empty(), conflict) {
        return conditions
            .abnormal(Type::Programmed, std::slice::from_ref(conflict))
            .that_follows();
    }
    if !resolved.is_accepted() {
        return invalid(conditions, "the listener is not accepted".into());
    }
    if let Some(problem) = resolved.unusable {
        return conditions.abnormal(Type::Programmed, std::slice::from_ref(problem));
    }
    if !resolved.is_programmed() {
        return invalid(conditions, "not all references are resolved".into());
    }
    if !properties.refusals.is_empty() {
        return invalid(conditions, "the Gateway is not accepted".into());
    }
    match &*properties.addresses.unusable {
        [] => conditions.normal(Type::Programmed, Reason::Programmed, "requests are served"),
        unusable => conditions
            .abnormal(Type::Programmed, unusable)
            .that_follows(),
    }
}

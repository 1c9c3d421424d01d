//! ListenerSets: whether they may attach to their Gateways, and their status.

use std::slice;

use serde::Serialize;
use xds::model::ObjectName;

use super::api::ListenerSet;
use super::listener::ListenerWithConflicts;
use super::properties::{GatewayProperties, ListenerSetTerms};
use super::status::ListenerStatus;
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionStatus, ConditionType as Type, Conditions, Reason};

/// Whether a Gateway allows a ListenerSet.
pub(crate) fn check_allowed(
    reader: &Reader<'_>,
    gateway: &ObjectName,
    terms: &ListenerSetTerms,
    set: &ObjectName,
) -> Result<(), Problem> {
    if terms.allowed_sets.allows(reader, &set.namespace) {
        return Ok(());
    }
    let message = format!(
        "Gateway {gateway} does not allow ListenerSets from namespace `{}`: see its allowedListeners",
        set.namespace
    );
    Err(Problem::new(Reason::NotAllowed, "spec.parentRef", message))
}

/// On one machine there is no other controller to report it.
pub(crate) fn orphan(object: &ListenerSet, is_missing: bool) -> Problem {
    let parent = &object.spec.parent_ref;
    let own = &*object.metadata.name.namespace;
    let what = if is_missing {
        "does not exist: create it"
    } else {
        "is not served here: refer to a Gateway that is"
    };
    let message = format!(
        "{} {}/{} {what}",
        parent.kind,
        parent.namespace.as_deref().unwrap_or(own),
        parent.name
    );
    Problem::new(Reason::ParentNotAccepted, "spec.parentRef", message)
}

/// The status of a ListenerSet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ListenerSetStatus {
    /// Conditions of the set as a whole.
    pub conditions: Vec<Condition>,
    /// Its listeners, in the order of the spec; empty if not attached.
    pub listeners: Vec<ListenerStatus>,
}

impl ListenerSetStatus {
    /// The status of a set that no Gateway accepts.
    pub(crate) fn refused(generation: i64, problem: &Problem) -> Self {
        let problem = slice::from_ref(problem);
        let conditions = Conditions::of(generation).abnormal(Type::Accepted, problem);
        let conditions = conditions.abnormal(Type::Programmed, problem);
        Self {
            conditions: conditions.that_follows().done(),
            listeners: Vec::new(),
        }
    }

    /// The status of a set with its listeners, each with its number of routes.
    pub(crate) fn of(
        generation: i64,
        gateway: (&ObjectName, &GatewayProperties),
        listeners: &[(ListenerWithConflicts<'_>, u32)],
    ) -> Self {
        let of_each = listeners.iter();
        Self {
            conditions: add_conditions(Conditions::of(generation), gateway, listeners).done(),
            listeners: of_each
                .map(|(it, routes)| ListenerStatus::of(generation, gateway.1, it, *routes))
                .collect(),
        }
    }

    /// Whether it counts as attached to its Gateway.
    pub(crate) fn is_accepted(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|it| (it.kind, it.status) == (Type::Accepted, ConditionStatus::True))
    }
}

/// A listener that cannot receive traffic is not valid, whatever the reason.
fn add_conditions(
    conditions: Conditions,
    (gateway, properties): (&ObjectName, &GatewayProperties),
    listeners: &[(ListenerWithConflicts<'_>, u32)],
) -> Conditions {
    if !properties.refusals.is_empty() {
        let text = format!("Gateway {gateway} is not accepted: see its own conditions");
        let conditions = not(conditions, Type::Accepted, Reason::ParentNotAccepted, &text);
        return not(
            conditions,
            Type::Programmed,
            Reason::ParentNotProgrammed,
            &text,
        );
    }
    let broken = listeners
        .iter()
        .filter(|(listener, _)| !listener.is_programmed());
    let broken = broken.map(|(it, _)| &*it.listener.offer.name);
    let broken: Vec<&str> = broken.collect();
    let text = format!("listeners `{}` are not valid", broken.join("`, `"));
    if broken.len() == listeners.len() {
        let conditions = not(conditions, Type::Accepted, Reason::ListenersNotValid, &text);
        return not(
            conditions,
            Type::Programmed,
            Reason::ListenersNotValid,
            &text,
        );
    }
    let conditions = if broken.is_empty() {
        conditions.normal(Type::Accepted, Reason::Accepted, "the ListenerSet is valid")
    } else {
        let (status, reason) = (ConditionStatus::True, Reason::ListenersNotValid);
        conditions
            .with(Type::Accepted, status, reason, text.into(), None)
            .that_follows()
    };
    if properties.is_served() {
        return conditions.normal(Type::Programmed, Reason::Programmed, "requests are served");
    }
    let text = format!("Gateway {gateway} is not programmed: see its own conditions");
    not(
        conditions,
        Type::Programmed,
        Reason::ParentNotProgrammed,
        &text,
    )
}

/// A false condition that other conditions explain.
fn not(conditions: Conditions, kind: Type, reason: Reason, text: &str) -> Conditions {
    let status = ConditionStatus::False;
    conditions
        .with(kind, status, reason, text.to_owned().into(), None)
        .that_follows()
}

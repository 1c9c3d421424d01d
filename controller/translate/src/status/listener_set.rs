//! The status of a ListenerSet.

use std::slice;

use serde::Serialize;

use super::{
    Condition, ConditionStatus, ConditionType as Type, Conditions, ListenerStatus, Reason,
};
use crate::resolve::gateway::{Gateway, Gateways};
use crate::resolve::listener::Listener;
use crate::resolve::listener_set::ListenerSet;

/// The status of a ListenerSet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListenerSetStatus {
    /// Of the set as a whole.
    pub conditions: Vec<Condition>,
    /// Of each listener, in the order of the spec; none where the set is not attached.
    pub listeners: Vec<ListenerStatus>,
}

impl ListenerSetStatus {
    pub(crate) fn of(set: &ListenerSet<'_>, gateways: &Gateways<'_>) -> Self {
        let generation = set.object.metadata.generation;
        let conditions = Conditions::of(generation);
        let gateway = match &set.gateway {
            Ok(position) => &gateways.list[*position],
            Err(problem) => {
                let problem = slice::from_ref(problem);
                let conditions = conditions.unhappy(Type::Accepted, problem);
                let conditions = conditions.unhappy(Type::Programmed, problem).that_follows();
                return Self {
                    conditions: conditions.done(),
                    listeners: Vec::new(),
                };
            }
        };
        let listeners: Vec<&Listener<'_>> = set.listeners(gateways).collect();
        let of_each = listeners.iter();
        Self {
            conditions: whole(conditions, gateway, &listeners).done(),
            listeners: of_each
                .map(|listener| ListenerStatus::of(generation, gateway, listener))
                .collect(),
        }
    }

    /// Whether the set counts among those attached to its Gateway.
    pub(crate) fn is_accepted(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|it| (it.kind, it.status) == (Type::Accepted, ConditionStatus::True))
    }
}

/// A listener that nothing can come in by is not valid, whatever the reason.
fn whole(conditions: Conditions, gateway: &Gateway<'_>, listeners: &[&Listener<'_>]) -> Conditions {
    if !gateway.refusals.is_empty() {
        let text = format!(
            "Gateway {} is not accepted: see its own conditions",
            gateway.name
        );
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
        .filter(|listener| !listener.is_programmed());
    let broken: Vec<&str> = broken.map(|listener| &*listener.spec.name).collect();
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
        conditions.happy(Type::Accepted, Reason::Accepted, "the ListenerSet is valid")
    } else {
        let (status, reason) = (ConditionStatus::True, Reason::ListenersNotValid);
        conditions
            .with(Type::Accepted, status, reason, text.into(), None)
            .that_follows()
    };
    if gateway.is_served() {
        return conditions.happy(Type::Programmed, Reason::Programmed, "requests are served");
    }
    let text = format!(
        "Gateway {} is not programmed: see its own conditions",
        gateway.name
    );
    not(
        conditions,
        Type::Programmed,
        Reason::ParentNotProgrammed,
        &text,
    )
}

/// What other conditions say more of.
fn not(conditions: Conditions, kind: Type, reason: Reason, text: &str) -> Conditions {
    let status = ConditionStatus::False;
    conditions
        .with(kind, status, reason, text.to_owned().into(), None)
        .that_follows()
}

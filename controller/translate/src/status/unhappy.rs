//! Everything in the statuses that a user should look at, for the log of local mode.

use std::fmt;

use super::{Blame, Condition, ConditionType, Reason, Statuses};
use crate::api::{self, ParentReference};
use crate::store::ObjectRef;

/// One condition that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unhappy<'a> {
    /// The object.
    pub object: ObjectRef,
    /// The part of it (listener), or who judges it (parent, target), if it is not the whole.
    pub part: Option<String>,
    /// The field to blame, if one is.
    pub field: Option<&'a str>,
    /// What is judged.
    pub condition: ConditionType,
    /// Why, in a word.
    pub reason: Reason,
    /// Why, and what to do.
    pub message: &'a str,
}

impl fmt::Display for Unhappy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        if let Some(part) = &self.part {
            write!(f, " ({part})")?;
        }
        if let Some(field) = self.field {
            write!(f, " {field}")?;
        }
        write!(f, ": {}/{}: {}", self.condition, self.reason, self.message)
    }
}

impl Statuses {
    /// Every condition that is not as it should be and does not just follow from another one.
    pub fn unhappy(&self) -> impl Iterator<Item = Unhappy<'_>> {
        let gateways = self.gateways.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<api::Gateway>(name);
            let whole = among(&object, None, &status.conditions);
            let listeners = status.listeners.iter().flat_map(move |listener| {
                let part = format!("listener {}", listener.name);
                among(&object, Some(part), &listener.conditions)
            });
            whole.chain(listeners)
        });
        let sets = self.listener_sets.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<api::ListenerSet>(name);
            let whole = among(&object, None, &status.conditions);
            let listeners = status.listeners.iter().flat_map(move |listener| {
                let part = format!("listener {}", listener.name);
                among(&object, Some(part), &listener.conditions)
            });
            whole.chain(listeners)
        });
        let routes = self.routes.iter().flat_map(|(object, status)| {
            status.parents.iter().flat_map(move |parent| {
                let part = Some(parent_text(&parent.parent_ref));
                among(object, part, &parent.conditions)
            })
        });
        let backends = self.backends.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<api::Backend>(name);
            among(&object, None, &status.conditions)
        });
        let policies = self.traffic_policies.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<api::TrafficPolicy>(name);
            status.ancestors.iter().flat_map(move |ancestor| {
                let part = Some(format!("target {}", ancestor.ancestor_ref));
                among(&object, part, &ancestor.conditions)
            })
        });
        let backend_tls = self.backend_tls_policies.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<api::BackendTlsPolicy>(name);
            status.ancestors.iter().flat_map(move |ancestor| {
                let part = Some(format!("for {}", ancestor.ancestor_ref));
                among(&object, part, &ancestor.conditions)
            })
        });
        let policies = policies.chain(backend_tls);
        let gateways = gateways.chain(sets);
        gateways.chain(routes).chain(backends).chain(policies)
    }
}

fn among<'a>(
    object: &ObjectRef,
    part: Option<String>,
    conditions: &'a [Condition],
) -> impl Iterator<Item = Unhappy<'a>> + use<'a> {
    let object = object.clone();
    conditions
        .iter()
        .filter(|condition| condition.is_unhappy() && condition.blame == Blame::Own)
        .map(move |condition| Unhappy {
            object: object.clone(),
            part: part.clone(),
            field: condition.field.as_deref(),
            condition: condition.kind,
            reason: condition.reason,
            message: &condition.message,
        })
}

fn parent_text(parent: &ParentReference) -> String {
    let section = parent.section_name.as_ref();
    let section = section.map_or_else(String::new, |section| format!(" section {section}"));
    let port = parent.port;
    let port = port.map_or_else(String::new, |port| format!(" port {port}"));
    format!("parent {} {}{section}{port}", parent.kind, parent.name)
}

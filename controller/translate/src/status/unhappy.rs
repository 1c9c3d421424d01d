//! Everything in the statuses that a user should look at, for the log of local mode.

use std::fmt;

use xds::model::ObjectName;

use super::{Blame, Condition, ConditionType, Reason, Statuses};
use crate::api::{self, ParentReference, Resource};
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
            let listeners = status.listeners.iter().flat_map(|listener| {
                let part = format!("listener {}", listener.name);
                among::<api::Gateway>(name, Some(part), &listener.conditions)
            });
            among::<api::Gateway>(name, None, &status.conditions).chain(listeners)
        });
        let routes = self.http_routes.iter().flat_map(|(name, status)| {
            status.parents.iter().flat_map(|parent| {
                let part = Some(parent_text(&parent.parent_ref));
                among::<api::HttpRoute>(name, part, &parent.conditions)
            })
        });
        let backends = self
            .backends
            .iter()
            .flat_map(|(name, status)| among::<api::Backend>(name, None, &status.conditions));
        let policies = self.traffic_policies.iter().flat_map(|(name, status)| {
            status.ancestors.iter().flat_map(|ancestor| {
                let part = Some(format!("target {}", ancestor.ancestor_ref));
                among::<api::TrafficPolicy>(name, part, &ancestor.conditions)
            })
        });
        gateways.chain(routes).chain(backends).chain(policies)
    }
}

fn among<'a, T: Resource>(
    name: &'a ObjectName,
    part: Option<String>,
    conditions: &'a [Condition],
) -> impl Iterator<Item = Unhappy<'a>> + use<'a, T> {
    conditions
        .iter()
        .filter(|condition| condition.is_unhappy() && condition.blame == Blame::Own)
        .map(move |condition| Unhappy {
            object: ObjectRef::of::<T>(name),
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

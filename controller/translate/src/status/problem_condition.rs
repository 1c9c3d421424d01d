//! All conditions that report problems, for the log of file mode.

use std::fmt;

use super::{Blame, Condition, ConditionType, Reason, Status, level_of};
use crate::gateway::status::ListenerStatus;
use crate::level::Level;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::policy::status::PolicyStatus;
use crate::route::status::RouteStatus;

/// A condition that reports a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemCondition<'a> {
    /// The object of the condition.
    pub object: ObjectRef,
    /// A part of it (listener), or the parent or target, unless the whole object is meant.
    pub part: Option<String>,
    /// The field with the problem, if known.
    pub field: Option<&'a str>,
    /// Type of the condition.
    pub condition: ConditionType,
    /// Reason of the condition.
    pub reason: Reason,
    /// The problem, with advice.
    pub message: &'a str,
}

impl ProblemCondition<'_> {
    /// How bad it is.
    #[must_use]
    pub fn level(&self) -> Level {
        level_of(&self.condition.to_string(), &self.reason.to_string())
    }
}

impl fmt::Display for ProblemCondition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        if let Some(part) = &self.part {
            write!(f, " ({part})")?;
        }
        if let Some(field) = self.field {
            write!(f, " {field}")?;
        }
        // The message begins with it, too.
        let of_field = self.field.and_then(|it| self.message.strip_prefix(it));
        let message = of_field.and_then(|it| it.strip_prefix(": "));
        let message = message.unwrap_or(self.message);
        write!(f, ": {}/{}: {message}", self.condition, self.reason)
    }
}

impl Status {
    /// What the entries of a policy's status are about, in front of the object that they name.
    pub(crate) fn role_of_ancestors(kind: ObjectKind) -> &'static str {
        match kind {
            ObjectKind::TrafficPolicy => "target",
            _ => "for",
        }
    }

    /// The conditions of this object that report problems and do not merely follow from others.
    #[must_use]
    pub fn problem_conditions(&self, object: &ObjectRef) -> Vec<ProblemCondition<'_>> {
        match self {
            Self::Gateway(status) => of_listeners(object, &status.conditions, &status.listeners),
            Self::ListenerSet(status) => {
                of_listeners(object, &status.conditions, &status.listeners)
            }
            Self::Route(status) => of_route(object, status),
            Self::Backend(status) => among(object, None, &status.conditions).collect(),
            Self::Policy(status) => of_policy(object, status),
            Self::GatewayClass(_) => Vec::new(),
        }
    }
}

fn of_listeners<'a>(
    object: &ObjectRef,
    conditions: &'a [Condition],
    listeners: &'a [ListenerStatus],
) -> Vec<ProblemCondition<'a>> {
    let listeners = listeners.iter().flat_map(|listener| {
        let part = format!("listener {}", listener.name);
        among(object, Some(part), &listener.conditions)
    });
    among(object, None, conditions).chain(listeners).collect()
}

fn of_route<'a>(object: &ObjectRef, status: &'a RouteStatus) -> Vec<ProblemCondition<'a>> {
    let parents = status.parents.iter().flat_map(|parent| {
        let part = Some(format!("parent {}", parent.parent_ref));
        among(object, part, &parent.conditions)
    });
    parents.collect()
}

fn of_policy<'a>(object: &ObjectRef, status: &'a PolicyStatus) -> Vec<ProblemCondition<'a>> {
    let role = Status::role_of_ancestors(object.kind);
    let ancestors = status.ancestors.iter().flat_map(|ancestor| {
        let part = Some(format!("{role} {}", ancestor.ancestor_ref));
        among(object, part, &ancestor.conditions)
    });
    ancestors.collect()
}

fn among<'a>(
    object: &ObjectRef,
    part: Option<String>,
    conditions: &'a [Condition],
) -> impl Iterator<Item = ProblemCondition<'a>> + use<'a> {
    let object = object.clone();
    conditions
        .iter()
        .filter(|condition| condition.is_problem() && condition.blame == Blame::Own)
        .map(move |condition| ProblemCondition {
            object: object.clone(),
            part: part.clone(),
            field: condition.field.as_deref(),
            condition: condition.kind,
            reason: condition.reason,
            message: &condition.message,
        })
}

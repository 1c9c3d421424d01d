//! All conditions that report problems, for the log of file mode.

use std::fmt;

use super::{Blame, Condition, ConditionType, Reason, Status, Statuses};
use crate::backend::api::{Backend, XBackend};
use crate::gateway::api::{Gateway, ListenerSet};
use crate::gateway::status::ListenerStatus;
use crate::objects::api::Resource as _;
use crate::objects::store::ObjectRef;
use crate::policy::api::{BackendTlsPolicy, TrafficPolicy, XBackendTrafficPolicy};
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

impl fmt::Display for ProblemCondition<'_> {
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

impl Status {
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

impl Statuses {
    /// All conditions that report problems and do not merely follow from others.
    pub fn problem_conditions(&self) -> impl Iterator<Item = ProblemCondition<'_>> {
        let gateways = self.gateways.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<Gateway>(name);
            of_listeners(&object, &status.conditions, &status.listeners)
        });
        let sets = self.listener_sets.iter().flat_map(|(name, status)| {
            let object = ObjectRef::of::<ListenerSet>(name);
            of_listeners(&object, &status.conditions, &status.listeners)
        });
        let routes = self.routes.iter();
        let routes = routes.flat_map(|(object, status)| of_route(object, status));
        let backends = self.backends.iter().flat_map(|(name, status)| {
            among(&ObjectRef::of::<Backend>(name), None, &status.conditions)
        });
        let policies = self.traffic_policies.iter();
        let policies = policies
            .flat_map(|(name, status)| of_policy(&ObjectRef::of::<TrafficPolicy>(name), status));
        let backend_tls = self.backend_tls_policies.iter();
        let backend_tls = backend_tls
            .flat_map(|(name, status)| of_policy(&ObjectRef::of::<BackendTlsPolicy>(name), status));
        let backend_traffic = self.x_backend_traffic_policies.iter();
        let backend_traffic = backend_traffic.flat_map(|(name, status)| {
            of_policy(&ObjectRef::of::<XBackendTrafficPolicy>(name), status)
        });
        let policies = policies.chain(backend_traffic);
        let x_backends = self.x_backends.iter();
        let x_backends = x_backends
            .flat_map(|(name, status)| of_policy(&ObjectRef::of::<XBackend>(name), status));
        let policies = policies.chain(backend_tls).chain(x_backends);
        let gateways = gateways.chain(sets);
        gateways.chain(routes).chain(backends).chain(policies)
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
    let ancestor_kind = if object.kind == TrafficPolicy::KIND {
        "target"
    } else {
        "for"
    };
    let ancestors = status.ancestors.iter().flat_map(|ancestor| {
        let part = Some(format!("{ancestor_kind} {}", ancestor.ancestor_ref));
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

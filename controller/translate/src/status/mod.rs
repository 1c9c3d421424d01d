//! The statuses of objects, in Kubernetes' JSON form.
//!
//! `resolve` finds the problems, these types report them. Conditions have no `lastTransitionTime`:
//! the writer knows the previous ones.

mod condition;
mod of_object;
pub(crate) mod problem;
mod problem_condition;
pub(crate) mod reason;
mod shorten;

use std::collections::BTreeMap;

use serde::Serialize;
use xds::model::ObjectName;

use crate::objects::store::ObjectRef;

pub use crate::backend::own_status::BackendStatus;
pub use crate::gateway::class_status::{GatewayClassStatus, SupportedFeature};
pub use crate::gateway::listener_set::ListenerSetStatus;
pub use crate::gateway::release::{Channel, Installed, Release, Version};
pub use crate::gateway::status::{GatewayStatus, ListenerStatus};
pub use crate::policy::status::{AncestorReference, PolicyAncestorStatus, PolicyStatus};
pub use crate::route::status::{RouteParentStatus, RouteStatus};
pub(crate) use condition::Conditions;
pub use condition::{Blame, Condition, ConditionStatus, ConditionType};
pub use of_object::Status;
pub use problem_condition::ProblemCondition;
pub use reason::Reason;
pub(crate) use shorten::message_bytes;
pub use shorten::shortened;

/// The statuses of all our objects, by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Statuses {
    /// By name of the Gateway.
    #[serde(serialize_with = "by_text")]
    pub gateways: BTreeMap<ObjectName, GatewayStatus>,
    /// By name of the ListenerSet.
    #[serde(serialize_with = "by_text")]
    pub listener_sets: BTreeMap<ObjectName, ListenerSetStatus>,
    /// Statuses of routes of every kind, and of InferencePools.
    #[serde(serialize_with = "by_text")]
    pub routes: BTreeMap<ObjectRef, RouteStatus>,
    /// Statuses of `Backend` objects.
    #[serde(serialize_with = "by_text")]
    pub backends: BTreeMap<ObjectName, BackendStatus>,
    /// Statuses of XBackends, which list Gateways as policies do.
    #[serde(serialize_with = "by_text", skip_serializing_if = "BTreeMap::is_empty")]
    pub x_backends: BTreeMap<ObjectName, PolicyStatus>,
    /// Statuses of `TrafficPolicy` objects.
    #[serde(serialize_with = "by_text")]
    pub traffic_policies: BTreeMap<ObjectName, PolicyStatus>,
    /// Statuses of `XBackendTrafficPolicy` objects.
    #[serde(serialize_with = "by_text", skip_serializing_if = "BTreeMap::is_empty")]
    pub x_backend_traffic_policies: BTreeMap<ObjectName, PolicyStatus>,
    /// Statuses of `BackendTLSPolicy` objects.
    #[serde(serialize_with = "by_text")]
    pub backend_tls_policies: BTreeMap<ObjectName, PolicyStatus>,
}

fn by_text<S, K, T>(map: &BTreeMap<K, T>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
    K: ToString,
    T: Serialize,
{
    serializer.collect_map(map.iter().map(|(name, status)| (name.to_string(), status)))
}

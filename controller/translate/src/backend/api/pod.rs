//! Pod, as far as inference pools need it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::objects::api::ObjectMeta;

/// A Pod: its labels, its address, its state.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct Pod {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: PodStatus,
}

/// The status of a Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Phase of the Pod's life: `Running` and so on.
    #[serde(default)]
    pub phase: Option<String>,
    /// Its address; unknown until it is assigned.
    #[serde(rename = "podIP", default)]
    pub pod_ip: Option<IpAddr>,
    /// Conditions, such as `Ready`.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub conditions: Vec<PodCondition>,
}

/// A condition of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct PodCondition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

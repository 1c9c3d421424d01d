//! InferencePool, of the Gateway API Inference Extension.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::objects::api::ObjectMeta;

/// An InferencePool: pods that serve models, and the picker that selects among them.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct InferencePool {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: InferencePoolSpec,
}

/// The desired state of an InferencePool.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InferencePoolSpec {
    /// Which pods of its namespace are members.
    pub selector: PoolSelector,
    /// Ports of each pod, each an endpoint of its own.
    pub target_ports: Vec<PoolPort>,
    /// Application protocol of every port.
    #[serde(default)]
    pub app_protocol: PoolProtocol,
    /// The service that selects among its endpoints.
    #[serde(default)]
    pub endpoint_picker_ref: Option<EndpointPickerReference>,
}

/// Labels that a pod must have, all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSelector {
    pub match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct PoolPort {
    pub number: NonZeroU16,
}

/// The application protocol of a pool's ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum PoolProtocol {
    /// HTTP/1.1 in plain text.
    #[default]
    #[serde(rename = "http")]
    Http,
    /// HTTP/2 with prior knowledge.
    #[serde(rename = "kubernetes.io/h2c")]
    H2c,
}

/// A reference to an endpoint picker, in the namespace of its pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPickerReference {
    /// Group; core by default.
    #[serde(default)]
    pub group: String,
    #[serde(default = "service")]
    pub kind: String,
    pub name: String,
    /// Port of the Service.
    #[serde(default)]
    pub port: Option<PoolPort>,
    /// How requests are handled if the picker fails.
    #[serde(default)]
    pub failure_mode: EndpointPickerFailureMode,
}

/// How requests are handled if an endpoint picker fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum EndpointPickerFailureMode {
    /// They go to any pod of the pool.
    FailOpen,
    #[default]
    FailClose,
}

fn service() -> String {
    "Service".to_owned()
}

//! ListenerSet.

use serde::{Deserialize, Serialize};

use super::{GATEWAY_GROUP, Listener, ObjectMeta};

/// More listeners for a Gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ListenerSet {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ListenerSetSpec,
}

/// What a ListenerSet is to be.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The Gateway.
    pub parent_ref: ParentGatewayReference,
    /// Where it listens.
    #[serde(default)]
    pub listeners: Vec<Listener>,
}

/// The Gateway of a ListenerSet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ParentGatewayReference {
    /// Group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// Kind.
    #[serde(default = "gateway")]
    pub kind: String,
    /// Namespace; the ListenerSet's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

fn gateway_group() -> String {
    GATEWAY_GROUP.to_owned()
}

fn gateway() -> String {
    "Gateway".to_owned()
}

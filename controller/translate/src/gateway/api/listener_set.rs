//! ListenerSet.

use serde::{Deserialize, Serialize};
use xds::model::ObjectName;

use super::{Listener, RecordedListeners};
use crate::objects::api::{ObjectMeta, Text};
use crate::objects::kinds::{GATEWAY_GROUP, ObjectKind};

/// More listeners for a Gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ListenerSet {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ListenerSetSpec,
    #[serde(
        default,
        skip_serializing,
        deserialize_with = "crate::objects::api::null_as_default"
    )]
    pub status: RecordedListeners,
}

/// The desired state of a ListenerSet.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    pub parent_ref: ParentGatewayReference,
    #[serde(default)]
    pub listeners: Vec<Listener>,
}

impl ListenerSet {
    /// The Gateway that it names; `None` if the parent is of another kind.
    #[must_use]
    pub fn gateway(&self) -> Option<ObjectName> {
        let parent = &self.spec.parent_ref;
        let kind = ObjectKind::find(&parent.group, &parent.kind);
        let own = &*self.metadata.name.namespace;
        let namespace = parent.namespace.as_deref().unwrap_or(own);
        (kind == Some(ObjectKind::Gateway)).then(|| ObjectName::new(namespace, &parent.name))
    }
}

/// The Gateway of a ListenerSet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ParentGatewayReference {
    #[serde(default = "gateway_group")]
    pub group: Text,
    #[serde(default = "gateway")]
    pub kind: Text,
    /// Namespace; the ListenerSet's by default.
    #[serde(default)]
    pub namespace: Option<Text>,
    pub name: Text,
}

fn gateway_group() -> Text {
    GATEWAY_GROUP.into()
}

fn gateway() -> Text {
    "Gateway".into()
}

//! Where the addresses in a Gateway's status come from. The leader decides it, from the parameters, and writes it
//! as an annotation of the Gateway's ConfigMap, so that every replica reports the same ones.

use serde::{Deserialize, Serialize};
use translate::api::LabelSelector;

/// Where the addresses of a Gateway come from.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(tag = "from")]
pub enum AddressSource {
    /// Those of its Service.
    #[default]
    Service,
    /// Those of the nodes of its proxies.
    Nodes(NodeAddresses),
    /// It has none: whoever sends to it knows where its proxies are.
    Nowhere,
}

/// Which addresses of which nodes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAddresses {
    /// The type of addresses; `None` means external ones, or internal ones where no node has any.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<NodeAddressType>,
    /// The nodes that count; `None` means all with a proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The type of a node's address, as in its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum NodeAddressType {
    /// Reachable from outside.
    #[serde(rename = "ExternalIP")]
    External,
    /// Of the network of the nodes.
    #[serde(rename = "InternalIP")]
    Internal,
}

impl NodeAddressType {
    /// Its name in Kubernetes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "ExternalIP",
            Self::Internal => "InternalIP",
        }
    }
}

/// The annotation of the ConfigMap, whose value is an [`AddressSource`] in JSON. Without it, it is the Service.
pub(in crate::deploy) const ANNOTATION: &str = "gateway-system.io/addresses";

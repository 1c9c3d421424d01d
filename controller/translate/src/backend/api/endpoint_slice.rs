//! EndpointSlice.

use serde::{Deserialize, Serialize};

use super::TransportProtocol;
use crate::objects::api::ObjectMeta;

/// The label that names a slice's Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The type of its addresses.
    pub address_type: AddressType,
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports of every endpoint.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum AddressType {
    IPv4,
    IPv6,
    /// DNS names, which are ignored.
    #[serde(rename = "FQDN")]
    Fqdn,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Interchangeable addresses of the endpoint; the first is used.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub addresses: Vec<String>,
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub conditions: EndpointConditions,
    #[serde(default)]
    pub node_name: Option<String>,
    #[serde(default)]
    pub zone: Option<String>,
    /// Whose requests it should get. Boxed: few have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
}

/// Whose requests an endpoint should get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointHints {
    /// Those of proxies in these zones.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub for_zones: Vec<HintTarget>,
    /// Those of proxies on these nodes.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub for_nodes: Vec<HintTarget>,
}

/// A zone or node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HintTarget {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// The state of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct EndpointConditions {
    /// Receives requests; unknown means that it does.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Can serve requests, even while terminating; if unknown, equal to `ready`.
    #[serde(default)]
    pub serving: Option<bool>,
    /// Is terminating; unknown means that it is not.
    #[serde(default)]
    pub terminating: Option<bool>,
}

/// A port of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPort {
    /// The name of the Service's port.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub name: String,
    /// The number on the endpoint.
    #[serde(default)]
    pub port: Option<u16>,
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub protocol: TransportProtocol,
    /// Application protocol, such as `kubernetes.io/h2c` (KEP-3726).
    #[serde(default)]
    pub app_protocol: Option<String>,
}

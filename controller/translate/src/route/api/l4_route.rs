//! TLSRoute, TCPRoute and UDPRoute: routes of connections and datagrams.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DefaultScope, ParentReference};
use crate::backend::api::BackendRef;
use crate::objects::api::ObjectMeta;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct TlsRoute {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: TlsRouteSpec,
}

/// The desired state of a TLSRoute.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// Gateways or listeners that it attaches to.
    #[serde(
        default,
        deserialize_with = "super::parent_ref::read",
        serialize_with = "super::parent_ref::write"
    )]
    pub parent_refs: Vec<Arc<ParentReference>>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    /// The names of the SNI, at least one.
    #[serde(default)]
    pub hostnames: Vec<String>,
    #[serde(default)]
    pub rules: Vec<L4RouteRule>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct TcpRoute {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: L4RouteSpec,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct UdpRoute {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: L4RouteSpec,
}

/// The desired state of a TCPRoute or UDPRoute.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L4RouteSpec {
    /// Gateways or listeners that it attaches to.
    #[serde(
        default,
        deserialize_with = "super::parent_ref::read",
        serialize_with = "super::parent_ref::write"
    )]
    pub parent_refs: Vec<Arc<ParentReference>>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    #[serde(default)]
    pub rules: Vec<L4RouteRule>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L4RouteRule {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}

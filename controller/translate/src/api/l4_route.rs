//! TLSRoute, TCPRoute and UDPRoute: routes that look at connections alone.

use serde::{Deserialize, Serialize};

use super::{BackendRef, DefaultScope, ObjectMeta, ParentReference};

/// A TLSRoute.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct TlsRoute {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: TlsRouteSpec,
}

/// What a TLSRoute is to do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentReference>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    /// The names of the SNI, at least one.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Its only rule.
    #[serde(default)]
    pub rules: Vec<L4RouteRule>,
}

/// A TCPRoute.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct TcpRoute {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: L4RouteSpec,
}

/// A UDPRoute.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct UdpRoute {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: L4RouteSpec,
}

/// What a TCPRoute or a UDPRoute is to do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L4RouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentReference>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    /// Its only rule.
    #[serde(default)]
    pub rules: Vec<L4RouteRule>,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L4RouteRule {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Where connections go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}

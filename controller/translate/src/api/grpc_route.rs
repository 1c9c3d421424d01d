//! GRPCRoute.

use serde::{Deserialize, Serialize};

use super::{
    DefaultScope, HttpBackendRef, HttpHeaderMatch, HttpRouteFilter, ObjectMeta, ParentReference,
    SessionPersistence, ValueMatchType,
};

/// A GRPCRoute.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct GrpcRoute {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: GrpcRouteSpec,
}

/// What a GRPCRoute is to do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentReference>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    /// Its hosts; none means every host.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Its rules. Unlike an HTTPRoute, it has none by default.
    #[serde(default)]
    pub rules: Vec<GrpcRouteRule>,
}

/// A rule. Its filters are those of HTTP, of which `admit` lets four types in.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteRule {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// What it matches: any of these; none means every call.
    #[serde(default)]
    pub matches: Vec<GrpcRouteMatch>,
    /// What it does.
    #[serde(default)]
    pub filters: Vec<HttpRouteFilter>,
    /// Where calls go.
    #[serde(default)]
    pub backend_refs: Vec<HttpBackendRef>,
    /// Its session persistence.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// A match: all of its parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct GrpcRouteMatch {
    /// Service and method.
    #[serde(default)]
    pub method: Option<GrpcMethodMatch>,
    /// Headers.
    #[serde(default)]
    pub headers: Vec<HttpHeaderMatch>,
}

/// Matches service and method; one that is not given is any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcMethodMatch {
    /// How.
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    /// The service with its package, such as `helloworld.Greeter`.
    #[serde(default)]
    pub service: Option<String>,
    /// The method.
    #[serde(default)]
    pub method: Option<String>,
}

//! GRPCRoute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    DefaultScope, HttpHeaderMatch, HttpRouteFilter, ParentReference, SessionPersistence,
    ValueMatchType,
};
use crate::objects::api::ObjectMeta;
use crate::route::api::HttpBackendRef;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct GrpcRoute {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: GrpcRouteSpec,
}

/// The desired state of a GRPCRoute.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// Gateways, listeners or Services that it attaches to.
    #[serde(
        default,
        deserialize_with = "super::parent_ref::read",
        serialize_with = "super::parent_ref::write"
    )]
    pub parent_refs: Vec<Arc<ParentReference>>,
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

/// A rule. Its filters are those of HTTP; `admit` accepts four types of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteRule {
    #[serde(default)]
    pub name: Option<String>,
    /// Matches, one of which has to apply; an empty list matches every call.
    #[serde(default)]
    pub matches: Vec<GrpcRouteMatch>,
    #[serde(default)]
    pub filters: Vec<HttpRouteFilter>,
    #[serde(default)]
    pub backend_refs: Vec<HttpBackendRef>,
    #[serde(default)]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// A match: all of its parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct GrpcRouteMatch {
    #[serde(default)]
    pub method: Option<GrpcMethodMatch>,
    #[serde(default)]
    pub headers: Vec<HttpHeaderMatch>,
}

/// Matches service and method; an omitted one matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcMethodMatch {
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    /// The service with its package, such as `helloworld.Greeter`.
    #[serde(default)]
    pub service: Option<String>,
    #[serde(default)]
    pub method: Option<String>,
}

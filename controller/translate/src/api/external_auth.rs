//! Filters that call an external authorization server.

use serde::{Deserialize, Serialize};

use super::{BackendObjectReference, FilterType, LocalObjectReference};

/// Calls an external authorization server (GEP-1494).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthFilter {
    /// Protocol of the server.
    pub protocol: ExternalAuthProtocol,
    pub backend_ref: BackendObjectReference,
    /// Settings for `protocol: GRPC` only.
    #[serde(default)]
    pub grpc: Option<GrpcAuthConfig>,
    #[serde(default)]
    pub http: Option<HttpAuthConfig>,
    /// Whether the request's body is sent to it.
    #[serde(default)]
    pub forward_body: Option<ForwardBody>,
}

/// The protocol of an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum ExternalAuthProtocol {
    /// A copy of the request.
    #[serde(rename = "HTTP")]
    Http,
    /// A call of Envoy's `ext_authz`.
    #[serde(rename = "GRPC")]
    Grpc,
    /// One of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// Settings for gRPC servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcAuthConfig {
    /// Headers of the request that it is shown; none means all.
    #[serde(default)]
    pub allowed_headers: Vec<String>,
}

/// More about servers of HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuthConfig {
    /// Put in front of the request's path.
    #[serde(default)]
    pub path: Option<String>,
    /// Headers of the request that it is shown beside those that it is always shown.
    #[serde(default)]
    pub allowed_headers: Vec<String>,
    /// Headers of its answer that the request gets; none means all.
    #[serde(default)]
    pub allowed_response_headers: Vec<String>,
}

/// Whether a server is shown the request's body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardBody {
    /// Bytes of it; 0 means that it is not shown.
    #[serde(default)]
    pub max_size: u32,
}

/// Filters for requests before a route is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerFilters {
    #[serde(default)]
    pub requests: Vec<ListenerFilter>,
}

/// A filter: its type, and the field of that type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerFilter {
    /// Which field is set.
    #[serde(rename = "type")]
    pub kind: FilterType,
    #[serde(default)]
    pub external_auth: Option<ExternalAuthFilter>,
    /// A filter of another kind.
    #[serde(default)]
    pub extension_ref: Option<LocalObjectReference>,
}

//! Filters that call an external authorization server.

use serde::{Deserialize, Serialize};

use crate::backend::api::BackendObjectReference;

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
    /// A value of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// Settings for gRPC servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcAuthConfig {
    /// Request headers that are sent to it; empty means all.
    #[serde(default)]
    pub allowed_headers: Vec<String>,
}

/// Settings for HTTP servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuthConfig {
    /// Prefix of the request's path.
    #[serde(default)]
    pub path: Option<String>,
    /// Request headers that are sent to it in addition to those that always are.
    #[serde(default)]
    pub allowed_headers: Vec<String>,
    /// Headers of its response that are copied into the request; empty means all.
    #[serde(default)]
    pub allowed_response_headers: Vec<String>,
}

/// Whether the request's body is sent to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardBody {
    /// Maximum bytes of it; 0 means that it is not sent.
    #[serde(default)]
    pub max_size: u32,
}

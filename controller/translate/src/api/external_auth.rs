//! Filters that ask a server whether a request may pass.

use serde::{Deserialize, Serialize};

use super::{BackendObjectReference, FilterType, LocalObjectReference};

/// Asks a server whether a request may pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthFilter {
    /// How it is asked.
    pub protocol: ExternalAuthProtocol,
    pub backend_ref: BackendObjectReference,
    /// Settings for `protocol: GRPC` only.
    #[serde(default)]
    pub grpc: Option<GrpcAuthConfig>,
    #[serde(default)]
    pub http: Option<HttpAuthConfig>,
    /// Whether it is shown the request's body.
    #[serde(default)]
    pub forward_body: Option<ForwardBody>,
}

/// How an authorization server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum ExternalAuthProtocol {
    /// By a request like the one in question.
    #[serde(rename = "HTTP")]
    Http,
    /// By a call of Envoy's `ext_authz`.
    #[serde(rename = "GRPC")]
    Grpc,
    /// One of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// More about servers of gRPC.
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

/// What a listener does with requests before their route is chosen.
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

//! XBackend, of the experimental channel of Gateway API (GEP-4894).

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::PoolSelector;
use crate::gateway::api::SecretObjectReference;
use crate::objects::api::ObjectMeta;
use crate::policy::api::BackendTlsValidation;
use crate::route::api::SessionPersistence;

/// An XBackend: pods of its namespace, or a host outside of the cluster, and how they are reached.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct XBackend {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: XBackendSpec,
}

/// The desired state of an XBackend.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XBackendSpec {
    /// The kind of its upstream.
    #[serde(rename = "type")]
    pub kind: XBackendType,
    pub port: XBackendPort,
    #[serde(default)]
    pub external_hostname: Option<ExternalHostname>,
    #[serde(default)]
    pub endpoint_selector: Option<PoolSelector>,
    /// Session persistence, which keeps clients at one of the pods.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
    /// Application protocol; if omitted, that of the routes.
    #[serde(default)]
    pub protocol: Option<XBackendProtocol>,
    #[serde(default)]
    pub tls: Option<XBackendTls>,
}

/// The kind of upstream of an XBackend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum XBackendType {
    /// A host outside of the cluster.
    ExternalHostname,
    EndpointSelector,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct XBackendPort {
    #[serde(default)]
    pub number: Option<NonZeroU16>,
}

/// A host by its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExternalHostname {
    pub hostname: String,
}

/// The application protocol of an XBackend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum XBackendProtocol {
    #[serde(rename = "TCP")]
    Tcp,
    /// HTTP, in the version of the client's request.
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP/2 over TLS, with ALPN `h2`.
    #[serde(rename = "HTTP2")]
    Http2,
    /// HTTP/1.1, in plain text or over TLS.
    #[serde(rename = "HTTP11")]
    Http11,
    /// HTTP/2 in plain text, with prior knowledge.
    #[serde(rename = "H2C")]
    H2c,
    /// The Model Context Protocol, which is HTTP.
    #[serde(rename = "MCP")]
    Mcp,
    /// gRPC, which is HTTP/2.
    #[serde(rename = "GRPC")]
    Grpc,
    /// WebSocket over TLS, as an upgrade of HTTP/1.1.
    #[serde(rename = "WSS")]
    Wss,
    /// A value of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// TLS towards an XBackend.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XBackendTls {
    /// Which sides present a certificate.
    pub mode: XBackendTlsMode,
    #[serde(default)]
    pub client_certificate_ref: Option<SecretObjectReference>,
    /// How the backend's certificate is validated.
    #[serde(default)]
    pub validation: Option<BackendTlsValidation>,
}

/// Which sides present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum XBackendTlsMode {
    /// Plain text.
    None,
    ServerOnly,
    ClientAndServer,
    /// A mode of a later version of the API.
    #[serde(other)]
    Unknown,
}

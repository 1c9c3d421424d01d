//! XBackend, of the experimental channel of Gateway API (GEP-4894).

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::{
    BackendTlsValidation, ObjectMeta, PoolSelector, SecretObjectReference, SessionPersistence,
};

/// An XBackend: pods of its namespace, or a host outside of the cluster, and how they are reached.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct XBackend {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: XBackendSpec,
}

/// What an XBackend is.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XBackendSpec {
    /// Which of the two it is.
    #[serde(rename = "type")]
    pub kind: XBackendType,
    /// Where it listens.
    pub port: XBackendPort,
    /// A host.
    #[serde(default)]
    pub external_hostname: Option<ExternalHostname>,
    /// Pods.
    #[serde(default)]
    pub endpoint_selector: Option<PoolSelector>,
    /// Keeps clients at one of the pods.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
    /// What is spoken there; what its routes speak, where nothing is said.
    #[serde(default)]
    pub protocol: Option<XBackendProtocol>,
    /// TLS towards it.
    #[serde(default)]
    pub tls: Option<XBackendTls>,
}

/// What an XBackend leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum XBackendType {
    /// A host outside of the cluster.
    ExternalHostname,
    /// Pods.
    EndpointSelector,
    /// Something of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// A port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct XBackendPort {
    /// Its number.
    #[serde(default)]
    pub number: Option<NonZeroU16>,
}

/// A host by its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExternalHostname {
    /// Its DNS name.
    pub hostname: String,
}

/// What an XBackend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum XBackendProtocol {
    /// Bytes.
    #[serde(rename = "TCP")]
    Tcp,
    /// HTTP of whatever version.
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP/2 in TLS.
    #[serde(rename = "HTTP2")]
    Http2,
    /// HTTP/1.1.
    #[serde(rename = "HTTP11")]
    Http11,
    /// HTTP/2 without TLS.
    #[serde(rename = "H2C")]
    H2c,
    /// The Model Context Protocol, which is HTTP.
    #[serde(rename = "MCP")]
    Mcp,
    /// gRPC.
    #[serde(rename = "GRPC")]
    Grpc,
    /// WebSocket over TLS.
    #[serde(rename = "WSS")]
    Wss,
    /// One of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// TLS towards an XBackend.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XBackendTls {
    /// Who proves who they are.
    pub mode: XBackendTlsMode,
    /// What we show.
    #[serde(default)]
    pub client_certificate_ref: Option<SecretObjectReference>,
    /// What it must show.
    #[serde(default)]
    pub validation: Option<BackendTlsValidation>,
}

/// Who proves who they are in TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum XBackendTlsMode {
    /// There is no TLS.
    None,
    /// The backend.
    ServerOnly,
    /// Both.
    ClientAndServer,
    /// A mode of a later version of the API.
    #[serde(other)]
    Unknown,
}

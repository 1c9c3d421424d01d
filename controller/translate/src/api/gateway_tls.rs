//! TLS of a whole Gateway.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::SecretObjectReference;

/// TLS towards clients and towards backends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct GatewayTls {
    #[serde(default)]
    pub backend: Option<GatewayBackendTls>,
    #[serde(default)]
    pub frontend: Option<FrontendTls>,
}

/// What the Gateway shows to backends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayBackendTls {
    /// A Secret with certificate and key.
    #[serde(default)]
    pub client_certificate_ref: Option<SecretObjectReference>,
}

/// What clients show to the listeners of HTTPS.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// At ports that have nothing of their own.
    pub default: FrontendTlsConfig,
    /// Settings of single ports, which replace the default.
    #[serde(default)]
    pub per_port: Vec<FrontendTlsPort>,
}

/// What clients show at one port.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct FrontendTlsPort {
    pub port: NonZeroU16,
    pub tls: FrontendTlsConfig,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct FrontendTlsConfig {
    /// A certificate; without it they show none.
    #[serde(default)]
    pub validation: Option<FrontendValidation>,
}

/// How a client's certificate is judged.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendValidation {
    /// Who vouches for it.
    #[serde(rename = "caCertificateRefs", default)]
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// Whether it may be missing or wrong.
    #[serde(default)]
    pub mode: FrontendValidationMode,
}

/// Whether a client's certificate may be missing or wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FrontendValidationMode {
    #[default]
    AllowValidOnly,
    AllowInsecureFallback,
}

/// A reference to an object, maybe of another namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ObjectReference {
    pub group: String,
    pub kind: String,
    /// Namespace; the referrer's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    pub name: String,
}

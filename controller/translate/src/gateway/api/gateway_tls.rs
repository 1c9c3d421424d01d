//! TLS of a whole Gateway.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

/// TLS towards clients and towards backends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct GatewayTls {
    #[serde(default)]
    pub backend: Option<GatewayBackendTls>,
    #[serde(default)]
    pub frontend: Option<FrontendTls>,
}

/// The client certificate that the Gateway presents to backends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayBackendTls {
    /// A Secret with certificate and key.
    #[serde(default)]
    pub client_certificate_ref: Option<SecretObjectReference>,
}

/// Validation of client certificates by HTTPS listeners.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// Settings of ports without their own.
    pub default: FrontendTlsConfig,
    /// Settings of single ports, which replace the default.
    #[serde(default)]
    pub per_port: Vec<FrontendTlsPort>,
}

/// Validation of client certificates at one port.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct FrontendTlsPort {
    pub port: NonZeroU16,
    pub tls: FrontendTlsConfig,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct FrontendTlsConfig {
    /// How certificates are validated; absent means that none are requested.
    #[serde(default)]
    pub validation: Option<FrontendValidation>,
}

/// How a client's certificate is validated.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendValidation {
    /// CA certificates that are trusted.
    #[serde(rename = "caCertificateRefs", default)]
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// Whether a missing or invalid certificate is accepted.
    #[serde(default)]
    pub mode: FrontendValidationMode,
}

/// Whether a client's certificate may be missing or invalid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FrontendValidationMode {
    #[default]
    AllowValidOnly,
    AllowInsecureFallback,
}

/// A reference to an object, possibly in another namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ObjectReference {
    pub group: String,
    pub kind: String,
    /// Namespace; the referrer's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    pub name: String,
}

/// A reference to a Secret.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct SecretObjectReference {
    /// Group; core by default.
    #[serde(default)]
    pub group: String,
    #[serde(default = "secret")]
    pub kind: String,
    /// Namespace; the referrer's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    pub name: String,
}

fn secret() -> String {
    "Secret".to_owned()
}

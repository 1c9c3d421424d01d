//! TLS of listeners and backends. Certificates are given by fingerprint; keys are left out.

use serde::{Deserialize, Serialize};

/// TLS termination of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Fingerprints of its certificates; details are in the dump's `certificates`.
    pub certificates: Vec<String>,
    /// The Secrets that they are from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    /// `None`, `AllowValidOnly` or `AllowInsecureFallback`.
    pub client_auth: String,
    /// Fingerprints of the CA certificates for client certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_roots: Vec<String>,
    /// Protocols offered by ALPN.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// Minimum TLS version: `1.2` or `1.3`.
    pub min_version: String,
}

/// A Secret of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretUse {
    /// `namespace/name` of the Secret.
    pub secret: String,
    /// Fingerprint of the certificate from it; None if it has no usable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// TLS to a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum BackendTls {
    /// The backend's certificate is verified.
    Verified {
        /// Name sent in the TLS handshake (SNI).
        server_name: String,
        /// Names, one of which the certificate must have; empty for the SNI.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        identities: Vec<String>,
        /// Fingerprints of the CA certificates; empty for the system's trust store.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roots: Vec<String>,
    },
    /// Any certificate is accepted.
    Unverified {
        /// Name sent in the TLS handshake (SNI).
        server_name: String,
    },
    /// The configuration is invalid: requests fail.
    Invalid,
}

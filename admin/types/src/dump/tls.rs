//! TLS of listeners and backends. Certificates are given by fingerprint; keys are left out.

use serde::{Deserialize, Serialize};
use xds::model;

/// TLS termination of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Fingerprints of its certificates; details are in the dump's `certificates`.
    pub certificates: Vec<String>,
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

impl From<&model::TlsServer> for ListenerTls {
    fn from(tls: &model::TlsServer) -> Self {
        let (client_auth, roots) = match &tls.client_auth {
            model::ClientAuth::None => ("None", &[][..]),
            model::ClientAuth::Required { roots } => ("AllowValidOnly", roots.as_slice()),
            model::ClientAuth::Optional { roots } => ("AllowInsecureFallback", roots.as_slice()),
        };
        let certificates = tls.pairs();
        Self {
            certificates: certificates.filter_map(fingerprint).collect(),
            client_auth: client_auth.to_owned(),
            client_roots: fingerprints(roots),
            alpn: tls
                .alpn
                .iter()
                .map(|alpn| alpn.as_str().to_owned())
                .collect(),
            min_version: match tls.min_version {
                model::TlsVersion::V12 => "1.2",
                model::TlsVersion::V13 => "1.3",
            }
            .to_owned(),
        }
    }
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

impl From<&model::BackendTls> for BackendTls {
    fn from(tls: &model::BackendTls) -> Self {
        let client = match tls {
            model::BackendTls::Verified(client) => client,
            model::BackendTls::Unverified { server_name } => {
                let server_name = server_name.to_string();
                return Self::Unverified { server_name };
            }
            model::BackendTls::Invalid => return Self::Invalid,
        };
        let identity = |identity: &model::SubjectAltName| match identity {
            model::SubjectAltName::Dns(name) => name.to_string(),
            model::SubjectAltName::Uri(uri) => uri.clone(),
        };
        Self::Verified {
            server_name: client.server_name.to_string(),
            identities: client.identities.iter().map(identity).collect(),
            roots: match &client.roots {
                model::Roots::System => Vec::new(),
                model::Roots::Certificates(roots) => fingerprints(roots),
            },
        }
    }
}

/// The fingerprint of the leaf certificate of a chain.
pub(super) fn fingerprint(certificate: &model::Certificate) -> Option<String> {
    certificate.chain.first().map(model::Der::fingerprint)
}

fn fingerprints(certificates: &[model::Der]) -> Vec<String> {
    certificates.iter().map(model::Der::fingerprint).collect()
}

//! TLS on both sides; certificates by their fingerprints, keys not at all.

use serde::{Deserialize, Serialize};
use xds::model;

/// How a listener ends TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Fingerprints of its certificates; the dump's `certificates` say more of each.
    pub certificates: Vec<String>,
    /// `None`, `AllowValidOnly` or `AllowInsecureFallback`.
    pub client_auth: String,
    /// Fingerprints of those who vouch for clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_roots: Vec<String>,
    /// Protocols that are offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// The oldest version that is spoken.
    pub min_version: String,
}

impl From<&model::TlsServer> for ListenerTls {
    fn from(tls: &model::TlsServer) -> Self {
        let (client_auth, roots) = match &tls.client_auth {
            model::ClientAuth::None => ("None", &[][..]),
            model::ClientAuth::Required { roots } => ("AllowValidOnly", roots.as_slice()),
            model::ClientAuth::Optional { roots } => ("AllowInsecureFallback", roots.as_slice()),
        };
        let certificates = tls.certificates.iter();
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

/// TLS towards a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum BackendTls {
    /// What the backend must show.
    Verified {
        /// The SNI.
        server_name: String,
        /// Names of which its certificate must have one; the SNI where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        identities: Vec<String>,
        /// Fingerprints of those who vouch for it; the system's where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roots: Vec<String>,
    },
    /// It was asked for in a way that cannot be carried out: requests fail.
    Invalid,
}

impl From<&model::BackendTls> for BackendTls {
    fn from(tls: &model::BackendTls) -> Self {
        let client = match tls {
            model::BackendTls::Verified(client) => client,
            model::BackendTls::Invalid => return Self::Invalid,
        };
        let identity = |identity: &model::Identity| match identity {
            model::Identity::Dns(name) => name.to_string(),
            model::Identity::Uri(uri) => uri.clone(),
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

/// The fingerprint of a certificate's own one.
pub(super) fn fingerprint(certificate: &model::Certificate) -> Option<String> {
    certificate.chain.first().map(model::Der::fingerprint)
}

fn fingerprints(certificates: &[model::Der]) -> Vec<String> {
    certificates.iter().map(model::Der::fingerprint).collect()
}

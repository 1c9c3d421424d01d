//! TLS on both sides.

use super::value::list;
use crate::model::{
    Alpn, BackendTls, Certificate, ClientAuth, Der, ObjectName, Roots, ServerCertificate,
    SubjectAltName, TlsClient, TlsServer, TlsVersion,
};
use crate::proto::{self, backend_tls, identity, tls_client};

impl From<&Certificate> for proto::Certificate {
    fn from(certificate: &Certificate) -> Self {
        Self {
            chain: ders(&certificate.chain),
            key: certificate.key.secret_der().to_vec(),
            secret: String::new(),
        }
    }
}

impl From<&ServerCertificate> for proto::Certificate {
    fn from(certificate: &ServerCertificate) -> Self {
        let pair = certificate.pair.as_ref().map(Self::from);
        Self {
            secret: certificate
                .secret
                .as_ref()
                .map_or_else(String::new, ObjectName::to_string),
            ..pair.unwrap_or_default()
        }
    }
}

fn ders(certificates: &[Der]) -> Vec<Vec<u8>> {
    let bytes = certificates.iter().map(|der| der.as_bytes().to_vec());
    bytes.collect()
}

impl From<&TlsServer> for proto::TlsServer {
    fn from(server: &TlsServer) -> Self {
        let alpn = server.alpn.iter().map(|protocol| match protocol {
            Alpn::Http11 => proto::Alpn::Http11,
            Alpn::H2 => proto::Alpn::H2,
        });
        let min_version = match server.min_version {
            TlsVersion::V12 => proto::TlsVersion::TlsVersion12,
            TlsVersion::V13 => proto::TlsVersion::TlsVersion13,
        };
        Self {
            certificates: list(&server.certificates),
            client_auth: client_auth(&server.client_auth),
            alpn: alpn.map(Into::into).collect(),
            min_version: min_version.into(),
        }
    }
}

fn client_auth(client_auth: &ClientAuth) -> Option<proto::ClientAuth> {
    let (mode, roots) = match client_auth {
        ClientAuth::None => return None,
        ClientAuth::Required { roots } => (proto::ClientAuthMode::Required, roots),
        ClientAuth::Optional { roots } => (proto::ClientAuthMode::Optional, roots),
    };
    Some(proto::ClientAuth {
        mode: mode.into(),
        roots: ders(roots),
    })
}

impl From<&BackendTls> for proto::BackendTls {
    fn from(tls: &BackendTls) -> Self {
        let kind = match tls {
            BackendTls::Verified(client) => backend_tls::Kind::Verified(client.into()),
            BackendTls::Unverified { server_name } => {
                backend_tls::Kind::Unverified(server_name.to_string())
            }
            BackendTls::Invalid => backend_tls::Kind::Invalid(proto::Unit {}),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&TlsClient> for proto::TlsClient {
    fn from(client: &TlsClient) -> Self {
        let roots = match &client.roots {
            Roots::System => tls_client::Roots::System(proto::Unit {}),
            Roots::Certificates(roots) => {
                tls_client::Roots::Certificates(proto::RootCertificates {
                    certificates: ders(roots),
                })
            }
        };
        Self {
            server_name: client.server_name.to_string(),
            identities: list(&client.identities),
            roots: Some(roots),
        }
    }
}

impl From<&SubjectAltName> for proto::Identity {
    fn from(identity: &SubjectAltName) -> Self {
        let kind = match identity {
            SubjectAltName::Dns(name) => identity::Kind::Dns(name.to_string()),
            SubjectAltName::Uri(uri) => identity::Kind::Uri(uri.clone()),
        };
        Self { kind: Some(kind) }
    }
}

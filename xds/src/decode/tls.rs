//! TLS on both sides.

use super::field_path::FieldPath;
use super::value::{choice, exact_hostname, hostname, set_text};
use crate::model::{
    Alpn, BackendTls, Certificate, ClientAuth, Der, ObjectName, PrivateKey, Roots,
    ServerCertificate, SubjectAltName, TlsClient, TlsServer, TlsVersion,
};
use crate::proto::{self, backend_tls, identity, tls_client};

pub(super) fn certificate(at: &FieldPath<'_>, message: proto::Certificate) -> Option<Certificate> {
    let chain = at.some("chain", message.chain, der);
    let key = if message.key.is_empty() {
        at.field("key").missing()
    } else {
        Some(PrivateKey::new(&message.key))
    };
    Some(Certificate {
        chain: chain?,
        key: key?,
    })
}

/// Without a Secret, it is from a controller that does not name it: then it needs a pair.
fn server_certificate(
    at: &FieldPath<'_>,
    message: proto::Certificate,
) -> Option<ServerCertificate> {
    if message.secret.is_empty() {
        let pair = Some(certificate(at, message)?);
        return Some(ServerCertificate { secret: None, pair });
    }
    let name = message.secret.split_once('/');
    let name = name.and_then(|(namespace, name)| ObjectName::parse(namespace, name).ok());
    let Some(name) = name else {
        return at
            .field("secret")
            .problem("is not a namespace and a name, separated by `/`");
    };
    let is_usable = !message.chain.is_empty() || !message.key.is_empty();
    let pair = if is_usable {
        Some(certificate(at, message)?)
    } else {
        None
    };
    Some(ServerCertificate {
        secret: Some(name),
        pair,
    })
}

fn der(at: &FieldPath<'_>, bytes: Vec<u8>) -> Option<Der> {
    if bytes.is_empty() {
        return at.missing();
    }
    Some(Der::new(&bytes))
}

pub(super) fn tls_server(at: &FieldPath<'_>, message: proto::TlsServer) -> Option<TlsServer> {
    let certificates = at.list("certificates", message.certificates, server_certificate);
    let client_auth = at.optional("client_auth", message.client_auth, client_auth);
    let alpn = at.list("alpn", message.alpn, |at, number| {
        choice(at, number, |protocol| match protocol {
            proto::Alpn::Unspecified => None,
            proto::Alpn::Http11 => Some(Alpn::Http11),
            proto::Alpn::H2 => Some(Alpn::H2),
        })
    });
    let min_version = choice(
        &at.field("min_version"),
        message.min_version,
        |version| match version {
            proto::TlsVersion::Unspecified => None,
            proto::TlsVersion::TlsVersion12 => Some(TlsVersion::V12),
            proto::TlsVersion::TlsVersion13 => Some(TlsVersion::V13),
        },
    );
    Some(TlsServer {
        certificates: certificates?,
        client_auth: client_auth?.unwrap_or(ClientAuth::None),
        alpn: alpn?,
        min_version: min_version?,
    })
}

fn client_auth(at: &FieldPath<'_>, message: proto::ClientAuth) -> Option<ClientAuth> {
    let required = choice(&at.field("mode"), message.mode, |mode| match mode {
        proto::ClientAuthMode::Unspecified => None,
        proto::ClientAuthMode::Required => Some(true),
        proto::ClientAuthMode::Optional => Some(false),
    });
    let roots = at.some("roots", message.roots, der)?;
    Some(if required? {
        ClientAuth::Required { roots }
    } else {
        ClientAuth::Optional { roots }
    })
}

pub(super) fn backend_tls(at: &FieldPath<'_>, message: proto::BackendTls) -> Option<BackendTls> {
    match message.kind {
        Some(backend_tls::Kind::Verified(message)) => {
            tls_client(&at.field("verified"), message).map(BackendTls::Verified)
        }
        Some(backend_tls::Kind::Unverified(name)) => {
            let server_name = exact_hostname(&at.field("unverified"), &name);
            server_name.map(|server_name| BackendTls::Unverified { server_name })
        }
        Some(backend_tls::Kind::Invalid(proto::Unit {})) => Some(BackendTls::Invalid),
        None => at.record_missing_choice(),
    }
}

fn tls_client(at: &FieldPath<'_>, message: proto::TlsClient) -> Option<TlsClient> {
    let server_name = exact_hostname(&at.field("server_name"), &message.server_name);
    let identities = at.list("identities", message.identities, identity);
    let roots = match message.roots {
        Some(tls_client::Roots::System(proto::Unit {})) => Some(Roots::System),
        Some(tls_client::Roots::Certificates(list)) => at
            .field("certificates")
            .some("certificates", list.certificates, der)
            .map(Roots::Certificates),
        None => at.field("roots").record_missing_choice(),
    };
    Some(TlsClient {
        server_name: server_name?,
        identities: identities?,
        roots: roots?,
    })
}

fn identity(at: &FieldPath<'_>, message: proto::Identity) -> Option<SubjectAltName> {
    match message.kind {
        Some(identity::Kind::Dns(name)) => {
            hostname(&at.field("dns"), name).map(SubjectAltName::Dns)
        }
        Some(identity::Kind::Uri(uri)) => set_text(&at.field("uri"), uri).map(SubjectAltName::Uri),
        None => at.record_missing_choice(),
    }
}

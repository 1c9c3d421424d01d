//! TLS of the tests, on both sides of the gateway: plain rustls, with its own buffers.

use std::sync::Arc;

use rustls::client::{ClientSessionMemoryCache, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, HandshakeKind, RootCertStore, ServerConfig,
    SupportedProtocolVersion,
};

use super::message::latin1;
use super::pki::{Authority, Credential};

/// TLS settings of a client. Connections with the same settings resume each other's sessions.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: ClientConfig,
    versions: &'static [&'static SupportedProtocolVersion],
    name: String,
}

/// A client that trusts an authority and expects a server of this name.
pub(crate) fn tls(believes: &Authority, name: &str) -> Tls {
    Tls {
        config: config(believes, VERSIONS, None),
        versions: VERSIONS,
        name: name.to_owned(),
    }
}

impl Tls {
    /// The same client, towards another name.
    pub(crate) fn to(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// It sends no server name.
    pub(crate) fn without_sni(mut self) -> Self {
        self.config.enable_sni = false;
        self
    }

    /// It offers these protocols.
    pub(crate) fn offers(mut self, protocols: &[&str]) -> Self {
        let protocols = protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec());
        self.config.alpn_protocols = protocols.collect();
        self
    }

    /// It resumes no earlier session.
    pub(crate) fn forgetful(mut self) -> Self {
        self.config.resumption = Resumption::disabled();
        self
    }

    /// It speaks at most TLS 1.2.
    pub(crate) fn of_old(mut self, believes: &Authority) -> Self {
        self.versions = OLD_VERSION;
        self.config = config(believes, self.versions, None);
        self
    }

    /// It presents this certificate if the server requests one.
    pub(crate) fn shows(mut self, believes: &Authority, pair: &Credential) -> Self {
        self.config = config(believes, self.versions, Some(pair));
        self
    }

    pub(crate) fn connection(&self) -> ClientConnection {
        let name = ServerName::try_from(self.name.clone()).expect("a name");
        ClientConnection::new(Arc::new(self.config.clone()), name).expect("a valid configuration")
    }
}

fn config(
    believes: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    shows: Option<&Credential>,
) -> ClientConfig {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(believes), provider());
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("ring speaks both")
        .with_webpki_verifier(verifier.build().expect("roots"));
    let mut config = match shows {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(vec![pair.der()], pair.key())
            .expect("a key that fits"),
    };
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(32)));
    config
}

/// Whether a server requests a client certificate.
#[derive(Clone, Copy)]
pub(crate) enum ClientCertificates<'a> {
    Nobody,
    /// One signed by this authority.
    For(&'a Authority),
}

/// Properties of a TLS handshake at an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The server name that the gateway sent.
    pub(crate) sni: Option<String>,
    /// Whether it resumed an earlier session.
    pub(crate) resumed: bool,
    /// The certificate presented by the gateway.
    pub(crate) certificate: Option<Vec<u8>>,
    /// The protocol agreed on.
    pub(crate) protocol: Option<String>,
}

impl Handshake {
    /// Of a server's end, when it is done.
    pub(super) fn of(tls: &Connection) -> Self {
        let Connection::Server(server) = tls else {
            unreachable!("an origin is a server");
        };
        let shown = tls.peer_certificates().and_then(<[_]>::first);
        Self {
            sni: server.server_name().map(str::to_owned),
            resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: shown.map(|certificate| certificate.to_vec()),
            protocol: tls.alpn_protocol().map(latin1),
        }
    }
}

/// An HTTP/1 server with this certificate.
pub(super) fn server_config(shows: &Credential, asks: ClientCertificates<'_>) -> Arc<ServerConfig> {
    server_config_speaking(shows, asks, &["http/1.1"])
}

/// A server with this certificate, which negotiates one of these protocols.
pub(super) fn server_config_speaking(
    shows: &Credential,
    asks: ClientCertificates<'_>,
    protocols: &[&str],
) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)
        .expect("ring speaks both");
    let builder = match asks {
        ClientCertificates::Nobody => builder.with_no_client_auth(),
        ClientCertificates::For(authority) => {
            let roots = roots(authority);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            builder.with_client_cert_verifier(verifier.build().expect("roots"))
        }
    };
    let mut config = builder
        .with_single_cert(vec![shows.der()], shows.key())
        .expect("a key that fits");
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    Arc::new(config)
}

fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).expect("an authority");
    Arc::new(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

static VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static OLD_VERSION: &[&SupportedProtocolVersion] = &[&TLS12];

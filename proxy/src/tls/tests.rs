//! Certificates and verification of listeners and backends, with a plain rustls client or server.

use std::num::NonZeroU32;
use std::sync::Arc;

use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig, SignatureScheme,
};
use xds::model::{
    Alpn, Certificate, ClientAuth, Der, Hostname, ObjectName, PrivateKey, Roots, SubjectAltName,
    TlsClient, TlsServer, TlsVersion,
};

use super::UpstreamTlsFailure;
use super::pki::{Authority, Credential, authority, itself, subject};
use super::sample::{End, handshake};
use super::session::{SessionError, TlsSession};
use super::{
    CertificateTrust, ClientCertificate, ServerTls, TrustDomain, UpstreamTls, roots, tickets,
};

fn der(certificate: &rustls::pki_types::CertificateDer<'_>) -> Der {
    Der::new(certificate)
}

fn certificate(pair: &Credential) -> Certificate {
    Certificate {
        chain: vec![der(&pair.der())],
        key: PrivateKey::new(pair.key().secret_der()),
    }
}

/// A listener with these certificates.
fn listener(certificates: &[&Credential], client_auth: ClientAuth) -> TlsServer {
    TlsServer {
        certificates: certificates
            .iter()
            .map(|pair| certificate(pair).into())
            .collect(),
        client_auth,
        alpn: vec![Alpn::H2, Alpn::Http11],
        min_version: TlsVersion::V12,
    }
}

fn compile_with_tickets(server: &TlsServer, tickets: Arc<dyn ProducesTickets>) -> ServerTls {
    let domain = Arc::new(TrustDomain {
        gateway: ObjectName::new("ns", "gw"),
        client_auth: server.client_auth.clone(),
    });
    ServerTls::compile(server, domain, tickets, &[Alpn::Http11]).expect("a valid listener")
}

fn compile(server: &TlsServer) -> ServerTls {
    compile_with_tickets(server, tickets().expect("randomness"))
}

/// A client that trusts an authority.
struct Client {
    config: ClientConfig,
    name: &'static str,
}

fn client(believes: &Authority, name: &'static str) -> Client {
    client_with(believes, name, ring::default_provider(), None)
}

fn client_with(
    believes: &Authority,
    name: &'static str,
    provider: CryptoProvider,
    shows: Option<&Credential>,
) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(believes.der()).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("ring speaks both")
        .with_root_certificates(roots);
    let config = match shows {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(vec![pair.der()], pair.key())
            .expect("a key that fits"),
    };
    Client { config, name }
}

impl Client {
    fn handshake_with(&self, server: &ServerTls) -> Result<(End, End), SessionError> {
        let name = ServerName::try_from(self.name).expect("a name");
        let config = Arc::new(self.config.clone());
        let mut client = End::new(TlsSession::client(config, name)?);
        let mut server = End::new(TlsSession::server(Arc::clone(&server.config))?);
        handshake(&mut client, &mut server, 16 * 1024)?;
        Ok((client, server))
    }

    /// The certificate that it receives.
    fn received_certificate(&self, server: &ServerTls) -> Der {
        let (client, _) = self.handshake_with(server).expect("a valid handshake");
        let chain = client.session.agreed().peer_certificates();
        der(&chain.expect("servers show one")[0])
    }

    /// The kind of handshake of a second connection.
    fn resumes_with(&self, server: &ServerTls) -> HandshakeKind {
        let (_, server) = self.handshake_with(server).expect("a valid handshake");
        let kind = server.session.agreed().handshake_kind();
        kind.expect("it is done")
    }
}

#[test]
fn the_certificate_is_selected_by_server_name_then_by_order() {
    let ca = authority("ca");
    let first = ca.server(&["first.test"]);
    let second = ca.server(&["second.test", "*.wild.test"]);
    let server = compile(&listener(&[&first, &second], ClientAuth::None));
    for (name, pair) in [
        ("first.test", &first),
        ("second.test", &second),
        ("SECOND.test", &second),
        ("any.wild.test", &second),
    ] {
        assert_eq!(
            client(&ca, name).received_certificate(&server),
            der(&pair.der()),
            "{name}"
        );
    }
    for name in ["other.test", "a.b.wild.test", "wild.test"] {
        let error = client(&ca, name)
            .handshake_with(&server)
            .map(drop)
            .expect_err("the wrong name");
        assert_eq!(
            UpstreamTlsFailure::from(&error).detail(),
            "its certificate is for another name",
            "{name}"
        );
    }
}

#[test]
fn the_certificate_matches_the_algorithms_of_the_client() {
    let ca = authority("ca");
    let modern = ca.signs(&subject(&["a.test"]).ed25519());
    let common = ca.server(&["a.test"]);
    let server = compile(&listener(&[&modern, &common], ClientAuth::None));
    assert_eq!(
        client(&ca, "a.test").received_certificate(&server),
        der(&modern.der())
    );

    let mut provider = ring::default_provider();
    let known = provider.signature_verification_algorithms.mapping;
    let known: Vec<_> = known
        .iter()
        .filter(|(scheme, _)| *scheme != SignatureScheme::ED25519)
        .copied()
        .collect();
    provider.signature_verification_algorithms.mapping = known.leak();
    let old = client_with(&ca, "a.test", provider, None);
    assert_eq!(old.received_certificate(&server), der(&common.der()));
}

#[test]
fn both_versions_are_supported_unless_the_listener_restricts_them() {
    let ca = authority("ca");
    let pair = ca.server(&["a.test"]);
    let mut server = listener(&[&pair], ClientAuth::None);
    let mut old = client(&ca, "a.test");
    let mut roots = RootCertStore::empty();
    roots.add(ca.der()).expect("an authority");
    old.config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS12])
        .expect("ring speaks it")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (end, _) = old
        .handshake_with(&compile(&server))
        .expect("the version is supported");
    assert_eq!(
        end.session.agreed().protocol_version(),
        Some(ProtocolVersion::TLSv1_2)
    );
    let (end, _) = client(&ca, "a.test")
        .handshake_with(&compile(&server))
        .expect("the version is supported");
    assert_eq!(
        end.session.agreed().protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    server.min_version = TlsVersion::V13;
    assert!(old.handshake_with(&compile(&server)).is_err());
}

#[test]
fn alpn_selects_only_supported_protocols() {
    let ca = authority("ca");
    let server = compile(&listener(&[&ca.server(&["a.test"])], ClientAuth::None));
    let agreed = |offered: &[&str]| {
        let mut client = client(&ca, "a.test");
        client.config.alpn_protocols = offered.iter().map(|it| it.as_bytes().to_vec()).collect();
        let (_, server) = client.handshake_with(&server).ok()?;
        Some(server.session.agreed().alpn_protocol().map(<[u8]>::to_vec))
    };
    assert_eq!(
        agreed(&["h2", "http/1.1"]),
        Some(Some(b"http/1.1".to_vec()))
    );
    assert_eq!(agreed(&[]), Some(None));
    assert_eq!(agreed(&["h2"]), None, "there is no common protocol");
}

#[test]
fn a_ticket_outlives_a_reload_and_never_leaves_its_trust_domain() {
    let ca = authority("ca");
    let pair = ca.server(&["a.test"]);
    let server = listener(&[&pair], ClientAuth::None);
    let ticketer = tickets().expect("randomness");
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let mut client = client(&ca, "a.test");
        let mut roots = RootCertStore::empty();
        roots.add(ca.der()).expect("an authority");
        client.config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("ring speaks it")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
        let before = compile_with_tickets(&server, Arc::clone(&ticketer));
        assert_eq!(client.resumes_with(&before), HandshakeKind::Full);
        let after = compile_with_tickets(&server, Arc::clone(&ticketer));
        assert_eq!(client.resumes_with(&after), HandshakeKind::Resumed);
        assert_eq!(client.resumes_with(&compile(&server)), HandshakeKind::Full);
    }
}

fn server_verifying_clients(ca: &Authority, believe: fn(Vec<Der>) -> ClientAuth) -> ServerTls {
    let roots = vec![der(&ca.der())];
    compile(&listener(&[&ca.server(&["a.test"])], believe(roots)))
}

fn required(roots: Vec<Der>) -> ClientAuth {
    ClientAuth::Required { roots }
}

fn optional(roots: Vec<Der>) -> ClientAuth {
    ClientAuth::Optional { roots }
}

/// The client certificate that a listener receives.
fn client_certificate(
    ca: &Authority,
    server: &ServerTls,
    shows: Option<&Credential>,
) -> Option<ClientCertificate> {
    let client = client_with(ca, "a.test", ring::default_provider(), shows);
    let (_, end) = client.handshake_with(server).expect("it is accepted");
    let chain = end.session.agreed().peer_certificates()?;
    ClientCertificate::read(chain, &**server.clients.as_ref()?)
}

#[test]
fn a_required_client_certificate_must_be_present_and_valid() {
    let (ca, stranger) = (authority("ca"), authority("stranger"));
    let server = server_verifying_clients(&ca, required);
    let shown = ca.signs(&subject(&["client.test"]).of_client().uri("spiffe://a/b"));
    let certificate = client_certificate(&ca, &server, Some(&shown)).expect("it has shown one");
    assert_eq!(certificate.trust, CertificateTrust::Verified);
    assert_eq!(*certificate.fingerprint, *der(&shown.der()).fingerprint());
    let expected_header = format!(
        "Hash={};Subject=\"CN=client.test\";URI=spiffe://a/b;DNS=client.test",
        certificate.fingerprint
    );
    assert_eq!(*certificate.forwarded, *expected_header);
    let expired = ca.signs(&subject(&["client.test"]).of_client().expired());
    for shows in [None, Some(&stranger.client("client.test")), Some(&expired)] {
        let client = client_with(&ca, "a.test", ring::default_provider(), shows);
        assert!(client.handshake_with(&server).is_err(), "{shows:?}");
    }
}

#[test]
fn an_optional_client_certificate_is_reported_as_missing_or_unverified() {
    let (ca, stranger) = (authority("ca"), authority("stranger"));
    let server = server_verifying_clients(&ca, optional);
    let trust = |shows: Option<&Credential>| {
        client_certificate(&ca, &server, shows).map(|certificate| certificate.trust)
    };
    assert_eq!(trust(None), None);
    assert_eq!(
        trust(Some(&ca.client("client.test"))),
        Some(CertificateTrust::Verified)
    );
    assert_eq!(
        trust(Some(&stranger.client("client.test"))),
        Some(CertificateTrust::Unverified)
    );
    let expired = ca.signs(&subject(&["client.test"]).of_client().expired());
    assert_eq!(trust(Some(&expired)), Some(CertificateTrust::Unverified));
}

#[test]
fn unusable_configurations_are_explained() {
    let ca = authority("ca");
    let pair = ca.server(&["a.test"]);
    let mut mismatched = listener(&[&pair], ClientAuth::None);
    let other = Certificate {
        key: PrivateKey::new(ca.server(&["a.test"]).key().secret_der()),
        ..certificate(&pair)
    };
    mismatched.certificates.push(other.into());
    let mut unparsable = listener(&[], ClientAuth::None);
    let no_key = Certificate {
        key: PrivateKey::new(b"no key"),
        ..certificate(&pair)
    };
    unparsable.certificates.push(no_key.into());
    let nobody = listener(&[&pair], required(vec![Der::new(b"nobody")]));
    let nothing = listener(&[], ClientAuth::None);
    for (server, expected) in [
        (mismatched, "certificate 2 is unusable"),
        (unparsable, "certificate 1 is unusable"),
        (nobody, "a root certificate is unusable"),
        (nothing, "there is no certificate"),
    ] {
        let domain = Arc::new(TrustDomain {
            gateway: ObjectName::new("ns", "gw"),
            client_auth: server.client_auth.clone(),
        });
        let compiled = ServerTls::compile(&server, domain, tickets().expect("randomness"), &[]);
        let error = compiled.expect_err("it cannot be used").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// A backend of plain rustls.
fn backend(pair: &Credential, asks: Option<&Authority>) -> ServerTls {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("ring speaks both");
    let builder = match asks {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.der()).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("roots"))
        }
    };
    let mut config = builder
        .with_single_cert(vec![pair.der()], pair.key())
        .expect("a key that fits");
    config.ticketer = tickets().expect("randomness");
    config.session_storage = Arc::new(NoServerSessionStorage {});
    ServerTls {
        config: Arc::new(config),
        ..compile(&listener(&[pair], ClientAuth::None))
    }
}

fn upstream(
    ca: &Authority,
    identities: &[SubjectAltName],
    shows: Option<&Credential>,
) -> UpstreamTls {
    let client = TlsClient {
        server_name: Hostname::parse("a.test").expect("a name"),
        identities: identities.to_vec(),
        roots: Roots::Certificates(vec![der(&ca.der())]),
    };
    let roots = roots::of(&[der(&ca.der())]).expect("an authority");
    let shows = shows.map(certificate);
    UpstreamTls::compile(&client, roots, shows.as_ref(), NonZeroU32::MIN).expect("valid settings")
}

fn connect(upstream: &UpstreamTls, backend: &ServerTls) -> Result<HandshakeKind, SessionError> {
    let mut client = End::new(
        upstream
            .session(0, Some(Alpn::Http11))
            .expect("valid settings"),
    );
    let mut server = End::new(TlsSession::server(Arc::clone(&backend.config))?);
    handshake(&mut client, &mut server, 16 * 1024)?;
    Ok(client
        .session
        .agreed()
        .handshake_kind()
        .expect("it is done"))
}

#[test]
fn a_backend_certificate_must_match_the_hostname_of_the_policy() {
    let (ca, stranger) = (authority("ca"), authority("stranger"));
    let upstream = upstream(&ca, &[], None);
    assert!(connect(&upstream, &backend(&ca.server(&["a.test"]), None)).is_ok());
    let expired = ca.signs(&subject(&["a.test"]).expired());
    for (pair, why) in [
        (
            ca.server(&["b.test"]),
            "its certificate is for another name",
        ),
        (
            stranger.server(&["a.test"]),
            "its certificate is not signed by a trusted authority",
        ),
        (expired, "its certificate is not valid at this time"),
    ] {
        let error =
            connect(&upstream, &backend(&pair, None)).expect_err("an unknown authority or name");
        assert_eq!(UpstreamTlsFailure::from(&error).detail(), why);
    }
}

#[test]
fn a_self_signed_certificate_is_trusted_only_as_its_own_root() {
    let own = itself("a.test");
    assert!(connect(&upstream(&own, &[], None), &backend(&own.itself(), None)).is_ok());
    let other = upstream(&itself("a.test"), &[], None);
    assert!(connect(&other, &backend(&own.itself(), None)).is_err());
    let another_name = itself("b.test");
    let upstream = upstream(&another_name, &[], None);
    let error = connect(&upstream, &backend(&another_name.itself(), None));
    let error = error.expect_err("another name");
    assert_eq!(
        UpstreamTlsFailure::from(&error).detail(),
        "its certificate is for another name"
    );
}

#[test]
fn a_backend_certificate_must_match_one_of_the_subject_alt_names() {
    let (ca, stranger) = (authority("ca"), authority("stranger"));
    let dns = |name: &str| SubjectAltName::Dns(Hostname::parse(name).expect("a name"));
    let uri = |uri: &str| SubjectAltName::Uri(uri.to_owned());
    let identities = [dns("b.test"), dns("*.wild.test"), uri("spiffe://a/b")];
    let upstream = upstream(&ca, &identities, None);
    let reached = |pair: &Credential| connect(&upstream, &backend(pair, None)).is_ok();
    assert!(reached(&ca.server(&["b.test"])));
    assert!(reached(&ca.server(&["any.wild.test"])));
    assert!(reached(
        &ca.signs(&subject(&["other.test"]).uri("spiffe://a/b"))
    ));
    assert!(!reached(&ca.server(&["a.test"])));
    assert!(!reached(
        &ca.signs(&subject(&["other.test"]).uri("spiffe://a/b/c"))
    ));
    assert!(!reached(&stranger.server(&["b.test"])));
}

#[test]
fn a_backend_that_requests_a_certificate_gets_the_gateways() {
    let ca = authority("ca");
    let asking = backend(&ca.server(&["a.test"]), Some(&ca));
    let own = ca.client("gateway.test");
    assert!(connect(&upstream(&ca, &[], Some(&own)), &asking).is_ok());
    assert!(connect(&upstream(&ca, &[], None), &asking).is_err());
}

#[test]
fn a_session_with_a_backend_is_resumed() {
    let ca = authority("ca");
    let backend = backend(&ca.server(&["a.test"]), None);
    let upstream = upstream(&ca, &[], None);
    assert_eq!(
        connect(&upstream, &backend).expect("sound"),
        HandshakeKind::Full
    );
    assert_eq!(
        connect(&upstream, &backend).expect("sound"),
        HandshakeKind::Resumed
    );
}

//! The protocol of a listener with its TLS settings.

use std::fmt;

use xds::model::{
    Alpn, Certificate, ClientAuth, ListenerProtocol, ObjectName, ServerCertificate, TlsServer,
    TlsVersion,
};

use super::api::{Gateway, Listener, ListenerSet, ListenerTls, SecretObjectReference};
use super::frontend::Validated;
use super::protocol::Protocol;
use crate::expiry::{self, Expiries};
use crate::objects::certificate::CertificateError;
use crate::objects::kinds::OWN_GROUP;
use crate::objects::owner::Owner;
use crate::objects::reader::Reader;
use crate::status::problem::{self, Problem};
use crate::status::reason::Reason;

/// Problems of a listener's TLS settings.
#[derive(Default)]
pub(crate) struct TlsProblems {
    /// Why it is not accepted.
    pub(crate) refusals: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// Certificates that peers reject, which are used nonetheless.
    pub(crate) expiries: Expiries,
}

/// The protocol in the model; `None` if invalid. One valid certificate of several suffices; without
/// any, the listener is there and rejects handshakes.
pub(crate) fn listener_protocol(
    reader: &Reader<'_>,
    owner: &Owner,
    spec: &Listener,
    protocol: Protocol,
    clients: &Validated,
    notes: &mut TlsProblems,
) -> Option<ListenerProtocol> {
    match protocol {
        Protocol::Http => Some(ListenerProtocol::Http),
        Protocol::Tcp => Some(ListenerProtocol::Tcp),
        Protocol::Udp => Some(ListenerProtocol::Udp),
        Protocol::TlsPassthrough => Some(ListenerProtocol::TlsPassthrough),
        Protocol::Tls => {
            let server = server(reader, owner, spec, &[], notes);
            server.map(|server| ListenerProtocol::Tls(server(ClientAuth::None)))
        }
        Protocol::Https => {
            let server = server(reader, owner, spec, &HTTP_ALPN, notes);
            let client_auth = clients.client_auth.clone();
            Some(ListenerProtocol::Https(server?(client_auth?)))
        }
    }
}

/// Everything except client validation.
fn server(
    reader: &Reader<'_>,
    owner: &Owner,
    spec: &Listener,
    alpn: &[Alpn],
    notes: &mut TlsProblems,
) -> Option<impl FnOnce(ClientAuth) -> TlsServer + use<>> {
    let tls = spec.tls.as_ref();
    let certificates = certificates(reader, owner, tls, notes);
    check_names(spec, &certificates, notes);
    let options = options(tls, alpn, notes);
    let Options { alpn, min_version } = options?;
    Some(move |client_auth| TlsServer {
        certificates,
        client_auth,
        alpn,
        min_version,
    })
}

fn certificates(
    reader: &Reader<'_>,
    owner: &Owner,
    tls: Option<&ListenerTls>,
    notes: &mut TlsProblems,
) -> Vec<ServerCertificate> {
    let references = tls.map_or(&[][..], |tls| &tls.certificate_refs);
    if references.is_empty() {
        let message = "names no certificate: refer to a Secret of type kubernetes.io/tls";
        let field = "tls.certificateRefs";
        notes
            .refs
            .push(Problem::new(Reason::InvalidCertificateRef, field, message));
    }
    let mut certificates = Vec::with_capacity(references.len());
    for (index, reference) in references.iter().enumerate() {
        let field = format_args!("tls.certificateRefs[{index}]");
        match certificate(reader, owner, reference, Reason::InvalidCertificateRef) {
            Ok(certificate) => {
                let secret = (&*owner.name().namespace, reference, "clients");
                record_expiry(reader, secret, &certificate, field, &mut notes.expiries);
                certificates.push(ServerCertificate {
                    secret: Some(secret_name(&owner.name().namespace, reference)),
                    pair: Some(certificate),
                });
            }
            Err(CertificateError::Withdrawn(problem)) => notes.refs.push(problem.under(field)),
            Err(CertificateError::Broken(secret, problem)) => {
                certificates.push(ServerCertificate {
                    secret: Some(secret),
                    pair: None,
                });
                notes.refs.push(problem.under(field));
            }
        }
    }
    certificates
}

/// Notes that no certificate is for the host name of the listener. The common name does not count: clients have
/// ignored it since 2017.
fn check_names(spec: &Listener, certificates: &[ServerCertificate], notes: &mut TlsProblems) {
    let Some(hostname) = spec.hostname.as_deref().filter(|it| !it.is_empty()) else {
        return;
    };
    let leaves = certificates
        .iter()
        .filter_map(|it| it.pair.as_ref()?.chain.first());
    let names: Option<Vec<Vec<String>>> = leaves.map(expiry::names).collect();
    let Some(names) = names.filter(|it| !it.is_empty()) else {
        return;
    };
    let names: Vec<String> = names.into_iter().flatten().collect();
    if names.iter().any(|it| is_for(it, hostname)) {
        return;
    }
    let listed = match &*names {
        [] => "no host name (as subject alternative name)".to_owned(),
        names => problem::join(names.iter().map(|it| format!("`{it}`"))),
    };
    let message = format!(
        "the certificate is for {listed}, and the listener for `{hostname}`: clients reject it; use one that names \
         this host"
    );
    let field = "tls.certificateRefs";
    let problem = Problem::new(Reason::CertificateOfOtherHost, field, message);
    notes.expiries.problems.push(problem);
}

/// Whether a name of a certificate is for a host, or for one that a wildcard host stands for.
fn is_for(name: &str, hostname: &str) -> bool {
    let below = |parent: &str| {
        name.strip_suffix(parent)
            .is_some_and(|it| it.ends_with('.'))
    };
    if let Some(parent) = hostname.strip_prefix("*.") {
        return below(parent);
    }
    // Its wildcard stands for one label.
    let parent = hostname.split_once('.').map(|(_, parent)| parent);
    name == hostname || name.strip_prefix("*.").is_some_and(|it| Some(it) == parent)
}

/// Resolves a certificate reference of an owner. Grants for a Gateway do not apply to its
/// ListenerSets.
pub(crate) fn certificate(
    reader: &Reader<'_>,
    owner: &Owner,
    reference: &SecretObjectReference,
    invalid: Reason,
) -> Result<Certificate, CertificateError> {
    let namespace = &owner.name().namespace;
    match owner {
        Owner::Gateway(_) => reader.certificate::<Gateway>(namespace, reference, invalid),
        Owner::ListenerSet(_) => reader.certificate::<ListenerSet>(namespace, reference, invalid),
    }
}

/// The Secret that a reference from `namespace` names.
fn secret_name(namespace: &str, reference: &SecretObjectReference) -> ObjectName {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    ObjectName::new(namespace, &reference.name)
}

/// Records the expiry of a Secret's certificate, which `peers` verify; of a chain, that of the
/// leaf.
pub(crate) fn record_expiry(
    reader: &Reader<'_>,
    (own, reference, peers): (&str, &SecretObjectReference, &str),
    certificate: &Certificate,
    field: impl fmt::Display,
    expiries: &mut Expiries,
) {
    let Some(certificate) = certificate.chain.first() else {
        return;
    };
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    let name = &reference.name;
    let subject = format!("the certificate of Secret {namespace}/{name}");
    let advice = format!(", and {peers} reject it: renew it");
    expiries.note(reader, certificate, field, (&subject, &advice));
}

/// Our own TLS options. Those of other implementations are ignored.
struct Options {
    alpn: Vec<Alpn>,
    min_version: TlsVersion,
}

fn options(tls: Option<&ListenerTls>, alpn: &[Alpn], notes: &mut TlsProblems) -> Option<Options> {
    let option = |key| tls.and_then(|tls| tls.options.get(key)).map(String::as_str);
    let mut refuse = |key: &str, text: &str, expected: &str| {
        let field = format!("tls.options.{key}");
        let message = format!("`{text}` is not supported: {expected}");
        let problem = Problem::new(Reason::UnsupportedValue, field, message);
        notes.refusals.push(problem);
    };
    let given = tls.into_iter().flat_map(|tls| &tls.options);
    let own = given.filter(|(key, _)| key.starts_with(&format!("{OWN_GROUP}/")));
    for (key, value) in own.filter(|(key, _)| ![MIN_VERSION, ALPN].contains(&key.as_str())) {
        refuse(
            key,
            value,
            &format!("our options are {MIN_VERSION} and {ALPN}"),
        );
    }
    let min_version = match option(MIN_VERSION) {
        None | Some("1.2") => Some(TlsVersion::V12),
        Some("1.3") => Some(TlsVersion::V13),
        Some(text) => {
            refuse(MIN_VERSION, text, "use 1.2 or 1.3");
            None
        }
    };
    let alpn = match option(ALPN) {
        None => Some(alpn.to_vec()),
        Some(text) => {
            let parsed = alpn_list(text);
            if parsed.is_none() {
                refuse(ALPN, text, "use h2, http/1.1, or both separated by a comma");
            }
            parsed
        }
    };
    Some(Options {
        alpn: alpn?,
        min_version: min_version?,
    })
}

fn alpn_list(text: &str) -> Option<Vec<Alpn>> {
    let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let known = [Alpn::H2, Alpn::Http11];
    names
        .map(|name| known.into_iter().find(|protocol| protocol.as_str() == name))
        .collect()
}

/// The default ALPN protocols of HTTPS.
const HTTP_ALPN: [Alpn; 2] = [Alpn::H2, Alpn::Http11];
/// Option for the oldest TLS version: 1.2 or 1.3.
const MIN_VERSION: &str = "gateway-system.io/min-tls-version";
/// Option for the offered ALPN protocols.
const ALPN: &str = "gateway-system.io/alpn-protocols";

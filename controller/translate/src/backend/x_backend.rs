//! XBackends, with the pods that they select.

use std::num::NonZeroU16;

use xds::model::{
    Backend, BackendKey, BackendProtocol, BackendTls, Certificate, Hostname, Hosts, ObjectName,
    Pool, SessionPersistence,
};

use super::api::{XBackend, XBackendProtocol, XBackendSpec, XBackendTlsMode, XBackendType};
use super::{external_host, pool, validation};
use crate::expiry::Expiries;
use crate::gateway::tls::record_expiry;
use crate::objects::reader::Reader;
use crate::route::session;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// An XBackend as the model has it.
#[derive(Debug, PartialEq)]
pub(crate) struct LoweredXBackend {
    /// Without hosts if it is rejected: requests must not go elsewhere, or with less protection.
    pub(crate) backend: Backend,
    /// The client certificate for it, in the place of a Gateway's.
    pub(crate) certificate: Option<Certificate>,
    /// Why it is rejected.
    pub(crate) refusals: Vec<Problem>,
    /// Expired certificates: those presented to it, and the CA certificates that are trusted.
    pub(crate) expiries: Expiries,
}

pub(crate) fn lower(reader: &Reader<'_>, name: &ObjectName, object: &XBackend) -> LoweredXBackend {
    let spec = &object.spec;
    let mut refusals = Vec::new();
    let mut expiries = Expiries::default();
    let mut keep = |problem: Problem| refusals.push(problem.under("spec"));
    let certificate = certificate(reader, name, spec, &mut expiries);
    let certificate = certificate.transpose().unwrap_or_else(|problem| {
        keep(problem);
        None
    });
    let tls = tls(reader, name, spec, &mut expiries).unwrap_or_else(|problem| {
        keep(problem);
        Some(BackendTls::Invalid)
    });
    let key = BackendKey::of_x_backend(name);
    let tls = match tls {
        Some(tls) => Some((tls, TlsSource::Own)),
        None => reader
            .tls_of_backend(&key)
            .map(|tls| (tls.clone(), TlsSource::Policy)),
    };
    let source = tls.as_ref().map(|(_, source)| *source);
    let protocol = protocol(spec, source).map_err(&mut keep);
    let hosts = hosts(reader, name, spec).map_err(&mut keep);
    if let Some(Err(problem)) = session(name, spec) {
        keep(problem);
    }
    let nowhere = Hosts::Pool(Pool {
        members: Vec::new(),
        picker: None,
    });
    let backend = Backend {
        key,
        hosts: hosts
            .ok()
            .filter(|_| refusals.is_empty())
            .unwrap_or(nowhere),
        protocol: protocol.unwrap_or(BackendProtocol::Http),
        tls: tls.map(|(tls, _)| tls),
        proxy_protocol: None,
    };
    LoweredXBackend {
        backend,
        certificate,
        refusals,
        expiries,
    }
}

/// The protocol of an XBackend, as far as its referrers need it.
pub(crate) fn protocol_of(object: &XBackend) -> BackendProtocol {
    let mode = object.spec.tls.as_ref().map(|tls| tls.mode);
    let has_tls = mode.is_some_and(|mode| mode != XBackendTlsMode::None);
    protocol(&object.spec, has_tls.then_some(TlsSource::Own)).unwrap_or(BackendProtocol::Http)
}

/// How clients are kept at one of its pods; the name of a cookie or header that has none is made of
/// the XBackend's.
pub(crate) fn session(
    name: &ObjectName,
    spec: &XBackendSpec,
) -> Option<Result<SessionPersistence, Problem>> {
    let owner = ObjectName::new(&name.namespace, &format!("{}.xbackend", name.name));
    let session = spec.session_persistence.as_ref()?;
    Some(session::lower(session, &owner, 0))
}

fn hosts(reader: &Reader<'_>, name: &ObjectName, spec: &XBackendSpec) -> Result<Hosts, Problem> {
    let port = spec.port.number;
    let port = port.ok_or_else(|| invalid("port.number", "is missing: add it"))?;
    match (spec.kind, &spec.external_hostname, &spec.endpoint_selector) {
        (XBackendType::ExternalHostname, Some(host), None) => {
            let at = |text: &dyn std::fmt::Display| invalid("externalHostname.hostname", text);
            let name = Hostname::parse_exact(&host.hostname).map_err(|error| at(&error))?;
            external_host::check_outside(reader, &name).map_err(|error| at(&error))?;
            external_host::check_name(reader, &name).map_err(|error| at(&error))?;
            Ok(Hosts::Dns {
                name,
                port,
                refresh: None,
            })
        }
        (XBackendType::EndpointSelector, None, Some(selector)) => {
            let labels = &selector.match_labels;
            let ports = || std::iter::once::<NonZeroU16>(port);
            let members = pool::members(reader, &name.namespace, labels, ports);
            Ok(Hosts::Pool(Pool {
                members,
                picker: None,
            }))
        }
        (XBackendType::Unknown, ..) => {
            let message = "use EndpointSelector or ExternalHostname";
            Err(unsupported("type", message))
        }
        _ => Err(invalid(
            "type",
            "exactly the field of its type must be there: add it, and remove the other",
        )),
    }
}

/// Where the TLS settings of an XBackend come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsSource {
    Own,
    /// A BackendTLSPolicy that targets it.
    Policy,
}

fn protocol(spec: &XBackendSpec, tls: Option<TlsSource>) -> Result<BackendProtocol, Problem> {
    use XBackendProtocol as Api;
    let has_tls = tls.is_some();
    let plain_or = |plain, secure| Ok(if has_tls { secure } else { plain });
    match spec.protocol {
        None | Some(Api::Http | Api::Http11 | Api::Mcp) => {
            plain_or(BackendProtocol::Http, BackendProtocol::Https)
        }
        Some(Api::Tcp) => Ok(BackendProtocol::Tcp),
        Some(Api::Grpc) => plain_or(BackendProtocol::H2c, BackendProtocol::H2),
        Some(Api::H2c) if !has_tls => Ok(BackendProtocol::H2c),
        Some(Api::H2c) if tls == Some(TlsSource::Policy) => Ok(BackendProtocol::H2),
        Some(Api::H2c) => Err(invalid("protocol", "H2C is without TLS: use HTTP2")),
        Some(Api::Http2) if has_tls => Ok(BackendProtocol::H2),
        Some(Api::Http2) => Err(invalid("protocol", "HTTP2 needs `tls`: use H2C without")),
        Some(Api::Wss) if has_tls => Ok(BackendProtocol::Https),
        Some(Api::Wss) => Err(invalid("protocol", "WSS needs `tls`: add it")),
        Some(Api::Unknown) => Err(unsupported("protocol", "use HTTP, HTTP2, H2C or GRPC")),
    }
}

fn tls(
    reader: &Reader<'_>,
    name: &ObjectName,
    spec: &XBackendSpec,
    expiries: &mut Expiries,
) -> Result<Option<BackendTls>, Problem> {
    let Some(tls) = &spec.tls else {
        return Ok(None);
    };
    match (tls.mode, &tls.validation) {
        (XBackendTlsMode::None, _) => Ok(None),
        (XBackendTlsMode::ServerOnly | XBackendTlsMode::ClientAndServer, Some(validation)) => {
            let resolved = validation::resolve::<XBackend>(reader, &name.namespace, validation);
            let expiries_of_tls = resolved.expiries.under("spec.tls.validation");
            expiries.problems.extend(expiries_of_tls.problems);
            match resolved.refs.into_iter().chain(resolved.refusals).next() {
                None => Ok(Some(resolved.tls)),
                Some(problem) => Err(problem.under("tls.validation")),
            }
        }
        (XBackendTlsMode::ServerOnly | XBackendTlsMode::ClientAndServer, None) => {
            let message = "is missing: set how the certificate of the backend is validated";
            Err(invalid("tls.validation", message))
        }
        (XBackendTlsMode::Unknown, _) => Err(unsupported(
            "tls.mode",
            "use None, ServerOnly or ClientAndServer",
        )),
    }
}

/// The client certificate of mode `ClientAndServer`.
fn certificate(
    reader: &Reader<'_>,
    name: &ObjectName,
    spec: &XBackendSpec,
    expiries: &mut Expiries,
) -> Option<Result<Certificate, Problem>> {
    let tls = spec.tls.as_ref()?;
    if tls.mode != XBackendTlsMode::ClientAndServer {
        return None;
    }
    let Some(reference) = &tls.client_certificate_ref else {
        let message = "is missing: refer to a Secret with the certificate";
        return Some(Err(invalid("tls.clientCertificateRef", message)));
    };
    let reason = Reason::InvalidClientCertificateRef;
    let found = reader.certificate::<XBackend>(&name.namespace, reference, reason);
    if let Ok(certificate) = &found {
        let subject = (&*name.namespace, reference, "the backend");
        let field = "spec.tls.clientCertificateRef";
        record_expiry(reader, subject, certificate, field, expiries);
    }
    Some(found.map_err(|error| Problem::from(error).under("tls.clientCertificateRef")))
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}

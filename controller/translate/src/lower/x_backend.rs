//! XBackends, with the pods that they select.

use std::num::NonZeroU16;

use xds::model::{
    Backend, BackendKey, BackendProtocol, BackendTls, Hostname, Hosts, ObjectName, Pool,
    SessionPersistence,
};

use super::{pool, session};
use crate::api::{XBackend, XBackendProtocol, XBackendSpec, XBackendTlsMode, XBackendType};
use crate::expiry::Expiries;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;
use crate::resolve::backend_validation;

/// An XBackend as the model has it.
#[derive(Debug, PartialEq)]
pub(crate) struct LoweredXBackend {
    /// Without a host where it is refused: nothing is sent anywhere else, or less protected.
    pub(crate) backend: Backend,
    /// Why it is refused.
    pub(crate) refusals: Vec<Problem>,
    /// Of the certificates of those who vouch for it.
    pub(crate) expiries: Expiries,
}

/// Lowers an XBackend.
pub(crate) fn lower(reader: &Reader<'_>, name: &ObjectName, object: &XBackend) -> LoweredXBackend {
    let spec = &object.spec;
    let mut refusals = Vec::new();
    let mut expiries = Expiries::default();
    let mut keep = |problem: Problem| refusals.push(problem.under("spec"));
    let tls = tls(reader, name, spec, &mut expiries).unwrap_or_else(|problem| {
        keep(problem);
        Some(BackendTls::Invalid)
    });
    let protocol = protocol(spec, tls.is_some()).map_err(&mut keep);
    let hosts = hosts(reader, name, spec).map_err(&mut keep);
    if let Some(Err(problem)) = session(name, spec) {
        keep(problem);
    }
    let nowhere = Hosts::Pool(Pool {
        members: Vec::new(),
        picker: None,
    });
    let backend = Backend {
        key: BackendKey::of_x_backend(name),
        hosts: hosts
            .ok()
            .filter(|_| refusals.is_empty())
            .unwrap_or(nowhere),
        protocol: protocol.unwrap_or(BackendProtocol::Http),
        tls,
        proxy_protocol: None,
    };
    LoweredXBackend {
        backend,
        refusals,
        expiries,
    }
}

/// What is spoken to an XBackend, as far as that matters to those who refer to it.
pub(crate) fn protocol_of(object: &XBackend) -> BackendProtocol {
    let mode = object.spec.tls.as_ref().map(|tls| tls.mode);
    let has_tls = mode.is_some_and(|mode| mode != XBackendTlsMode::None);
    protocol(&object.spec, has_tls).unwrap_or(BackendProtocol::Http)
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
            if name.as_str().ends_with(CLUSTER_DOMAIN) {
                let text = "a name of the cluster may lead to any Service: refer to that itself";
                return Err(at(&text));
            }
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

fn protocol(spec: &XBackendSpec, has_tls: bool) -> Result<BackendProtocol, Problem> {
    use XBackendProtocol as Api;
    let plain_or = |plain, secure| Ok(if has_tls { secure } else { plain });
    match spec.protocol {
        None | Some(Api::Http | Api::Http11 | Api::Mcp) => {
            plain_or(BackendProtocol::Http, BackendProtocol::Https)
        }
        Some(Api::Tcp) => Ok(BackendProtocol::Tcp),
        Some(Api::Grpc) => plain_or(BackendProtocol::H2c, BackendProtocol::H2),
        Some(Api::H2c) if !has_tls => Ok(BackendProtocol::H2c),
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
        (XBackendTlsMode::ServerOnly, Some(validation)) => {
            let judged = backend_validation::judge::<XBackend>(reader, &name.namespace, validation);
            *expiries = judged.expiries.under("spec.tls.validation");
            match judged.refs.into_iter().chain(judged.refusals).next() {
                None => Ok(Some(judged.tls)),
                Some(problem) => Err(problem.under("tls.validation")),
            }
        }
        (XBackendTlsMode::ServerOnly, None) => {
            let message = "is missing: say how the backend proves who it is";
            Err(invalid("tls.validation", message))
        }
        (XBackendTlsMode::ClientAndServer, _) => Err(unsupported(
            "tls.mode",
            "use ServerOnly; what is shown to backends is `spec.tls.backend` of the Gateway",
        )),
        (XBackendTlsMode::Unknown, _) => Err(unsupported("tls.mode", "use ServerOnly or None")),
    }
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}

const CLUSTER_DOMAIN: &str = ".cluster.local";

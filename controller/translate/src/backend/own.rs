//! Our `Backend` objects.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

use xds::model::{
    Backend, BackendKey, BackendProtocol, Host, HostAddress, Hostname, Hosts, ObjectName,
    ProxyProtocolVersion,
};

use super::api::{BackendDns, BackendHost, BackendSpec};
use super::referrer::{Referrer, TrafficKind};
use super::{api, external_host, validation};
use crate::expiry::Expiries;
use crate::objects::reader::Reader;
use crate::route::rule::duration;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A lowered `Backend` and its problems.
#[derive(Debug, PartialEq)]
pub(crate) struct LoweredBackend {
    /// The resource of the model, or the problem.
    pub(crate) lowered: Arc<Result<Backend, Problem>>,
    /// CA certificates that have expired, which are used nonetheless.
    pub(crate) expiries: Expiries,
}

/// Lowers a backend, or returns its problem.
pub(crate) fn lower(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &api::Backend,
) -> LoweredBackend {
    let mut expiries = Expiries::default();
    let lowered = lower_noting(reader, name, object, &mut expiries);
    LoweredBackend {
        lowered: Arc::new(lowered),
        expiries,
    }
}

/// A backend with invalid TLS settings is rejected as a whole, so that nothing is sent in plain
/// text.
fn lower_noting(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &api::Backend,
    expiries: &mut Expiries,
) -> Result<Backend, Problem> {
    let spec = &object.spec;
    let at = |problem: Problem| problem.under("spec");
    let protocol = protocol(spec).map_err(at)?;
    let tls = spec.tls.as_ref().map(|validation| {
        let resolved = validation::resolve::<api::Backend>(reader, &name.namespace, validation);
        *expiries = resolved.expiries.under("spec.tls");
        match resolved.refs.into_iter().chain(resolved.refusals).next() {
            None => Ok(resolved.tls),
            Some(problem) => Err(problem.under("tls")),
        }
    });
    Ok(Backend {
        key: BackendKey::new(name),
        hosts: hosts(reader, &name.namespace, spec).map_err(at)?,
        protocol,
        tls: tls.transpose().map_err(at)?,
        proxy_protocol: spec.proxy_protocol.map(|version| match version {
            api::ProxyProtocolVersion::V1 => ProxyProtocolVersion::V1,
            api::ProxyProtocolVersion::V2 => ProxyProtocolVersion::V2,
        }),
    })
}

/// A `Backend` with the TLS settings of a policy, unless it has its own.
pub(crate) fn with_tls(reader: &Reader<'_>, backend: &Backend) -> Backend {
    let mut backend = backend.clone();
    if backend.tls.is_none()
        && let Some(tls) = reader.tls_of_backend(&backend.key)
    {
        backend.tls = Some(tls.clone());
        backend.protocol = match backend.protocol {
            BackendProtocol::Http => BackendProtocol::Https,
            BackendProtocol::H2c => BackendProtocol::H2,
            other => other,
        };
    }
    backend
}

fn protocol(spec: &BackendSpec) -> Result<BackendProtocol, Problem> {
    use api::BackendProtocol as Api;
    match (spec.protocol, &spec.tls) {
        (Api::Http, None) => Ok(BackendProtocol::Http),
        (Api::H2c, None) => Ok(BackendProtocol::H2c),
        (Api::Https, Some(_)) => Ok(BackendProtocol::Https),
        (Api::Tcp, _) => Ok(BackendProtocol::Tcp),
        (Api::Https, None) => Err(invalid(
            "protocol",
            "HTTPS needs `tls`: specify how to verify the backend's certificate",
        )),
        (Api::Http | Api::H2c, Some(_)) => Err(invalid(
            "protocol",
            "this protocol is plain text: use HTTPS or TCP, or remove `tls`",
        )),
    }
}

fn hosts(reader: &Reader<'_>, namespace: &str, spec: &BackendSpec) -> Result<Hosts, Problem> {
    match (&*spec.addresses, &spec.dns, &spec.unix) {
        ([], Some(dns), None) => {
            self::dns(reader, namespace, dns).map_err(|problem| problem.under("dns"))
        }
        ([], None, Some(unix)) => {
            external_host::check_socket(reader).map_err(|error| invalid("unix", error))?;
            let path = PathBuf::from(&unix.path);
            if path.is_absolute() && unix.path.len() <= MAX_SOCKET_PATH_BYTES {
                Ok(Hosts::Unix { path })
            } else {
                let message = format!(
                    "`{}` must start with `/` and have at most {MAX_SOCKET_PATH_BYTES} bytes",
                    unix.path
                );
                Err(invalid("unix.path", message))
            }
        }
        ([_, ..], None, None) => {
            let hosts = spec.addresses.iter().enumerate().map(|(index, spec)| {
                host(reader, namespace, spec)
                    .map_err(|it| it.under(format_args!("addresses[{index}]")))
            });
            Ok(Hosts::Static(hosts.collect::<Result<_, _>>()?))
        }
        _ => Err(invalid(
            "",
            "set exactly one of `addresses`, `dns` and `unix`",
        )),
    }
}

fn dns(reader: &Reader<'_>, namespace: &str, spec: &BackendDns) -> Result<Hosts, Problem> {
    let refresh = spec.refresh.as_deref();
    let refresh = refresh.map(|text| duration(text, "refresh")).transpose()?;
    Ok(Hosts::Dns {
        name: exact_name(reader, namespace, &spec.name, "name")?,
        port: spec.port,
        refresh: refresh
            .map(|refresh| refresh.0)
            .filter(|refresh| !refresh.is_zero()),
    })
}

fn host(reader: &Reader<'_>, namespace: &str, spec: &BackendHost) -> Result<Host, Problem> {
    let port: NonZeroU16 = spec.port;
    let address = match spec.host.parse() {
        Ok(ip) => {
            external_host::check_address(reader, ip).map_err(|error| invalid("host", error))?;
            HostAddress::Ip(ip)
        }
        Err(_) => HostAddress::Name(exact_name(reader, namespace, &spec.host, "host")?),
    };
    Ok(Host {
        address,
        port,
        weight: spec.weight,
        zone: spec.zone.clone().filter(|zone| !zone.is_empty()),
    })
}

fn exact_name(
    reader: &Reader<'_>,
    namespace: &str,
    text: &str,
    field: &str,
) -> Result<Hostname, Problem> {
    let name = Hostname::parse(text).map_err(|error| invalid(field, error))?;
    if name.wildcard_suffix().is_some() {
        return Err(invalid(
            field,
            format!("`{text}` is a wildcard: use one name"),
        ));
    }
    external_host::check_name(reader, &name).map_err(|error| invalid(field, error))?;
    let from = Referrer::of::<api::Backend>(namespace, TrafficKind::Streams);
    external_host::check_service(reader, from, &name).map_err(|it| it.under(field))?;
    Ok(name)
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

/// Linux: `sun_path` has 108 bytes with its final zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

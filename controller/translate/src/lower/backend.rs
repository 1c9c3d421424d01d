//! Our `Backend` objects.

use std::num::NonZeroU16;
use std::path::PathBuf;

use xds::model::{
    Backend, BackendKey, BackendProtocol, Host, HostAddress, Hostname, Hosts, ObjectName,
};

use super::rule::duration;
use crate::api::{self, BackendDns, BackendHost, BackendSpec};
use crate::problem::Problem;
use crate::status::Reason;

/// Lowers a backend, or says what is wrong with it.
pub(crate) fn lower(name: &ObjectName, object: &api::Backend) -> Result<Backend, Problem> {
    let spec = &object.spec;
    Ok(Backend {
        key: BackendKey::new(name),
        hosts: hosts(spec).map_err(|problem| problem.under("spec"))?,
        protocol: protocol(spec.protocol)?,
    })
}

/// The one place that says what the data plane speaks to a `Backend`.
fn protocol(protocol: api::BackendProtocol) -> Result<BackendProtocol, Problem> {
    use api::BackendProtocol as Api;
    match protocol {
        Api::Http => Ok(BackendProtocol::Http),
        Api::H2c | Api::Https | Api::Tcp => {
            let message = "this protocol is not supported: use HTTP";
            let reason = Reason::UnsupportedProtocol;
            Err(Problem::new(reason, "spec.protocol", message))
        }
    }
}

fn hosts(spec: &BackendSpec) -> Result<Hosts, Problem> {
    match (&*spec.addresses, &spec.dns, &spec.unix) {
        ([], Some(dns), None) => self::dns(dns).map_err(|problem| problem.under("dns")),
        ([], None, Some(unix)) => {
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
                host(spec).map_err(|it| it.under(format_args!("addresses[{index}]")))
            });
            Ok(Hosts::Static(hosts.collect::<Result<_, _>>()?))
        }
        _ => Err(invalid(
            "",
            "exactly one of `addresses`, `dns` and `unix` says where a backend is",
        )),
    }
}

fn dns(spec: &BackendDns) -> Result<Hosts, Problem> {
    let refresh = spec.refresh.as_deref();
    let refresh = refresh.map(|text| duration(text, "refresh")).transpose()?;
    Ok(Hosts::Dns {
        name: exact_name(&spec.name, "name")?,
        port: spec.port,
        refresh: refresh
            .map(|refresh| refresh.0)
            .filter(|refresh| !refresh.is_zero()),
    })
}

fn host(spec: &BackendHost) -> Result<Host, Problem> {
    let port: NonZeroU16 = spec.port;
    let address = match spec.host.parse() {
        Ok(ip) => HostAddress::Ip(ip),
        Err(_) => HostAddress::Name(exact_name(&spec.host, "host")?),
    };
    Ok(Host {
        address,
        port,
        weight: spec.weight,
    })
}

fn exact_name(text: &str, field: &str) -> Result<Hostname, Problem> {
    let name = Hostname::parse(text).map_err(|error| invalid(field, error))?;
    if name.wildcard_suffix().is_some() {
        return Err(invalid(
            field,
            format!("`{text}` is a wildcard: use one name"),
        ));
    }
    Ok(name)
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

/// Linux: `sun_path` has 108 bytes with its final zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

//! Binds and listeners, services, workloads and backends.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use prost::Message as _;

use super::field_path::{FieldPath, Findings};
use super::filter::external_auth;
use super::tls::{backend_tls, tls_server};
use super::value::{
    address, choice, duration, exact_hostname, features, hostname, non_zero, object_name, port,
    set_text, transport,
};
use crate::model::{
    Backend, BackendKey, BackendProtocol, BackendTls, Bind, BindKey, ExternalAuth, Health, Host,
    HostAddress, Hosts, Listener, ListenerKey, ListenerProtocol, Member, Picker, PickerFailureMode,
    Pool, ProxyProtocolVersion, Serves, Service, ServiceKey, ServicePort, SessionAffinity,
    TlsServer, TopologyHints, Workload, WorkloadKey,
};
use crate::proto::{self, listener};

pub(super) fn bind(at: &FieldPath<'_>, message: proto::Bind) -> Option<Bind> {
    let key = at.parsed("key", &message.key, BindKey::parse);
    let address = address(&at.field("address"), &message.address);
    let port = port(&at.field("port"), message.port);
    let transport = transport(&at.field("transport"), message.transport);
    let gateway = at.required("gateway", message.gateway, object_name);
    features(at, message.features)?;
    Some(Bind {
        key: key?,
        address: address?,
        port: port?,
        transport: transport?,
        gateway: gateway?,
    })
}

pub(super) fn listener(at: &FieldPath<'_>, message: proto::Listener) -> Option<Listener> {
    let key = at.parsed("key", &message.key, ListenerKey::parse);
    let bind = at.parsed("bind", &message.bind, BindKey::parse);
    let gateway = at.required("gateway", message.gateway, object_name);
    let name = at.text("name", message.name);
    let hostname = at.optional("hostname", message.hostname, hostname);
    let protocol = listener_protocol(at, message.protocol);
    let external_auth = at.list("external_auth", message.external_auth, external_auth);
    features(at, message.features)?;
    Some(Listener {
        key: key?,
        bind: bind?,
        gateway: gateway?,
        name: name?,
        hostname: hostname?,
        protocol: protocol?,
        external_auth: external_auth?,
    })
}

/// The listener that refuses every connection or request for the host of one that cannot be decoded, so
/// that no less specific one gets them. `None` if its port, host or protocol is not known, or if there is
/// nothing but this listener on its port.
pub(super) fn refusing_listener(key: &str, bytes: &[u8]) -> Option<Listener> {
    let mut message = proto::Listener::default();
    let is_read = message.merge(bytes).is_ok();
    let key = ListenerKey::parse(key).ok()?;
    let problems = Findings::new();
    let at = FieldPath::root(&problems);
    let host = message.hostname.map(|it| hostname(&at, it));
    let (protocol, external_auth) = match message.protocol? {
        listener::Protocol::Http(_) => (ListenerProtocol::Http, vec![ExternalAuth::refusing()]),
        listener::Protocol::Https(_) => (ListenerProtocol::Https(TlsServer::refusing()), vec![]),
        listener::Protocol::Tls(_) | listener::Protocol::TlsPassthrough(_) => {
            (ListenerProtocol::Tls(TlsServer::refusing()), vec![])
        }
        listener::Protocol::Tcp(_) | listener::Protocol::Udp(_) => return None,
    };
    let hostname = match host {
        Some(host) => Some(host?),
        None if is_read => None,
        // It may be in the part that could not be read.
        None => return None,
    };
    Some(Listener {
        bind: BindKey::parse(&message.bind).ok()?,
        gateway: object_name(&at, message.gateway?)?,
        name: message.name,
        hostname,
        protocol,
        external_auth,
        key,
    })
}

fn listener_protocol(
    at: &FieldPath<'_>,
    protocol: Option<listener::Protocol>,
) -> Option<ListenerProtocol> {
    match protocol {
        Some(listener::Protocol::Http(proto::Unit {})) => Some(ListenerProtocol::Http),
        Some(listener::Protocol::Https(server)) => {
            tls_server(&at.field("https"), server).map(ListenerProtocol::Https)
        }
        Some(listener::Protocol::Tls(server)) => {
            tls_server(&at.field("tls"), server).map(ListenerProtocol::Tls)
        }
        Some(listener::Protocol::TlsPassthrough(proto::Unit {})) => {
            Some(ListenerProtocol::TlsPassthrough)
        }
        Some(listener::Protocol::Tcp(proto::Unit {})) => Some(ListenerProtocol::Tcp),
        Some(listener::Protocol::Udp(proto::Unit {})) => Some(ListenerProtocol::Udp),
        None => at.field("protocol").record_missing_choice(),
    }
}

pub(super) fn service(at: &FieldPath<'_>, message: proto::Service) -> Option<Service> {
    let key = at.parsed("key", &message.key, ServiceKey::parse);
    let vips = at.list("vips", message.vips, |at, bytes| address(at, &bytes));
    let ports = at.list("ports", message.ports, service_port);
    let affinity = &at.field("session_affinity");
    let session_affinity = choice(affinity, message.session_affinity, |it| {
        Some(match it {
            proto::SessionAffinity::None => SessionAffinity::None,
            proto::SessionAffinity::ClientAddress => SessionAffinity::ClientAddress,
        })
    });
    features(at, message.features)?;
    Some(Service {
        key: key?,
        vips: vips?,
        ports: ports?,
        session_affinity: session_affinity?,
    })
}

fn service_port(at: &FieldPath<'_>, message: proto::ServicePort) -> Option<ServicePort> {
    let port = port(&at.field("port"), message.port);
    let transport = transport(&at.field("transport"), message.transport);
    let protocol = backend_protocol(&at.field("protocol"), message.protocol);
    let tls = at.optional("tls", message.tls, backend_tls);
    check_tls(at, protocol, tls.as_ref());
    Some(ServicePort {
        port: port?,
        transport: transport?,
        name: message.name,
        protocol: protocol?,
        tls: tls?.map(Box::new),
    })
}

fn backend_protocol(at: &FieldPath<'_>, number: i32) -> Option<BackendProtocol> {
    choice(at, number, |protocol| match protocol {
        proto::BackendProtocol::Unspecified => None,
        proto::BackendProtocol::Http => Some(BackendProtocol::Http),
        proto::BackendProtocol::H2c => Some(BackendProtocol::H2c),
        proto::BackendProtocol::Https => Some(BackendProtocol::Https),
        proto::BackendProtocol::H2 => Some(BackendProtocol::H2),
        proto::BackendProtocol::Tcp => Some(BackendProtocol::Tcp),
    })
}

/// Rejects combinations of protocol and TLS settings that would send plain text where TLS was
/// meant, or the reverse.
fn check_tls(
    at: &FieldPath<'_>,
    protocol: Option<BackendProtocol>,
    tls: Option<&Option<BackendTls>>,
) {
    let (Some(protocol), Some(tls)) = (protocol, tls) else {
        return;
    };
    match (protocol, tls) {
        (BackendProtocol::Https | BackendProtocol::H2, None) => {
            at.field("tls")
                .problem::<()>("is required for this protocol");
        }
        (BackendProtocol::Http | BackendProtocol::H2c, Some(_)) => {
            at.field("tls")
                .problem::<()>("does not apply to a plain-text protocol");
        }
        _ => {}
    }
}

pub(super) fn workload(at: &FieldPath<'_>, message: proto::Workload) -> Option<Workload> {
    let key = at.parsed("key", &message.key, WorkloadKey::parse);
    let address = address(&at.field("address"), &message.address);
    let node = at.optional("node", message.node, set_text);
    let zone = at.optional("zone", message.zone, set_text);
    let hints = hints(at, message.hint_zones, message.hint_nodes);
    let health = health(&at.field("health"), message.health);
    let mut serves = at.list("serves", message.serves, serves);
    if let Some(serves) = &mut serves {
        share_keys(serves);
    }
    Some(Workload {
        key: key?,
        address: address?,
        node: node?,
        zone: zone?,
        hints: Some(hints?)
            .filter(|hints| *hints != TopologyHints::default())
            .map(Box::new),
        health: health?,
        serves: serves?,
    })
}

fn hints(at: &FieldPath<'_>, zones: Vec<String>, nodes: Vec<String>) -> Option<TopologyHints> {
    let zones = at.list("hint_zones", zones, set_text);
    let nodes = at.list("hint_nodes", nodes, set_text);
    Some(TopologyHints {
        zones: zones?,
        nodes: nodes?,
    })
}

fn health(at: &FieldPath<'_>, number: i32) -> Option<Health> {
    choice(at, number, |health| match health {
        proto::Health::Unspecified => None,
        proto::Health::Ready => Some(Health::Ready),
        proto::Health::Draining => Some(Health::Draining),
        proto::Health::NotReady => Some(Health::NotReady),
    })
}

/// Lets the ports of a service share the memory of its key.
fn share_keys(serves: &mut [Serves]) {
    let mut last: Option<ServiceKey> = None;
    for it in serves {
        match &last {
            Some(key) if *key == it.service => it.service = key.clone(),
            _ => last = Some(it.service.clone()),
        }
    }
}

fn serves(at: &FieldPath<'_>, message: proto::Serves) -> Option<Serves> {
    let service = at.parsed("service", &message.service, ServiceKey::parse);
    let service_port = port(&at.field("port"), message.port);
    let transport = transport(&at.field("transport"), message.transport);
    let target_port = port(&at.field("target_port"), message.target_port);
    Some(Serves {
        service: service?,
        port: service_port?,
        transport: transport?,
        target_port: target_port?,
    })
}

pub(super) fn backend(at: &FieldPath<'_>, message: proto::Backend) -> Option<Backend> {
    let key = at.parsed("key", &message.key, BackendKey::parse);
    let hosts = hosts(at, message.hosts);
    let protocol = backend_protocol(&at.field("protocol"), message.protocol);
    let tls = at.optional("tls", message.tls, backend_tls);
    check_tls(at, protocol, tls.as_ref());
    let proxy_protocol = at.optional("proxy_protocol", message.proxy_protocol, proxy_protocol);
    features(at, message.features)?;
    Some(Backend {
        key: key?,
        hosts: hosts?,
        protocol: protocol?,
        tls: tls?,
        proxy_protocol: proxy_protocol?,
    })
}

fn proxy_protocol(at: &FieldPath<'_>, number: i32) -> Option<ProxyProtocolVersion> {
    choice(at, number, |version| match version {
        proto::ProxyProtocolVersion::Unspecified => None,
        proto::ProxyProtocolVersion::V1 => Some(ProxyProtocolVersion::V1),
        proto::ProxyProtocolVersion::V2 => Some(ProxyProtocolVersion::V2),
    })
}

fn hosts(at: &FieldPath<'_>, hosts: Option<proto::backend::Hosts>) -> Option<Hosts> {
    match hosts {
        Some(proto::backend::Hosts::Static(list)) => {
            let hosts = at.field("static").some("hosts", list.hosts, host);
            hosts.map(Hosts::Static)
        }
        Some(proto::backend::Hosts::Dns(message)) => dns_hosts(&at.field("dns"), message),
        Some(proto::backend::Hosts::Unix(path)) => {
            let path = unix_path(&at.field("unix"), path);
            path.map(|path| Hosts::Unix { path })
        }
        Some(proto::backend::Hosts::Pool(message)) => {
            pool(&at.field("pool"), message).map(Hosts::Pool)
        }
        None => at.field("hosts").record_missing_choice(),
    }
}

fn pool(at: &FieldPath<'_>, message: proto::PoolHosts) -> Option<Pool> {
    let members = at.list("members", message.members, member);
    let picker = at.optional("picker", message.picker, picker);
    Some(Pool {
        members: members?,
        picker: picker?,
    })
}

fn member(at: &FieldPath<'_>, message: proto::PoolMember) -> Option<Member> {
    let address = address(&at.field("address"), &message.address);
    let port = port(&at.field("port"), message.port);
    let health = health(&at.field("health"), message.health);
    Some(Member {
        address: address?,
        port: port?,
        health: health?,
    })
}

fn picker(at: &FieldPath<'_>, message: proto::EndpointPicker) -> Option<Picker> {
    let members = at.list("members", message.members, member);
    let tls = at.optional("tls", message.tls, backend_tls);
    let failure_mode = choice(
        &at.field("failure_mode"),
        message.failure_mode,
        |mode| match mode {
            proto::PickerFailureMode::Unspecified => None,
            proto::PickerFailureMode::FailOpen => Some(PickerFailureMode::FailOpen),
            proto::PickerFailureMode::FailClose => Some(PickerFailureMode::FailClose),
        },
    );
    Some(Picker {
        members: members?,
        tls: tls?,
        failure_mode: failure_mode?,
    })
}

fn host(at: &FieldPath<'_>, message: proto::Host) -> Option<Host> {
    let address = match message.address {
        Some(proto::host::Address::Ip(bytes)) => {
            address(&at.field("ip"), &bytes).map(HostAddress::Ip)
        }
        Some(proto::host::Address::Name(name)) => {
            exact_hostname(&at.field("name"), &name).map(HostAddress::Name)
        }
        None => at.field("address").record_missing_choice(),
    };
    let port = port(&at.field("port"), message.port);
    let weight = non_zero(&at.field("weight"), message.weight);
    let zone = at.optional("zone", message.zone, set_text);
    Some(Host {
        address: address?,
        port: port?,
        weight: weight?,
        zone: zone?,
    })
}

fn dns_hosts(at: &FieldPath<'_>, message: proto::DnsHosts) -> Option<Hosts> {
    let name = exact_hostname(&at.field("name"), &message.name);
    let port = port(&at.field("port"), message.port);
    let refresh = at.optional("refresh", message.refresh, duration);
    Some(Hosts::Dns {
        name: name?,
        port: port?,
        refresh: refresh?,
    })
}

fn unix_path(at: &FieldPath<'_>, bytes: Vec<u8>) -> Option<PathBuf> {
    if !bytes.starts_with(b"/") || bytes.contains(&0) {
        return at.problem("is not an absolute path");
    }
    if bytes.len() > MAX_UNIX_PATH_BYTES {
        return at.problem(format!(
            "is {} bytes long: the path of a socket has at most {MAX_UNIX_PATH_BYTES}",
            bytes.len()
        ));
    }
    Some(OsString::from_vec(bytes).into())
}

/// `sun_path` of Linux holds 108 bytes, including the terminating NUL.
const MAX_UNIX_PATH_BYTES: usize = 107;

//! Binds and listeners, services, workloads and backends.

use std::os::unix::ffi::OsStrExt;

use super::value::{address, list};
use crate::model::{
    Backend, BackendProtocol, Bind, Health, Host, HostAddress, Hosts, Listener, ListenerProtocol,
    Member, Picker, PickerFailureMode, Pool, ProxyProtocolVersion, Serves, Service, ServicePort,
    SessionAffinity, TopologyHints, Transport, Workload,
};
use crate::proto::{self, backend, host, listener};

impl From<&Bind> for proto::Bind {
    fn from(bind: &Bind) -> Self {
        Self {
            key: bind.key.to_string(),
            address: address(&bind.address),
            port: bind.port.get().into(),
            transport: transport(bind.transport),
            gateway: Some((&bind.gateway).into()),
            features: bind.needs().names(),
        }
    }
}

fn transport(transport: Transport) -> i32 {
    let transport = match transport {
        Transport::Tcp => proto::Transport::Tcp,
        Transport::Udp => proto::Transport::Udp,
    };
    transport.into()
}

impl From<&Listener> for proto::Listener {
    fn from(listener: &Listener) -> Self {
        let protocol = match &listener.protocol {
            ListenerProtocol::Http => listener::Protocol::Http(proto::Unit {}),
            ListenerProtocol::Https(tls) => listener::Protocol::Https(tls.into()),
            ListenerProtocol::Tls(tls) => listener::Protocol::Tls(tls.into()),
            ListenerProtocol::TlsPassthrough => listener::Protocol::TlsPassthrough(proto::Unit {}),
            ListenerProtocol::Tcp => listener::Protocol::Tcp(proto::Unit {}),
            ListenerProtocol::Udp => listener::Protocol::Udp(proto::Unit {}),
        };
        Self {
            key: listener.key.to_string(),
            bind: listener.bind.to_string(),
            gateway: Some((&listener.gateway).into()),
            name: listener.name.clone(),
            hostname: listener.hostname.as_ref().map(ToString::to_string),
            protocol: Some(protocol),
            external_auth: list(&listener.external_auth),
            features: listener.needs().names(),
        }
    }
}

impl From<&Service> for proto::Service {
    fn from(service: &Service) -> Self {
        Self {
            key: service.key.to_string(),
            vips: service.vips.iter().map(address).collect(),
            ports: list(&service.ports),
            session_affinity: match service.session_affinity {
                SessionAffinity::None => proto::SessionAffinity::None,
                SessionAffinity::ClientAddress => proto::SessionAffinity::ClientAddress,
            }
            .into(),
            features: service.needs().names(),
        }
    }
}

impl From<&ServicePort> for proto::ServicePort {
    fn from(port: &ServicePort) -> Self {
        Self {
            port: port.port.get().into(),
            name: port.name.clone(),
            protocol: backend_protocol(port.protocol),
            transport: transport(port.transport),
            tls: port.tls.as_deref().map(Into::into),
        }
    }
}

fn backend_protocol(protocol: BackendProtocol) -> i32 {
    let protocol = match protocol {
        BackendProtocol::Http => proto::BackendProtocol::Http,
        BackendProtocol::H2c => proto::BackendProtocol::H2c,
        BackendProtocol::Https => proto::BackendProtocol::Https,
        BackendProtocol::H2 => proto::BackendProtocol::H2,
        BackendProtocol::Tcp => proto::BackendProtocol::Tcp,
    };
    protocol.into()
}

impl From<&Workload> for proto::Workload {
    fn from(workload: &Workload) -> Self {
        let hints = |of: fn(&TopologyHints) -> &Vec<String>| {
            let hints = workload.hints.as_deref().map(of);
            hints.cloned().unwrap_or_default()
        };
        Self {
            key: workload.key.to_string(),
            address: address(&workload.address),
            node: workload.node.clone(),
            zone: workload.zone.clone(),
            health: health(workload.health),
            serves: list(&workload.serves),
            hint_zones: hints(|hints| &hints.zones),
            hint_nodes: hints(|hints| &hints.nodes),
        }
    }
}

fn health(health: Health) -> i32 {
    let health = match health {
        Health::Ready => proto::Health::Ready,
        Health::Draining => proto::Health::Draining,
        Health::NotReady => proto::Health::NotReady,
    };
    health.into()
}

impl From<&Serves> for proto::Serves {
    fn from(serves: &Serves) -> Self {
        Self {
            service: serves.service.to_string(),
            port: serves.port.get().into(),
            target_port: serves.target_port.get().into(),
            transport: transport(serves.transport),
        }
    }
}

impl From<&Backend> for proto::Backend {
    fn from(backend: &Backend) -> Self {
        let hosts = match &backend.hosts {
            Hosts::Static(hosts) => {
                backend::Hosts::Static(proto::StaticHosts { hosts: list(hosts) })
            }
            Hosts::Dns {
                name,
                port,
                refresh,
            } => backend::Hosts::Dns(proto::DnsHosts {
                name: name.to_string(),
                port: port.get().into(),
                refresh: refresh.map(Into::into),
            }),
            Hosts::Unix { path } => backend::Hosts::Unix(path.as_os_str().as_bytes().to_vec()),
            Hosts::Pool(pool) => backend::Hosts::Pool(pool.into()),
        };
        let proxy_protocol = backend.proxy_protocol.map(|version| match version {
            ProxyProtocolVersion::V1 => proto::ProxyProtocolVersion::V1,
            ProxyProtocolVersion::V2 => proto::ProxyProtocolVersion::V2,
        });
        Self {
            key: backend.key.to_string(),
            hosts: Some(hosts),
            protocol: backend_protocol(backend.protocol),
            tls: backend.tls.as_ref().map(Into::into),
            proxy_protocol: proxy_protocol.map(Into::into),
            features: backend.needs().names(),
        }
    }
}

impl From<&Pool> for proto::PoolHosts {
    fn from(pool: &Pool) -> Self {
        Self {
            members: list(&pool.members),
            picker: pool.picker.as_ref().map(Into::into),
        }
    }
}

impl From<&Member> for proto::PoolMember {
    fn from(member: &Member) -> Self {
        Self {
            address: address(&member.address),
            port: member.port.get().into(),
            health: health(member.health),
        }
    }
}

impl From<&Picker> for proto::EndpointPicker {
    fn from(picker: &Picker) -> Self {
        let failure_mode = match picker.failure_mode {
            PickerFailureMode::FailOpen => proto::PickerFailureMode::FailOpen,
            PickerFailureMode::FailClose => proto::PickerFailureMode::FailClose,
        };
        Self {
            members: list(&picker.members),
            tls: picker.tls.as_ref().map(Into::into),
            failure_mode: failure_mode.into(),
        }
    }
}

impl From<&Host> for proto::Host {
    fn from(host: &Host) -> Self {
        let address = match &host.address {
            HostAddress::Ip(ip) => host::Address::Ip(address(ip)),
            HostAddress::Name(name) => host::Address::Name(name.to_string()),
        };
        Self {
            address: Some(address),
            port: host.port.get().into(),
            weight: host.weight.get(),
            zone: host.zone.clone(),
        }
    }
}

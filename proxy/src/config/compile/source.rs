//! What a cluster is compiled from: a port of a service, or a backend.

use std::net::SocketAddr;
use std::sync::Arc;

use xds::model::{
    Backend, BackendProtocol, BackendTls, HealthCheck, Host, HostAddress, Hosts, Model, Pool,
    ProxyProtocolVersion, Service, ServicePort, Transport,
};

use super::targets::Port;
use crate::config::Protocol;
use crate::config::dns::Resolved;
use crate::policy::proxy_protocol::Version;

/// The part of the model that a cluster is compiled from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A port of a service.
    Port(&'a Service, &'a ServicePort),
    /// A backend.
    Backend(&'a Backend),
}

impl<'a> Source<'a> {
    /// The port of a service, or the backend, of this key.
    pub(super) fn of(key: &str, port: Option<Port>, model: &'a Model) -> Option<Self> {
        let Some((transport, number)) = port else {
            return model.backends.get(key).map(|it| Self::Backend(it));
        };
        let service = model.services.get(key)?;
        // Of two equal ports the last counts.
        let mut ports = service.ports.iter().rev();
        let port = ports.find(|it| it.transport == transport && it.port.get() == number)?;
        Some(Self::Port(service, port))
    }

    pub(super) fn protocol(self) -> Protocol {
        match self {
            Self::Port(_, port) => protocol(port.protocol),
            Self::Backend(backend) => protocol(backend.protocol),
        }
    }

    pub(super) fn tls(self) -> Option<&'a BackendTls> {
        match self {
            Self::Port(_, port) => port.tls.as_deref(),
            Self::Backend(backend) => backend.tls.as_ref(),
        }
    }

    pub(super) fn pool(self) -> Option<&'a Pool> {
        match self {
            Self::Backend(backend) => match &backend.hosts {
                Hosts::Pool(pool) => Some(pool),
                Hosts::Static(_) | Hosts::Dns { .. } | Hosts::Unix { .. } => None,
            },
            Self::Port(..) => None,
        }
    }

    /// The key of the service or backend.
    pub(super) fn key(self) -> Arc<str> {
        match self {
            Self::Port(service, _) => service.key.to_shared(),
            Self::Backend(backend) => backend.key.to_shared(),
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Port(service, port) => port_name(service, port),
            Self::Backend(backend) => backend.key.as_str().to_owned(),
        }
    }
}

/// HTTP version of requests, unless their rule requires HTTP/2.
fn protocol(protocol: BackendProtocol) -> Protocol {
    match protocol {
        BackendProtocol::H2c | BackendProtocol::H2 => Protocol::Http2,
        BackendProtocol::Http | BackendProtocol::Https | BackendProtocol::Tcp => Protocol::Http1,
    }
}

/// A port's name, with the transport unless it is TCP.
fn port_name(service: &Service, port: &ServicePort) -> String {
    match port.transport {
        Transport::Tcp => format!("{}:{}", service.key, port.port),
        Transport::Udp => format!("{}:{}/udp", service.key, port.port),
    }
}

impl Source<'_> {
    /// Whether its endpoints can be probed: those of UDP only at another port.
    pub(super) fn can_be_probed(self, check: &HealthCheck) -> bool {
        match self {
            Self::Port(_, port) => port.transport == Transport::Tcp || check.port.is_some(),
            Self::Backend(_) => true,
        }
    }

    /// The header that connections to it begin with.
    pub(super) fn proxy_protocol(self) -> Option<Version> {
        let Self::Backend(backend) = self else {
            return None;
        };
        backend.proxy_protocol.map(|version| match version {
            ProxyProtocolVersion::V1 => Version::V1,
            ProxyProtocolVersion::V2 => Version::V2,
        })
    }
}

/// Where a host is; `None` if its name does not resolve.
pub(super) fn socket(host: &Host, resolved: &Resolved) -> Option<SocketAddr> {
    let ip = match &host.address {
        HostAddress::Ip(ip) => *ip,
        HostAddress::Name(name) => *resolved.addresses(name).first()?,
    };
    Some(SocketAddr::new(ip, host.port.get()))
}

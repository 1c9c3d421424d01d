//! The protocols of listeners.

use xds::model::{ListenerProtocol, Transport};

use super::api::{Listener, RouteGroupKind, TlsMode};
use crate::objects::kinds::ObjectKind;

/// A protocol of Gateway API; all of them are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
    /// TLS that the gateway terminates.
    Tls,
    /// TLS that is passed through to the backend.
    TlsPassthrough,
    Tcp,
    Udp,
}

/// What can share a port: listeners of one family, distinguished by host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    /// HTTP, distinguished by Host.
    Http,
    /// TLS in any mode, distinguished by SNI.
    Tls,
    /// TCP: one listener per port.
    Tcp,
    /// UDP: one listener per port.
    Udp,
}

impl Family {
    pub(crate) fn of(protocol: &ListenerProtocol) -> Self {
        match protocol {
            ListenerProtocol::Http => Self::Http,
            ListenerProtocol::Https(_)
            | ListenerProtocol::Tls(_)
            | ListenerProtocol::TlsPassthrough => Self::Tls,
            ListenerProtocol::Tcp => Self::Tcp,
            ListenerProtocol::Udp => Self::Udp,
        }
    }

    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Http | Self::Tls | Self::Tcp => Transport::Tcp,
            Self::Udp => Transport::Udp,
        }
    }

    pub(crate) fn has_hostnames(self) -> bool {
        matches!(self, Self::Http | Self::Tls)
    }
}

impl Protocol {
    /// The protocol of a listener; `None` if it is not one of Gateway API.
    pub(crate) fn of(listener: &Listener) -> Option<Self> {
        let mode = listener.tls.as_ref().map(|tls| tls.mode);
        match &*listener.protocol {
            "HTTP" => Some(Self::Http),
            "HTTPS" => Some(Self::Https),
            "TLS" if mode == Some(TlsMode::Passthrough) => Some(Self::TlsPassthrough),
            "TLS" => Some(Self::Tls),
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }

    pub(crate) fn family(self) -> Family {
        match self {
            Self::Http => Family::Http,
            Self::Https | Self::Tls | Self::TlsPassthrough => Family::Tls,
            Self::Tcp => Family::Tcp,
            Self::Udp => Family::Udp,
        }
    }

    /// The route kinds that it supports.
    pub(crate) fn route_kinds(self) -> impl Iterator<Item = RouteGroupKind> {
        let kinds: &[ObjectKind] = match self {
            Self::Http | Self::Https => &[ObjectKind::HttpRoute, ObjectKind::GrpcRoute],
            Self::Tls => &[ObjectKind::TlsRoute, ObjectKind::TcpRoute],
            Self::TlsPassthrough => &[ObjectKind::TlsRoute],
            Self::Tcp => &[ObjectKind::TcpRoute],
            Self::Udp => &[ObjectKind::UdpRoute],
        };
        kinds.iter().map(|kind| RouteGroupKind {
            group: kind.group().to_owned(),
            kind: kind.name().to_owned(),
        })
    }
}

/// The names of the protocols, for messages.
pub(crate) const NAMES: &str = "HTTP, HTTPS, TLS, TCP, UDP";

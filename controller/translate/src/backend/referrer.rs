//! What refers to a backend, and sends to it.

use super::api::TransportProtocol;
use crate::objects::api::Resource;
use crate::objects::kinds::ObjectKind;

/// The referrer of a backend, and its traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Referrer<'r> {
    pub(crate) kind: ObjectKind,
    pub(crate) namespace: &'r str,
    pub(crate) carries: TrafficKind,
}

/// The traffic of a referrer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrafficKind {
    Requests,
    Calls,
    Streams,
    Datagrams,
}

impl TrafficKind {
    pub(crate) fn transport(self) -> TransportProtocol {
        match self {
            Self::Requests | Self::Calls | Self::Streams => TransportProtocol::Tcp,
            Self::Datagrams => TransportProtocol::Udp,
        }
    }

    /// Whether it needs an HTTP protocol.
    pub(crate) fn is_http(self) -> bool {
        matches!(self, Self::Requests | Self::Calls)
    }
}

impl<'r> Referrer<'r> {
    /// An object of kind `T` in `namespace`.
    pub(crate) fn of<T: Resource>(namespace: &'r str, carries: TrafficKind) -> Self {
        Self {
            kind: T::KIND,
            namespace,
            carries,
        }
    }
}

//! Listening sockets.

use std::net::IpAddr;
use std::num::NonZeroU16;

use serde::Serialize;

use super::{BindKey, ObjectName};

/// The transport protocol of a bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP, for every listener but those of UDP.
    Tcp,
    /// UDP, for UDP listeners.
    Udp,
}

impl Transport {
    /// `tcp` or `udp`, as in keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// One address and port that a Gateway listens on; its listeners share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bind {
    /// Key of transport, port and Gateway.
    pub key: BindKey,
    /// The local address; unspecified means all addresses of the machine.
    pub address: IpAddr,
    /// The local port, with the port offset applied.
    pub port: NonZeroU16,
    /// Transport protocol of its listeners.
    pub transport: Transport,
    /// The Gateway it belongs to.
    pub gateway: ObjectName,
}

//! A socket to listen on.

use std::net::IpAddr;
use std::num::NonZeroU16;

use super::{BindKey, ObjectName};

/// The transport protocol of a bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Stream sockets.
    Tcp,
    /// Datagram sockets.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Its key.
    pub key: BindKey,
    /// The address; unspecified means every address of the machine.
    pub address: IpAddr,
    /// The port.
    pub port: NonZeroU16,
    /// TCP or UDP.
    pub transport: Transport,
    /// The Gateway it belongs to.
    pub gateway: ObjectName,
}

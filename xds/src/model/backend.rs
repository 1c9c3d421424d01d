//! A backend outside of Kubernetes' services.

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use super::{BackendKey, Hostname};

/// A `Backend` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Its key.
    pub key: BackendKey,
    /// Where it is.
    pub hosts: Hosts,
    /// What it speaks.
    pub protocol: BackendProtocol,
}

/// Where a backend is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Listed hosts, at least one.
    Static(Vec<Host>),
    /// Every address that a DNS name has, looked up again when its TTL ends.
    Dns {
        /// The name.
        name: Hostname,
        /// The port.
        port: NonZeroU16,
        /// Looked up at least this often; `None` means by TTL alone.
        refresh: Option<Duration>,
    },
    /// A unix stream socket.
    Unix {
        /// Its path.
        path: PathBuf,
    },
}

/// A listed host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Address or name.
    pub address: HostAddress,
    /// Port.
    pub port: NonZeroU16,
    /// Share relative to the other hosts.
    pub weight: NonZeroU32,
}

/// Address or DNS name of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAddress {
    /// An address.
    Ip(IpAddr),
    /// A name; its first address is used, looked up again when its TTL ends.
    Name(Hostname),
}

/// What a backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendProtocol {
    /// HTTP/1.1.
    Http,
}

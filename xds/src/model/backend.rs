//! A backend outside of Kubernetes' services, and pods that are selected without one.

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use super::{BackendKey, BackendTls, Health, Hostname};

/// A `Backend`, InferencePool or XBackend object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Its key.
    pub key: BackendKey,
    /// Where it is.
    pub hosts: Hosts,
    /// What it speaks.
    pub protocol: BackendProtocol,
    /// TLS towards it; with [`BackendProtocol::Https`] and [`BackendProtocol::H2`] there always is.
    pub tls: Option<BackendTls>,
    /// The PROXY protocol header that it gets at the start of a connection.
    pub proxy_protocol: Option<ProxyProtocolVersion>,
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
    /// The pods of an InferencePool or XBackend.
    Pool(Pool),
}

/// The pods of an InferencePool or XBackend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Ports of pods; there may be none.
    pub members: Vec<Member>,
    /// Who chooses among them; without one, we do.
    pub picker: Option<Picker>,
}

/// A port of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The pod's address.
    pub address: IpAddr,
    /// The port.
    pub port: NonZeroU16,
    /// Whether the pod takes requests.
    pub health: Health,
}

/// An endpoint picker of the Inference Extension: a gRPC service that is told of each request and
/// names the pods to send it to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picker {
    /// Where it is; where nowhere, each of its requests fails as [`Self::failure_mode`] says.
    pub members: Vec<Member>,
    /// TLS towards it; `None` means HTTP/2 with prior knowledge.
    pub tls: Option<BackendTls>,
    /// What becomes of requests that it does not answer.
    pub failure_mode: PickerFailureMode,
}

/// What becomes of requests that an endpoint picker does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PickerFailureMode {
    /// They go to any pod of the pool.
    FailOpen,
    /// They fail.
    FailClose,
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

/// What a backend or a service port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendProtocol {
    /// HTTP/1.1, with upgrades. Rules of gRPC speak HTTP/2 with prior knowledge to it.
    Http,
    /// HTTP/2 with prior knowledge, no TLS.
    H2c,
    /// HTTP/1.1 in TLS. Rules of gRPC speak HTTP/2 to it.
    Https,
    /// HTTP/2 in TLS.
    H2,
    /// Any bytes or datagrams, in TLS where there are settings for it.
    Tcp,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyProtocolVersion {
    /// A line of text.
    V1,
    /// A binary header.
    V2,
}

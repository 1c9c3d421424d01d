//! A backend outside of Kubernetes' services, and pods that are selected without one.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{BackendKey, BackendTls, Health, Hostname, json};

/// A `Backend`, InferencePool or XBackend object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Key of the object.
    pub key: BackendKey,
    /// The application protocol of its endpoints.
    pub protocol: BackendProtocol,
    /// TLS settings; always set with [`BackendProtocol::Https`] and [`BackendProtocol::H2`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// PROXY protocol header to send at the start of each connection; `None` sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocolVersion>,
    /// How endpoints are found.
    pub hosts: Hosts,
}

/// How the endpoints of a backend are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum Hosts {
    /// Listed hosts, at least one.
    #[serde(serialize_with = "hosts")]
    Static(Vec<Host>),
    /// All addresses of a DNS name, resolved again when the TTL expires.
    Dns {
        /// The DNS name to resolve.
        name: Hostname,
        /// TCP port of each address.
        port: NonZeroU16,
        /// Longest interval between resolutions; `None` means by TTL only.
        #[serde(
            serialize_with = "json::optional_duration",
            skip_serializing_if = "Option::is_none"
        )]
        refresh: Option<Duration>,
    },
    /// A unix stream socket.
    Unix {
        /// Absolute path of the socket.
        #[serde(serialize_with = "displayed")]
        path: PathBuf,
    },
    /// The pods of an InferencePool or XBackend.
    Pool(Pool),
}

/// The pods of an InferencePool or XBackend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// The pods' ports; may be empty. The dump shows them with the state of each, as endpoints.
    #[serde(skip)]
    pub members: Vec<Member>,
    /// The endpoint picker; `None` means that the proxy balances load itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picker: Option<Picker>,
}

/// A port of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// IP address of the pod.
    pub address: IpAddr,
    /// TCP port on the pod.
    pub port: NonZeroU16,
    /// Whether the pod takes requests.
    pub health: Health,
}

/// An endpoint picker of the Inference Extension: a gRPC service that receives each request and
/// names the pods to send it to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Picker {
    /// Its endpoints; without any, each request fails as set by [`Self::failure_mode`].
    #[serde(rename = "addresses", serialize_with = "ready")]
    pub members: Vec<Member>,
    /// TLS settings; `None` means HTTP/2 with prior knowledge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// How requests are handled when the picker fails.
    pub failure_mode: PickerFailureMode,
}

/// How requests are handled when the endpoint picker fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum PickerFailureMode {
    /// Load balancing chooses a pod.
    FailOpen,
    /// The request fails with 503.
    FailClose,
}

/// One host of a static backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// IP address, or a DNS name to resolve.
    #[serde(rename = "host")]
    pub address: HostAddress,
    /// TCP port that it listens on.
    pub port: NonZeroU16,
    /// Share relative to the other hosts.
    pub weight: NonZeroU32,
    /// Zone that it is in, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Address or DNS name of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum HostAddress {
    /// A literal IPv4 or IPv6 address.
    Ip(IpAddr),
    /// A name; its first address is used, and it is resolved again when its TTL expires.
    Name(Hostname),
}

/// The application protocol of a backend or a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum BackendProtocol {
    /// HTTP/1.1, with upgrades. gRPC rules use HTTP/2 with prior knowledge instead.
    Http,
    /// HTTP/2 with prior knowledge, no TLS.
    H2c,
    /// HTTP/1.1 over TLS. gRPC rules use HTTP/2 over TLS instead.
    Https,
    /// HTTP/2 over TLS, with ALPN `h2`.
    H2,
    /// Opaque bytes or datagrams, over TLS if there are settings for it.
    Tcp,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum ProxyProtocolVersion {
    /// A line of text.
    V1,
    /// The binary header, which can carry any address.
    V2,
}

fn hosts<S: Serializer>(hosts: &[Host], serializer: S) -> Result<S::Ok, S::Error> {
    json::entry("hosts", hosts, serializer)
}

fn displayed<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// The addresses that take requests.
fn ready<S: Serializer>(members: &[Member], serializer: S) -> Result<S::Ok, S::Error> {
    let ready = members.iter().filter(|it| it.health == Health::Ready);
    serializer.collect_seq(ready.map(|it| SocketAddr::new(it.address, it.port.get())))
}

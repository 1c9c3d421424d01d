//! A Gateway listener.

use serde::Serialize;

use super::{BindKey, ExternalAuth, Hostname, ListenerKey, ObjectName, TlsServer, Transport};

/// The protocol of a listener. The listeners of one bind are all HTTP, or all TLS and distinguished
/// by SNI, or a single one of TCP or UDP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "protocol", content = "tls", rename_all = "UPPERCASE")]
pub enum ListenerProtocol {
    /// Plain HTTP/1.1, and HTTP/2 with prior knowledge.
    Http,
    /// HTTP over TLS, terminated here.
    Https(TlsServer),
    /// Opaque bytes over TLS, terminated here.
    Tls(TlsServer),
    /// TLS passed through to the backend.
    #[serde(rename = "TLSPassthrough")]
    TlsPassthrough,
    /// Opaque bytes over TCP.
    Tcp,
    /// Opaque datagrams over UDP.
    Udp,
}

impl ListenerProtocol {
    /// The transport protocol below.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Http | Self::Https(_) | Self::Tls(_) | Self::TlsPassthrough | Self::Tcp => {
                Transport::Tcp
            }
        }
    }

    /// The TLS settings, if TLS is terminated here.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsServer> {
        match self {
            Self::Https(tls) | Self::Tls(tls) => Some(tls),
            Self::Http | Self::TlsPassthrough | Self::Tcp | Self::Udp => None,
        }
    }
}

/// One listener of a Gateway. A request belongs to the listener of its bind whose hostname is the
/// most specific match, and never falls through to another (GEP-1713, listener isolation).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Key of the listener.
    pub key: ListenerKey,
    /// The bind, shared with the other listeners of its port.
    pub bind: BindKey,
    /// The Gateway it belongs to.
    pub gateway: ObjectName,
    /// Section name in the Gateway or ListenerSet.
    pub name: String,
    /// Matching hosts; `None` means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// Protocol and TLS settings.
    #[serde(flatten)]
    pub protocol: ListenerProtocol,
    /// Authorization servers that are called for a request, in order, before a rule is selected for
    /// it (GEP-5224). Header fields that they add count for that selection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<ExternalAuth>,
}

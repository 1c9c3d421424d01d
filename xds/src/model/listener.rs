//! A Gateway listener.

use super::{BindKey, ExternalAuth, Hostname, ListenerKey, ObjectName, TlsServer, Transport};

/// What a listener speaks to its clients. Those of one bind are all plain HTTP, or all of TLS in
/// some form and told apart by SNI, or a single one of TCP or UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerProtocol {
    /// Plain HTTP/1.1, and HTTP/2 with prior knowledge.
    Http,
    /// HTTP in TLS that ends here.
    Https(TlsServer),
    /// Any bytes in TLS that ends here.
    Tls(TlsServer),
    /// TLS that ends at the backend.
    TlsPassthrough,
    /// Any bytes.
    Tcp,
    /// Any datagrams.
    Udp,
}

impl ListenerProtocol {
    /// What it is carried by.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Http | Self::Https(_) | Self::Tls(_) | Self::TlsPassthrough | Self::Tcp => {
                Transport::Tcp
            }
        }
    }

    /// How it ends TLS, where it does.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its key.
    pub key: ListenerKey,
    /// The bind it shares with the other listeners of its port.
    pub bind: BindKey,
    /// The Gateway it belongs to.
    pub gateway: ObjectName,
    /// Its section name.
    pub name: String,
    /// Hosts it answers for; `None` means every host.
    pub hostname: Option<Hostname>,
    /// What it speaks.
    pub protocol: ListenerProtocol,
    /// Servers that are asked whether a request may pass, in their order, before a rule is chosen for it
    /// (GEP-5224). What they add to the request counts for that choice.
    pub external_auth: Vec<ExternalAuth>,
}

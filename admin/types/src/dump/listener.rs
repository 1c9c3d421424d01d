//! Binds and listeners.

use serde::{Deserialize, Serialize};
use xds::model;

use super::{ExternalAuth, ListenerTls};

/// A listening socket, which listeners on the same port share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Its key: `transport/port/namespace/gateway`.
    pub key: String,
    /// IP address that it is bound to.
    pub address: String,
    /// TCP or UDP port.
    pub port: u16,
    /// Transport protocol: `tcp` or `udp`.
    pub transport: String,
    /// `namespace/name` of its Gateway.
    pub gateway: String,
}

impl From<&model::Bind> for Bind {
    fn from(bind: &model::Bind) -> Self {
        Self {
            key: bind.key.to_string(),
            address: bind.address.to_string(),
            port: bind.port.get(),
            transport: bind.transport.as_str().to_owned(),
            gateway: bind.gateway.to_string(),
        }
    }
}

/// A listener of a Gateway or ListenerSet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// `Kind/namespace/name/section` of the Gateway or ListenerSet and its section name.
    pub key: String,
    /// Key of its bind.
    pub bind: String,
    /// `namespace/name` of its Gateway.
    pub gateway: String,
    /// Name of the listener in its object.
    pub name: String,
    /// Hostname or wildcard; None for all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Protocol, such as `HTTP`.
    pub protocol: String,
    /// TLS termination; None where it does not terminate TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Authorization servers that are called for each request before a rule is selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<ExternalAuth>,
}

impl From<&model::Listener> for Listener {
    fn from(listener: &model::Listener) -> Self {
        Self {
            key: listener.key.to_string(),
            bind: listener.bind.to_string(),
            gateway: listener.gateway.to_string(),
            name: listener.name.clone(),
            hostname: listener.hostname.as_ref().map(ToString::to_string),
            protocol: match &listener.protocol {
                model::ListenerProtocol::Http => "HTTP",
                model::ListenerProtocol::Https(_) => "HTTPS",
                model::ListenerProtocol::Tls(_) => "TLS",
                model::ListenerProtocol::TlsPassthrough => "TLSPassthrough",
                model::ListenerProtocol::Tcp => "TCP",
                model::ListenerProtocol::Udp => "UDP",
            }
            .to_owned(),
            tls: listener.protocol.tls().map(Into::into),
            external_auth: listener.external_auth.iter().map(Into::into).collect(),
        }
    }
}

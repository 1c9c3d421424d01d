//! Binds and listeners.

use serde::{Deserialize, Serialize};

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

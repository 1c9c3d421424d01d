//! A Gateway listener.

use super::{BindKey, Hostname, ListenerKey, ObjectName};

/// What a listener speaks to its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenerProtocol {
    /// Plain HTTP.
    Http,
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
}

//! What a connection or datagram needs of the configuration where no requests are looked at.

use std::sync::Arc;
use std::time::Duration;

use xds::model;

use super::ClusterIndex;
use super::endpoints::Draw;
use crate::limits::Limits;
use crate::names::Interned;
use crate::route::HostIndex;

/// What the connections of a bind begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Requests.
    Http,
    /// A TLS client's first message, which tells the listener.
    Tls,
    /// Anything, from either side.
    Tcp,
    /// They are no connections, but datagrams.
    Udp,
}

impl Opening {
    /// Of a bind with listeners of this protocol: all of them are of one kind.
    #[must_use]
    pub fn of(protocol: &model::ListenerProtocol) -> Self {
        use model::ListenerProtocol as Protocol;
        match protocol {
            Protocol::Http => Self::Http,
            Protocol::Https(_) | Protocol::Tls(_) | Protocol::TlsPassthrough => Self::Tls,
            Protocol::Tcp => Self::Tcp,
            Protocol::Udp => Self::Udp,
        }
    }
}

/// What becomes of a listener's connections, once TLS is out of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Its rules are of requests.
    Requests,
    /// They go on to a backend as they are; TLS too, if there is any.
    Bytes,
}

/// The rules of a listener that look at connections alone.
#[derive(Debug)]
pub struct L4Routes {
    hosts: HostIndex,
    /// In the order of the index.
    rules: Vec<Arc<L4Rule>>,
    /// The hostname of each, for traces.
    hostnames: Vec<Option<model::Hostname>>,
}

impl L4Routes {
    /// Rules with the hostname that each serves, `None` for all: the more important first.
    pub fn new<'a>(
        rules: impl IntoIterator<Item = (Option<&'a model::Hostname>, Arc<L4Rule>)>,
    ) -> Self {
        let (hostnames, rules): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        Self {
            hosts: HostIndex::build(hostnames.iter().copied()),
            rules,
            hostnames: hostnames.into_iter().map(Option::<&_>::cloned).collect(),
        }
    }

    /// The rule of connections to `host`, the most specific one; without a host, the rule of all.
    #[must_use]
    pub fn find(&self, host: Option<&str>) -> Option<&Arc<L4Rule>> {
        let at = self.hosts.find(host.unwrap_or_default().as_bytes())?;
        self.rules.get(at)
    }
}

impl L4Routes {
    /// The rules with the hostname that each serves, the more important first. A rule of several
    /// hostnames comes once for each.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&model::Hostname>, &Arc<L4Rule>)> {
        self.hostnames.iter().map(Option::as_ref).zip(&self.rules)
    }
}

/// A rule that looks at connections alone. They keep it for as long as they live, and not the
/// snapshot, which can be large.
#[derive(Debug)]
pub struct L4Rule {
    /// Its id in the counters.
    pub id: Interned,
    /// `kind/namespace/name/rule` of the route, for logs.
    pub name: Arc<str>,
    /// `namespace/name` of its Gateway, for logs.
    pub gateway: Arc<str>,
    /// Key of its listener, for logs.
    pub listener: Arc<str>,
    /// Limits and timeouts.
    pub limits: Limits,
    /// The access log.
    pub access_log: model::AccessLog,
    /// Chooses among `backends` by weight.
    pub draw: Draw,
    /// Where its connections go.
    pub backends: Vec<L4Backend>,
}

/// A backend's share of a rule.
#[derive(Debug)]
pub struct L4Backend {
    /// Where its share goes; that of an invalid reference is closed.
    pub cluster: Result<ClusterIndex, model::InvalidBackend>,
    /// What an invalid reference names, to be told.
    pub unresolved: Option<Box<str>>,
    /// Time to connect.
    pub connect_timeout: Option<Duration>,
}

//! Configuration of connections and datagrams that are forwarded without HTTP.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use xds::model;

use super::ClusterIndex;
use super::draw::Draw;
use crate::limits::Limits;
use crate::names::Interned;
use crate::policy::client_networks::{self, ClientNetworks};
use crate::policy::hash_key::HashKeys;
use crate::route::HostIndex;

/// The protocol that a bind's connections begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindProtocol {
    /// HTTP/1 or HTTP/2 requests, in plain text.
    Http,
    /// A TLS ClientHello, whose server name selects the listener.
    Tls,
    /// Any bytes, from either side.
    Tcp,
    /// Datagrams; there are no connections.
    Udp,
}

impl BindProtocol {
    /// From the protocol of the bind's listeners, which all have the same kind.
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

/// How a listener handles its connections after TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficMode {
    /// Routes each request by its head.
    Requests,
    /// Forwards bytes to a backend; TLS too, with passthrough.
    Bytes,
}

/// The connection rules of a listener.
#[derive(Debug)]
pub struct L4Routes {
    hosts: HostIndex,
    /// In the order of the index.
    rules: Vec<Arc<L4Rule>>,
    /// The hostname of each, for traces.
    hostnames: Vec<Option<model::Hostname>>,
}

impl L4Routes {
    /// From rules with their hostname (`None` for all), most important first.
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

    /// The most specific rule for `host`; without a host, the rule without a hostname.
    #[must_use]
    pub fn find(&self, host: Option<&str>) -> Option<&Arc<L4Rule>> {
        let at = self.hosts.find(host.unwrap_or_default().as_bytes())?;
        self.rules.get(at)
    }
}

impl L4Routes {
    /// The rules with their hostnames, most important first. A rule of several hostnames comes once
    /// for each.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&model::Hostname>, &Arc<L4Rule>)> {
        self.hostnames.iter().map(Option::as_ref).zip(&self.rules)
    }
}

/// A rule of connections. A connection holds its rule rather than the snapshot, which can be large.
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
    /// Limits and timeouts after all policies.
    pub limits: Limits,
    /// Format and filter of its access log.
    pub access_log: model::AccessLog,
    /// Networks of clients, each of which has to accept a connection.
    pub networks: Box<[Arc<ClientNetworks>]>,
    /// `kind/namespace/name` of a policy whose restrictions cannot be enforced: it refuses every client.
    pub refused_by: Option<Box<str>>,
    /// Chooses among `backends` by weight.
    pub draw: Draw,
    /// What backends are drawn by, in the place of chance: all of them are hashed by the same.
    pub hashed_draw: Option<Box<HashKeys>>,
    /// Where its connections go.
    pub backends: Vec<L4Backend>,
}

impl L4Rule {
    /// Whether it accepts a client of this address.
    #[must_use]
    pub fn accepts(&self, client: IpAddr) -> bool {
        self.refused_by.is_none() && client_networks::check(&self.networks, client).is_ok()
    }
}

/// A backend's share of a rule.
#[derive(Debug)]
pub struct L4Backend {
    /// The cluster of its share; connections of an invalid reference are closed.
    pub cluster: Result<ClusterIndex, model::InvalidBackend>,
    /// The name in an invalid reference, for logs.
    pub unresolved: Option<Box<str>>,
    /// Timeout for connecting to an endpoint; `None` for no limit.
    pub connect_timeout: Option<Duration>,
}

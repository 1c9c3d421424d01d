//! The compiled configuration that requests use. References are resolved: nothing is looked up by name.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use xds::model;

use super::cluster::{Cluster, ClusterIndex, Protocol};
use super::draw::Draw;
use super::error_pages::PagesInForce;
use super::external_auth::ExternalAuth;
use super::held::HeldQueue;
use super::l4::{BindProtocol, L4Routes, TrafficMode};
use super::rule_policies::{HeadPolicies, RuleAuthentication, RuleAuthorization, RuleExtras};
use super::{Chunked, ChunkedEntries};
use crate::limits::Limits;
use crate::names::{Interned, KeyPrefix};
use crate::policy::authentication::Authentication;
use crate::policy::client_networks::ClientNetworks;
use crate::policy::compiled::{BackendPolicy, RuleResponses};
use crate::policy::cors::Cors;
use crate::policy::credentials::Credentials;
use crate::policy::forwarded::TrustedHops;
use crate::policy::jwt::Authenticator;
use crate::policy::keyring::Keyring;
use crate::policy::proxy_protocol::Acceptance;
use crate::policy::rate_limit::{RateLimits, RuleCounter};
use crate::route::{HostIndex, Router};
use crate::tls::ServerTls;

/// A compiled configuration, immutable once published.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counts up with every change; 0 before the first one.
    pub version: u64,
    /// By bind id; the ids of binds that are gone are empty.
    pub binds: Vec<Option<Arc<Bind>>>,
    /// Everything that requests can be sent to.
    pub clusters: Chunked<Cluster>,
    /// Those whose endpoints are checked.
    pub checked: Arc<[ClusterIndex]>,
    /// Counts up when checks put endpoints of any configuration out of service.
    pub probed_out: Arc<AtomicU64>,
    /// Endpoints of all clusters.
    pub endpoints: usize,
    /// Its rules.
    pub rules: RuleCounts,
    /// What traces hide of requests.
    pub credentials: Arc<Credentials>,
    /// Connections of one shard to all of them, at most.
    pub upstream_connections_per_shard: u32,
    /// What rules of rate limits have counted, for metrics.
    pub rate_limits: Arc<[Arc<RuleCounter>]>,
    /// What authenticates session tokens.
    pub session_keys: Arc<Keyring>,
    /// Where shards report what they hold of it.
    pub(crate) held: HeldQueue,
}

/// The rules of a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Rules of route objects. One counts once, however many resources it comes in.
    pub rules: usize,
    /// Listeners of rules: a rule at two listeners counts twice.
    pub attachments: usize,
}

impl Snapshot {
    /// The bind of this id, unless it is gone.
    #[must_use]
    pub fn bind(&self, id: u32) -> Option<&Bind> {
        self.binds.get(id as usize)?.as_deref()
    }

    /// The clusters whose endpoints are checked.
    pub fn checked_clusters(&self) -> impl Iterator<Item = &Arc<Cluster>> {
        let checked = self.checked.iter();
        checked.filter_map(|index| self.clusters.shared(index.0))
    }

    /// Every cluster, and those of endpoint pickers, which have no index.
    pub fn all_clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters.iter().flat_map(|cluster| {
            let picker = cluster.picker.as_deref();
            std::iter::once(cluster).chain(picker.map(|picker| &picker.cluster))
        })
    }

    /// The cluster of this index.
    ///
    /// # Panics
    /// The index is of another snapshot.
    #[must_use]
    pub fn cluster(&self, index: ClusterIndex) -> &Cluster {
        let cluster = self.clusters.get(index.0);
        cluster.expect("rules are compiled with the clusters that they name")
    }
}

/// One socket address, and the listeners that share it.
#[derive(Debug, Clone)]
pub struct Bind {
    /// What requests keep of it.
    pub settings: Arc<BindSettings>,
    /// Its listeners, the most specific hostname first.
    pub listeners: Chunked<Listener>,
    /// Finds a listener by host.
    pub hosts: Arc<HostIndex>,
}

/// The settings of a bind, which a request keeps until its end.
#[derive(Debug)]
pub struct BindSettings {
    /// Key of the bind in the model.
    pub key: model::BindKey,
    /// For connections or for datagrams.
    pub transport: model::Transport,
    /// Address and port to listen on.
    pub address: SocketAddr,
    /// The protocol that its connections begin with.
    pub opening: BindProtocol,
    /// `namespace/name` of its Gateway.
    pub gateway: Arc<str>,
    /// Settings that apply before a request's listener is known.
    pub limits: Limits,
    /// PROXY protocol from clients.
    pub proxy_protocol: Acceptance,
    /// How paths are normalised, before a route is known.
    pub path_options: model::PathOptions,
    /// Where the proxy itself answers load balancers.
    pub health_path: Option<model::HealthPath>,
    /// Hops whose forwarding headers are trusted.
    pub trust: TrustedHops,
    /// The networks of the Gateway's overriding policy, if the address of a connection is that of its client and
    /// there is no health path: connections of others are closed at once.
    pub networks: Option<Arc<ClientNetworks>>,
    /// Of the Gateway, for requests that match no listener; `None` without.
    pub head_policies: Option<Box<HeadPolicies>>,
    /// Access log of requests that match no listener, or whose head is malformed.
    pub access_log: model::AccessLog,
}

impl Deref for Bind {
    type Target = BindSettings;

    fn deref(&self) -> &BindSettings {
        &self.settings
    }
}

impl Bind {
    /// The listener that owns requests for `host` (lower case, no port): the most specific one
    /// (GEP-1713).
    #[must_use]
    pub fn listener(&self, host: &str) -> Option<&Listener> {
        self.listeners.get(self.position(host)?)
    }

    /// Its index among the listeners.
    #[must_use]
    pub fn position(&self, host: &str) -> Option<usize> {
        self.hosts.find(host.as_bytes())
    }
}

/// A listener and its routes.
#[derive(Debug)]
pub struct Listener {
    /// What requests keep of it.
    pub settings: Arc<ListenerSettings>,
    /// How its connections are handled.
    pub traffic: TrafficMode,
    /// Rules for connections that are forwarded as bytes.
    pub l4: Arc<L4Routes>,
    /// How its connections begin.
    pub accepts: Accepts,
    /// Which rule serves a request.
    pub router: Arc<Router>,
    /// Its rules; the router names them by number.
    pub rules: ChunkedEntries<PlacedRule>,
}

/// The settings of a listener, which a request keeps until its end.
#[derive(Debug, PartialEq)]
pub struct ListenerSettings {
    /// Its id in the counters.
    pub id: Interned,
    /// Key of the listener in the model.
    pub key: model::ListenerKey,
    /// Hosts that it serves; `None` means every host.
    pub hostname: Option<model::Hostname>,
    /// Authorization servers that are called before a rule is selected.
    pub external_auth: Arc<[ExternalAuth]>,
    /// Of Gateway, ListenerSet and listener; `None` without.
    pub head_policies: Option<Box<HeadPolicies>>,
    /// The access log of requests that no rule serves.
    pub access_log: model::AccessLog,
    /// Pages in the place of the contents of errors, of requests that no rule serves.
    pub error_pages: Option<PagesInForce>,
}

impl Deref for Listener {
    type Target = ListenerSettings;

    fn deref(&self) -> &ListenerSettings {
        &self.settings
    }
}

/// How a listener's connections begin. The listeners of a bind are all of TLS, or none is.
#[derive(Debug)]
pub enum Accepts {
    /// Connections that begin with a request in plain text.
    Plain,
    /// With a TLS handshake.
    Tls(ServerTls),
    /// With a TLS handshake that cannot be carried out, so they end at once.
    Nothing,
}

/// A rule at a listener.
#[derive(Debug, Clone)]
pub struct PlacedRule {
    /// Its id in the counters, which count it at each listener.
    pub id: Interned,
    /// What it does. Listeners with equal settings share it.
    pub rule: Arc<Rule>,
}

impl Deref for PlacedRule {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        &self.rule
    }
}

/// A rule of a route.
#[derive(Debug)]
pub struct Rule {
    /// `kind/namespace/name/rule` of the route, for logs.
    pub name: KeyPrefix,
    /// The application protocol of its requests.
    pub requests: model::RequestProtocol,
    /// Limits and timeouts after all policies.
    pub limits: Arc<Limits>,
    /// Its own timeouts; `None` without.
    pub timeouts: Option<Box<RuleTimeouts>>,
    /// Retries beyond those that are always safe; `None` without a policy.
    pub retry: Option<Box<model::Retry>>,
    /// How clients are kept at their endpoint (GEP-1619), by the rule or by its backends.
    pub sessions: Sessions,
    /// Format and filter of its access log.
    pub access_log: Arc<model::AccessLog>,
    /// How senders of requests are authenticated; `None` if they are not.
    pub authentication: Option<Box<RuleAuthentication>>,
    /// Authorization policies, each of which has to allow a request: overriding ones, the widest first, and
    /// then its own.
    pub authorization: Box<[RuleAuthorization]>,
    /// Networks of clients, each of which has to accept a request, beside those of [`HeadPolicies`].
    pub networks: Box<[Arc<ClientNetworks>]>,
    /// Rate limits; `None` without.
    pub rate_limits: Option<Box<RateLimits>>,
    /// Everything that few rules have; `None` without.
    pub extras: Option<Box<RuleExtras>>,
    /// Authorization servers that are called for each request.
    pub external_auth: Box<[ExternalAuth]>,
    /// Redirects, CORS and answers of its own, which need no backend.
    pub responses: Option<Box<RuleResponses>>,
    /// Chooses among `backends` by weight.
    pub draw: Draw,
    /// Where its requests go.
    pub backends: Box<[RuleBackend]>,
}

impl Rule {
    /// The protocol to the endpoints of a cluster: gRPC always uses HTTP/2.
    #[must_use]
    pub fn protocol_to(&self, cluster: &Cluster) -> Protocol {
        match self.requests {
            model::RequestProtocol::Http => cluster.protocol,
            model::RequestProtocol::Grpc => Protocol::Http2,
        }
    }

    /// Pages in the place of the contents of errors.
    #[must_use]
    pub fn error_pages(&self) -> Option<&PagesInForce> {
        self.extras.as_ref()?.error_pages.as_ref()
    }

    /// The namespace of its route.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.name.split('/').nth(1).unwrap_or_default()
    }

    /// The session persistence of requests to one of its backends.
    #[must_use]
    pub fn session_of<'r>(
        &'r self,
        backend: &'r RuleBackend,
    ) -> Option<&'r model::SessionPersistence> {
        match &self.sessions {
            Sessions::None => None,
            Sessions::OfRule(session) => Some(session),
            Sessions::OfBackends => backend.session(),
        }
    }

    /// Timeout of the whole exchange, retries included; `None` for no limit.
    #[must_use]
    pub fn request_timeout(&self) -> Option<Duration> {
        self.timeouts.as_ref()?.request
    }

    /// Timeout of one attempt; `None` for no limit.
    #[must_use]
    pub fn backend_timeout(&self) -> Option<Duration> {
        self.timeouts.as_ref()?.backend
    }

    /// The bound of the time for the head of a response, of a rule with timeouts of its own.
    #[must_use]
    pub fn head_bound(&self) -> Option<Duration> {
        self.timeouts.as_ref()?.head_bound
    }

    /// Whether the route set `0s`: then the default timeout for backends does not apply either.
    #[must_use]
    pub fn waits_forever(&self) -> bool {
        self.timeouts.as_ref().is_some_and(|it| it.waits_forever)
    }

    /// The clusters that it names; one that is named twice is there twice.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterIndex> {
        let servers = self.external_auth.iter().map(|it| it.cluster);
        let backends = self.backends.iter().flat_map(RuleBackend::clusters);
        let pages = self.error_pages().into_iter();
        let pages = pages.flat_map(PagesInForce::clusters);
        servers.chain(backends).flatten().chain(pages)
    }

    /// The policy that refuses every request, since its restrictions cannot be enforced.
    #[must_use]
    pub fn refused_by(&self) -> Option<&str> {
        self.extras.as_ref()?.refused_by.as_deref()
    }

    /// Its own responses, if it redirects every request.
    #[must_use]
    pub fn redirect(&self) -> Option<&RuleResponses> {
        let responses = self.responses.as_deref();
        responses.filter(|responses| responses.redirect.is_some())
    }

    /// Why its configuration is invalid, which leaves it without backends.
    #[must_use]
    pub fn invalid(&self) -> Option<&str> {
        self.extras.as_ref()?.invalid.as_deref()
    }

    /// Whether the query of its requests may hold a token, which no log may show.
    #[must_use]
    pub fn hides_query(&self) -> bool {
        let of_rejected = self.extras.as_ref();
        of_rejected.is_some_and(|it| it.hides_query)
            || self.credentials().is_some_and(Authentication::reads_target)
    }

    /// The credentials that it accepts.
    #[must_use]
    pub fn credentials(&self) -> Option<&Authentication> {
        let authentication = self.authentication.as_ref();
        authentication.map(|authentication| &authentication.credentials)
    }

    /// What verifies the tokens of its requests.
    #[must_use]
    pub fn authenticator(&self) -> Option<&Arc<Authenticator>> {
        self.credentials()?.jwt.as_ref()
    }

    /// Its own CORS filter.
    #[must_use]
    pub fn cors(&self) -> Option<&Cors> {
        self.responses.as_deref()?.cors.as_ref()
    }
}

/// Timeouts that a route sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleTimeouts {
    /// The whole exchange, retries included.
    pub request: Option<Duration>,
    /// One attempt (`timeouts.backendRequest`).
    pub backend: Option<Duration>,
    /// Whether one of them is `0s`.
    pub waits_forever: bool,
    /// What overriding policies bound the time for the head of a response to, whatever the others are.
    pub head_bound: Option<Duration>,
}

/// The session persistence of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sessions {
    /// The rule has no session persistence.
    None,
    /// A session has an endpoint of any backend.
    OfRule(Box<model::SessionPersistence>),
    /// A session has an endpoint of one of the backends that have session persistence.
    OfBackends,
}

/// A backend's share of a rule.
#[derive(Debug)]
pub struct RuleBackend {
    /// The cluster of its share; an invalid reference responds with 500.
    pub cluster: Result<ClusterIndex, model::InvalidBackend>,
    /// Edits of requests and responses, including the rule's filters.
    pub policy: Option<Box<BackendPolicy>>,
    /// The rule's limits, overridden by a policy of the backend: its timeouts for connecting and for
    /// the response head apply.
    pub limits: Arc<Limits>,
    /// Everything that few backends have.
    pub extras: Option<Box<BackendExtras>>,
}

/// What few backends of a rule have.
#[derive(Debug, Default)]
pub struct BackendExtras {
    /// The invalid reference, for errors.
    pub unresolved: Option<Box<str>>,
    /// Where the policy's mirrors go, by their position.
    pub mirrors: Box<[Result<ClusterIndex, model::InvalidBackend>]>,
    /// Authorization servers that are called for requests to this backend.
    pub external_auth: Box<[ExternalAuth]>,
    /// Session persistence of the backend, if the rule has none.
    pub session: Option<Box<model::SessionPersistence>>,
    /// `kind/namespace/name` of a policy of the backend whose restrictions cannot be enforced: it refuses
    /// every request.
    pub refused_by: Option<Box<str>>,
}

impl BackendExtras {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.unresolved.is_none()
            && self.mirrors.is_empty()
            && self.external_auth.is_empty()
            && self.session.is_none()
            && self.refused_by.is_none()
    }
}

impl RuleBackend {
    /// The invalid reference, for errors.
    #[must_use]
    pub fn unresolved(&self) -> Option<&str> {
        self.extras.as_ref()?.unresolved.as_deref()
    }

    /// Where the policy's mirrors go, by their position.
    pub fn mirrors(&self) -> &[Result<ClusterIndex, model::InvalidBackend>] {
        self.extras.as_ref().map_or(&[], |extras| &extras.mirrors)
    }

    /// Authorization servers that are called for requests to this backend.
    #[must_use]
    pub fn external_auth(&self) -> &[ExternalAuth] {
        let extras = self.extras.as_ref();
        extras.map_or(&[], |extras| &extras.external_auth)
    }

    /// Session persistence of the backend, if the rule has none.
    #[must_use]
    pub fn session(&self) -> Option<&model::SessionPersistence> {
        self.extras.as_ref()?.session.as_deref()
    }

    /// The policy of the backend that refuses every request.
    #[must_use]
    pub fn refused_by(&self) -> Option<&str> {
        self.extras.as_ref()?.refused_by.as_deref()
    }

    fn clusters(&self) -> impl Iterator<Item = Result<ClusterIndex, model::InvalidBackend>> {
        let servers = self.external_auth().iter().map(|it| it.cluster);
        let mirrors = self.mirrors().iter().copied();
        std::iter::once(self.cluster).chain(mirrors).chain(servers)
    }
}

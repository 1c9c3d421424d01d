//! A rule of a route object, with the listeners that it is attached to.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{
    Attachment, Attachments, BackendKey, Filters, HttpMatch, Model, RouteKey, ServiceKey,
    SessionPersistence, Timeout, Transport, json,
};

/// One rule of one route object at the listeners of one Gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Key of object, rule and Gateway. Of a rule from a controller of the release before, which sends one for
    /// each listener: key of object, rule and listener.
    pub key: RouteKey,
    /// The listeners that it is attached to.
    pub attachments: Attachments,
    /// Creation time of the route object in seconds since 1970; 0 if unknown.
    pub created: i64,
    /// Matches, filters and backends.
    pub rule: RouteRule,
}

impl Route {
    /// The route that refuses the same requests and connections.
    #[must_use]
    pub fn refusing(&self) -> Self {
        let l4 = || L4Rule {
            name: None,
            backends: Vec::new(),
        };
        Self {
            rule: match &self.rule {
                RouteRule::Http(rule) => RouteRule::Http(HttpRule::refusing(rule.matches.to_vec())),
                RouteRule::Tls(_) => RouteRule::Tls(l4()),
                RouteRule::Tcp(_) => RouteRule::Tcp(l4()),
                RouteRule::Udp(_) => RouteRule::Udp(l4()),
            },
            ..self.clone()
        }
    }

    /// The rule at each of its listeners.
    pub fn at_listeners(&self) -> impl Iterator<Item = RuleAtListener<'_>> {
        let attachments = self.attachments.iter();
        attachments.map(|attachment| RuleAtListener {
            route: self,
            attachment,
        })
    }

    /// Precedence among equally specific rules.
    #[must_use]
    pub fn order(&self) -> Order<'_> {
        let (object, rule) = self.key.object_and_rule();
        Order {
            created: self.created,
            object,
            rule,
        }
    }
}

/// A rule at one of its listeners: as it is shown. A rule that serves several listeners is shown once for each
/// of them, by a key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleAtListener<'a> {
    /// The rule.
    pub route: &'a Route,
    /// Its listener.
    pub attachment: &'a Attachment,
}

impl RuleAtListener<'_> {
    /// Key of object, rule and listener.
    #[must_use]
    pub fn key(&self) -> RouteKey {
        self.route.key.at(&self.attachment.listener)
    }
}

impl Model {
    /// The rules at each of their listeners, in the order of the keys of these.
    pub fn rules_at_listeners(&self) -> impl Iterator<Item = RuleAtListener<'_>> {
        let mut routes = self.routes.values().peekable();
        let mut at_rule = Vec::new().into_iter();
        std::iter::from_fn(move || {
            if let Some(next) = at_rule.next() {
                return Some(next);
            }
            // A rule is there once for each Gateway.
            let first = routes.next()?;
            let mut all: Vec<RuleAtListener<'_>> = first.at_listeners().collect();
            while let Some(same) = routes.next_if(|it| it.key.rule() == first.key.rule()) {
                all.extend(same.at_listeners());
            }
            all.sort_by_key(|it| &it.attachment.listener);
            at_rule = all.into_iter();
            at_rule.next()
        })
    }
}

impl Serialize for RuleAtListener<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { route, attachment } = self;
        let Route {
            key: _,
            attachments: _,
            created: _, // A part of the order.
            rule,
        } = route;
        let Attachment {
            listener,
            hostnames,
        } = attachment;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &self.key())?;
        map.serialize_entry("listener", listener)?;
        map.serialize_entry("protocol", rule.protocol())?;
        if !hostnames.is_empty() {
            map.serialize_entry("hostnames", &**hostnames)?;
        }
        map.serialize_entry("order", &route.order())?;
        if let Some(name) = rule.name() {
            map.serialize_entry("name", name)?;
        }
        match rule {
            RouteRule::Http(rule) => http_rule(rule, &mut map)?,
            RouteRule::Tls(rule) | RouteRule::Tcp(rule) | RouteRule::Udp(rule) => {
                let L4Rule { name: _, backends } = rule;
                map.serialize_entry("backends", backends)?;
            }
        }
        map.end()
    }
}

/// Adds the fields of an HTTP rule, but for its name and protocol.
fn http_rule<M: SerializeMap>(rule: &HttpRule, map: &mut M) -> Result<(), M::Error> {
    let HttpRule {
        name: _,
        protocol: _,
        matches,
        filters,
        backends,
        timeouts,
        retry,
        session,
        invalid,
    } = rule;
    if !matches.is_empty() {
        map.serialize_entry("matches", matches)?;
    }
    if !filters.is_empty() {
        map.serialize_entry("filters", filters)?;
    }
    map.serialize_entry("backends", backends)?;
    if *timeouts != Timeouts::default() {
        map.serialize_entry("timeouts", timeouts)?;
    }
    if let Some(retry) = retry {
        map.serialize_entry("retry", retry)?;
    }
    if let Some(session) = session {
        map.serialize_entry("session", session)?;
    }
    if let Some(invalid) = invalid {
        map.serialize_entry("invalid", invalid)?;
    }
    Ok(())
}

/// A rule, by kind of route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteRule {
    /// Of an HTTPRoute or GRPCRoute: on HTTP and HTTPS listeners.
    Http(HttpRule),
    /// Of a TLSRoute, selected by SNI: on TLS listeners, terminated or passed through.
    Tls(L4Rule),
    /// Of a TCPRoute: on TCP listeners, and on TLS listeners that terminate. The first by [`Order`]
    /// takes all connections that no TLSRoute takes.
    Tcp(L4Rule),
    /// Of a UDPRoute: on UDP listeners. The first by [`Order`] takes all datagrams.
    Udp(L4Rule),
}

impl RouteRule {
    /// The longest lifetime of the session tokens of its clients; zero without sessions.
    #[must_use]
    pub fn token_lifetime(&self) -> Duration {
        match self {
            Self::Http(rule) => rule.token_lifetime(),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => Duration::ZERO,
        }
    }

    /// The rule's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Http(rule) => rule.name.as_deref(),
            Self::Tls(rule) | Self::Tcp(rule) | Self::Udp(rule) => rule.name.as_deref(),
        }
    }

    /// Name of the protocol, such as `HTTP`.
    fn protocol(&self) -> &'static str {
        match self {
            Self::Http(rule) => match rule.protocol {
                RequestProtocol::Http => "HTTP",
                RequestProtocol::Grpc => "GRPC",
            },
            Self::Tls(_) => "TLS",
            Self::Tcp(_) => "TCP",
            Self::Udp(_) => "UDP",
        }
    }

    /// The HTTP rule, if it is one.
    #[must_use]
    pub fn http(&self) -> Option<&HttpRule> {
        match self {
            Self::Http(rule) => Some(rule),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => None,
        }
    }

    /// The transport protocol of its targets' service ports.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp(_) => Transport::Udp,
            Self::Http(_) | Self::Tls(_) | Self::Tcp(_) => Transport::Tcp,
        }
    }

    /// All targets of its requests and connections, including mirrors and authorization servers.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let (http, l4) = match self {
            Self::Http(rule) => (Some(rule), None),
            Self::Tls(rule) | Self::Tcp(rule) | Self::Udp(rule) => (None, Some(rule)),
        };
        let l4 = l4.into_iter().flat_map(|rule| &rule.backends);
        let http = http.into_iter().flat_map(HttpRule::targets);
        http.chain(l4.map(|backend| &backend.target))
    }
}

/// A rule for connections or datagrams. Without backends, connections are closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L4Rule {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Weighted destinations of connections.
    pub backends: Vec<L4Backend>,
}

/// A backend's share of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct L4Backend {
    /// The service port or backend.
    pub target: Target,
    /// Share of the connections, relative to the rule's other backends; 0 gets none.
    pub weight: u32,
}

/// The tie-break of Gateway API among equally specific matches: the smaller one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Order<'a> {
    /// Creation time in seconds since 1970; 0 if unknown.
    pub created: i64,
    /// `namespace/name` of the route object.
    pub object: &'a str,
    /// Number of the rule in its object.
    pub rule: u16,
}

/// A rule for HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRule {
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// Whether the rule is for HTTP or for gRPC requests.
    pub protocol: RequestProtocol,
    /// Alternatives, at least one: a request has to satisfy one of them.
    pub matches: Box<[HttpMatch]>,
    /// Applied to requests and responses.
    pub filters: Filters,
    /// Weighted destinations; empty means 500, unless a filter responds.
    pub backends: Box<[RouteBackend]>,
    /// Of the request and of each attempt.
    pub timeouts: Timeouts,
    /// `None` means no retries beyond refused streams.
    pub retry: Option<Box<Retry>>,
    /// Of all its backends; `None` means no session persistence, or that of each backend.
    pub session: Option<Box<SessionPersistence>>,
    /// Why the configuration of the rule is invalid, with the field: it has no backends then.
    pub invalid: Option<Box<str>>,
}

impl HttpRule {
    /// Responds with 500 to every request that it matches.
    #[must_use]
    pub fn refusing(matches: Vec<HttpMatch>) -> Self {
        Self {
            name: None,
            protocol: RequestProtocol::Http,
            matches: matches.into(),
            filters: Filters::default(),
            backends: Box::default(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            invalid: None,
        }
    }

    /// The longest lifetime of the session tokens of its clients; zero without sessions.
    fn token_lifetime(&self) -> Duration {
        let of_backends = self.backends.iter().map(|it| &it.session);
        let sessions = of_backends.chain([&self.session]).flatten();
        let lifetimes = sessions.map(|it| it.token_lifetime());
        lifetimes.max().unwrap_or_default()
    }

    /// All targets of its requests, including mirrors and authorization servers.
    fn targets(&self) -> impl Iterator<Item = &Target> {
        let filters = self.backends.iter().map(|backend| &backend.filters);
        let filters = [&self.filters].into_iter().chain(filters);
        let backends = self.backends.iter().map(|backend| &backend.target);
        backends.chain(filters.flat_map(Filters::targets))
    }
}

/// The application protocol of a rule's requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RequestProtocol {
    /// HTTP, of an HTTPRoute.
    #[default]
    Http,
    /// gRPC, of a GRPCRoute: always HTTP/2 to the backend.
    Grpc,
}

/// A backend's share of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteBackend {
    /// The service port or backend.
    pub target: Target,
    /// Share of the requests, relative to the rule's other backends; 0 gets none.
    pub weight: u32,
    /// Filters of this backend only, applied after the rule's.
    #[serde(skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
    /// Session persistence of this backend only, where the rule has none. Boxed: few have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionPersistence>>,
}

/// The destination of requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A port of a Service: UDP for UDP rules, otherwise TCP.
    Service {
        /// Key of the Service.
        service: ServiceKey,
        /// Port number in the Service.
        port: u16,
    },
    /// A `Backend` object or inference pool.
    Backend(BackendKey),
    /// A reference that does not resolve: its share is answered with 500, or closed.
    Invalid {
        /// Why it does not resolve.
        why: InvalidBackend,
        /// The referenced object: `kind/namespace/name`, and the port if set.
        reference: String,
    },
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Service { service, port } => {
                map.serialize_entry("type", "Service")?;
                map.serialize_entry("service", service)?;
                map.serialize_entry("port", port)?;
            }
            Self::Backend(key) => {
                map.serialize_entry("type", "Backend")?;
                map.serialize_entry("backend", key)?;
            }
            Self::Invalid { why, reference } => {
                map.serialize_entry("type", "Invalid")?;
                map.serialize_entry("reason", why.reason())?;
                if !reference.is_empty() {
                    map.serialize_entry("reference", reference)?;
                }
            }
        }
        map.end()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { service, port } => write!(f, "{service}:{port}"),
            Self::Backend(key) => write!(f, "{key}"),
            Self::Invalid { reference, .. } => f.write_str(reference),
        }
    }
}

/// Why a reference does not resolve; the reasons of `ResolvedRefs` in Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvalidBackend {
    /// `BackendNotFound`: no such object or port.
    NotFound,
    /// `InvalidKind`: the kind cannot be a backend.
    InvalidKind,
    /// `RefNotPermitted`: no `ReferenceGrant` allows it.
    NotPermitted,
    /// `UnsupportedProtocol`: its protocol cannot carry this route.
    UnsupportedProtocol,
}

impl InvalidBackend {
    /// The reason in Gateway API's spelling.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "BackendNotFound",
            Self::InvalidKind => "InvalidKind",
            Self::NotPermitted => "RefNotPermitted",
            Self::UnsupportedProtocol => "UnsupportedProtocol",
        }
    }
}

/// Timeouts of a rule (GEP-1742).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// The whole request, retries included.
    #[serde(skip_serializing_if = "Timeout::is_default")]
    pub request: Timeout,
    /// One attempt, `backendRequest` of Gateway API.
    #[serde(skip_serializing_if = "Timeout::is_default")]
    pub backend_request: Timeout,
}

/// Retries of a rule (GEP-1731). Connection errors and resets are always retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retry {
    /// Most attempts after the first.
    pub attempts: u32,
    /// Status codes that are retried.
    #[serde(serialize_with = "json::statuses")]
    pub codes: Vec<StatusCode>,
    /// Least wait before a retry; `None` means the default.
    #[serde(
        serialize_with = "json::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub backoff: Option<Duration>,
}

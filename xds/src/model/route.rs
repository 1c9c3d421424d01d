//! A rule of a route object, attached to one listener.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::{
    BackendKey, Filters, Hostname, HttpMatch, ListenerKey, RouteKey, ServiceKey,
    SessionPersistence, Timeout, Transport,
};

/// One rule of one route object, attached to one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its key.
    pub key: RouteKey,
    /// The listener it hangs on.
    pub listener: ListenerKey,
    /// Those of its hosts that share a name with the listener; empty means every host of the listener.
    pub hostnames: Vec<Hostname>,
    /// Where it stands among equally specific rules.
    pub order: Order,
    /// What it does.
    pub rule: RouteRule,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all rules are of HTTP, and a box would cost each of them an allocation"
)]
pub enum RouteRule {
    /// Of an HTTPRoute or GRPCRoute: on listeners of HTTP and HTTPS.
    Http(HttpRule),
    /// Of a TLSRoute, chosen by SNI: on listeners of TLS, ended here or passed through.
    Tls(L4Rule),
    /// Of a TCPRoute: on listeners of TCP, and of TLS that ends here. The first by [`Order`] takes
    /// all connections that no TLSRoute takes.
    Tcp(L4Rule),
    /// Of a UDPRoute: on listeners of UDP. The first by [`Order`] takes all datagrams.
    Udp(L4Rule),
}

impl RouteRule {
    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Http(rule) => rule.name.as_deref(),
            Self::Tls(rule) | Self::Tcp(rule) | Self::Udp(rule) => rule.name.as_deref(),
        }
    }

    /// It, where it is of HTTP.
    #[must_use]
    pub fn http(&self) -> Option<&HttpRule> {
        match self {
            Self::Http(rule) => Some(rule),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => None,
        }
    }

    /// Which ports of services its targets mean.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp(_) => Transport::Udp,
            Self::Http(_) | Self::Tls(_) | Self::Tcp(_) => Transport::Tcp,
        }
    }

    /// Everything that it sends requests, copies of them, questions about them or connections to.
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

/// A rule that looks at connections alone. Without backends, connections are closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L4Rule {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where connections go.
    pub backends: Vec<L4Backend>,
}

/// A backend's share of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L4Backend {
    /// Where to.
    pub target: Target,
    /// Share of the connections, relative to the rule's other backends; 0 gets none.
    pub weight: u32,
}

/// The tie-break of Gateway API among equally specific matches: the smaller one wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// Creation time in seconds since 1970; 0 where there is none.
    pub created: i64,
    /// `namespace/name` of the route object.
    pub object: String,
    /// Number of the rule in its object.
    pub rule: u16,
}

/// An HTTP rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRule {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// HTTP or gRPC.
    pub protocol: RequestProtocol,
    /// Its matches, at least one; any of them will do.
    pub matches: Vec<HttpMatch>,
    /// What it does to requests and responses.
    pub filters: Filters,
    /// Where requests go; none means 500 (unless a filter answers).
    pub backends: Vec<RouteBackend>,
    /// Its timeouts.
    pub timeouts: Timeouts,
    /// Its retries.
    pub retry: Option<Retry>,
    /// Its session persistence.
    pub session: Option<SessionPersistence>,
}

impl HttpRule {
    /// Everything that it sends requests, copies of them or questions about them to.
    fn targets(&self) -> impl Iterator<Item = &Target> {
        let filters = self.backends.iter().map(|backend| &backend.filters);
        let filters = [&self.filters].into_iter().chain(filters);
        let backends = self.backends.iter().map(|backend| &backend.target);
        backends.chain(filters.flat_map(Filters::targets))
    }
}

/// What the requests of a rule are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RequestProtocol {
    /// HTTP, of an HTTPRoute.
    #[default]
    Http,
    /// gRPC, of a GRPCRoute: HTTP/2 towards the backend, whatever else it speaks.
    Grpc,
}

/// A backend's share of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteBackend {
    /// Where to.
    pub target: Target,
    /// Share of the requests, relative to the rule's other backends; 0 gets none.
    pub weight: u32,
    /// Filters of this backend alone, after the rule's.
    pub filters: Filters,
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A port of a Service: a UDP one for rules of UDP, otherwise a TCP one.
    Service {
        /// Which service.
        service: ServiceKey,
        /// Which of its ports.
        port: u16,
    },
    /// A `Backend`.
    Backend(BackendKey),
    /// A reference that does not resolve: its share is answered with 500, or closed.
    Invalid {
        /// Why.
        why: InvalidBackend,
        /// What it names: `kind/namespace/name`, and the port where it gives one.
        reference: String,
    },
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
    /// `InvalidKind`: a kind we do not route to.
    InvalidKind,
    /// `RefNotPermitted`: no `ReferenceGrant` allows it.
    NotPermitted,
    /// `UnsupportedProtocol`: its protocol cannot carry this route.
    UnsupportedProtocol,
}

impl InvalidBackend {
    /// The reason's name.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// The whole exchange with the client, retries included.
    pub request: Timeout,
    /// One try with a backend.
    pub backend_request: Timeout,
}

/// Retries of a rule (GEP-1731). Connection errors and resets are always retried under one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Extra tries after the first.
    pub attempts: u32,
    /// Status codes that are retried.
    pub codes: Vec<StatusCode>,
    /// Least wait before a retry.
    pub backoff: Option<Duration>,
}

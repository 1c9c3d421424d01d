//! A rule of a route object, attached to one listener.

use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::{BackendKey, Filters, Hostname, HttpMatch, ListenerKey, RouteKey, ServiceKey, Timeout};

/// One rule of one route object, attached to one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its key.
    pub key: RouteKey,
    /// The listener it hangs on.
    pub listener: ListenerKey,
    /// Hosts, already intersected with the listener's; empty means every host of the listener.
    pub hostnames: Vec<Hostname>,
    /// Where it stands among equally specific rules.
    pub order: Order,
    /// What it does.
    pub rule: HttpRule,
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
    /// A port of a Service.
    Service {
        /// Which service.
        service: ServiceKey,
        /// Which of its ports.
        port: u16,
    },
    /// A `Backend`.
    Backend(BackendKey),
    /// A reference that does not resolve: its share is answered with 500.
    Invalid(InvalidBackend),
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

/// Where a session's token lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionToken {
    /// A cookie of this name.
    Cookie {
        /// Its name.
        name: String,
        /// Whether the browser keeps it.
        lifetime: SessionLifetime,
    },
    /// A header of this name, sent by us and returned by the client.
    Header(HeaderName),
}

/// How long a session cookie lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLifetime {
    /// Until the browser closes.
    Session,
    /// Until the session's absolute timeout.
    Permanent,
}

/// Session persistence (GEP-1619): requests of a session go to one endpoint while it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPersistence {
    /// Cookie or header.
    pub token: SessionToken,
    /// A session ends this long after it began.
    pub absolute_timeout: Option<Duration>,
    /// A session ends this long after its last request.
    pub idle_timeout: Option<Duration>,
}

//! Route rules.

use serde::{Deserialize, Serialize};
use xds::model;

use super::{Filters, HttpMatch};
use crate::text::{of_duration, of_timeout};

/// One rule of a route object, attached to one listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Its key.
    pub key: String,
    /// Key of its listener.
    pub listener: String,
    /// What it routes: `HTTP`, `GRPC`, `TLS`, `TCP` or `UDP`.
    pub protocol: String,
    /// Hosts; every host of the listener where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Where it stands among equally specific rules.
    pub order: Order,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its matches; any of them will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HttpMatch>,
    /// What it does to requests and responses.
    #[serde(default, skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
    /// Where its requests go.
    pub backends: Vec<RouteBackend>,
    /// Its timeouts.
    #[serde(default, skip_serializing_if = "Timeouts::is_empty")]
    pub timeouts: Timeouts,
    /// Its retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Its session persistence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionPersistence>,
}

impl From<&model::Route> for Route {
    fn from(route: &model::Route) -> Self {
        let plain = |protocol: &str, backends| Self {
            key: route.key.to_string(),
            listener: route.listener.to_string(),
            protocol: protocol.to_owned(),
            hostnames: route.hostnames.iter().map(ToString::to_string).collect(),
            order: (&route.order).into(),
            name: route.rule.name().map(str::to_owned),
            matches: Vec::new(),
            filters: Filters::default(),
            backends,
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
        };
        let l4 = |rule: &model::L4Rule| rule.backends.iter().map(Into::into).collect();
        let rule = match &route.rule {
            model::RouteRule::Http(rule) => rule,
            model::RouteRule::Tls(rule) => return plain("TLS", l4(rule)),
            model::RouteRule::Tcp(rule) => return plain("TCP", l4(rule)),
            model::RouteRule::Udp(rule) => return plain("UDP", l4(rule)),
        };
        let protocol = match rule.protocol {
            model::RequestProtocol::Http => "HTTP",
            model::RequestProtocol::Grpc => "GRPC",
        };
        let backends = rule.backends.iter().map(Into::into).collect();
        Self {
            matches: rule.matches.iter().map(Into::into).collect(),
            filters: (&rule.filters).into(),
            timeouts: (&rule.timeouts).into(),
            retry: rule.retry.as_ref().map(Into::into),
            session: rule.session.as_ref().map(Into::into),
            ..plain(protocol, backends)
        }
    }
}

/// The tie-break of Gateway API: the smaller one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Creation time in seconds since 1970; 0 where there is none.
    pub created: i64,
    /// `namespace/name` of the route object.
    pub object: String,
    /// Number of the rule in it.
    pub rule: u16,
}

impl From<&model::Order> for Order {
    fn from(order: &model::Order) -> Self {
        Self {
            created: order.created,
            object: order.object.clone(),
            rule: order.rule,
        }
    }
}

/// A backend's share of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteBackend {
    /// Where to.
    pub target: Target,
    /// Its share, relative to the rule's other backends.
    pub weight: u32,
    /// Filters of this backend alone.
    #[serde(default, skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
}

impl From<&model::RouteBackend> for RouteBackend {
    fn from(backend: &model::RouteBackend) -> Self {
        Self {
            target: (&backend.target).into(),
            weight: backend.weight,
            filters: (&backend.filters).into(),
        }
    }
}

impl From<&model::L4Backend> for RouteBackend {
    fn from(backend: &model::L4Backend) -> Self {
        Self {
            target: (&backend.target).into(),
            weight: backend.weight,
            filters: Filters::default(),
        }
    }
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Target {
    /// A port of a service.
    Service {
        /// Key of the service.
        service: String,
        /// The port's number.
        port: u16,
    },
    /// A backend.
    Backend {
        /// Key of the backend.
        backend: String,
    },
    /// A reference that does not resolve: its share is answered with 500.
    Invalid {
        /// Why, as `ResolvedRefs` says.
        reason: String,
        /// What it names: `kind/namespace/name`, and the port where it gives one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reference: String,
    },
}

impl From<&model::Target> for Target {
    fn from(target: &model::Target) -> Self {
        match target {
            model::Target::Service { service, port } => Self::Service {
                service: service.to_string(),
                port: *port,
            },
            model::Target::Backend(key) => Self::Backend {
                backend: key.to_string(),
            },
            model::Target::Invalid { why, reference } => Self::Invalid {
                reference: reference.clone(),
                reason: why.reason().to_owned(),
            },
        }
    }
}

/// Timeouts; the default holds where there is none, and `0s` is never.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// Of the whole exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Of one try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<String>,
}

impl Timeouts {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&model::Timeouts> for Timeouts {
    fn from(timeouts: &model::Timeouts) -> Self {
        Self {
            request: of_timeout(timeouts.request),
            backend_request: of_timeout(timeouts.backend_request),
        }
    }
}

/// Retries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// Extra tries.
    pub attempts: u32,
    /// Status codes that are retried.
    pub codes: Vec<u16>,
    /// Least wait before a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}

impl From<&model::Retry> for Retry {
    fn from(retry: &model::Retry) -> Self {
        Self {
            attempts: retry.attempts,
            codes: retry.codes.iter().map(http::StatusCode::as_u16).collect(),
            backoff: retry.backoff.map(of_duration),
        }
    }
}

/// Session persistence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// Where the token is.
    pub token: SessionToken,
    /// A session ends this long after it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<String>,
    /// A session ends this long after its last request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
}

/// Where a session's token is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum SessionToken {
    /// In a cookie.
    Cookie {
        /// Its name.
        name: String,
        /// `Session` or `Permanent`.
        lifetime: String,
    },
    /// In a header.
    Header {
        /// Its name.
        name: String,
    },
}

impl From<&model::SessionPersistence> for SessionPersistence {
    fn from(session: &model::SessionPersistence) -> Self {
        let token = match &session.token {
            model::SessionToken::Cookie { name, lifetime } => SessionToken::Cookie {
                name: name.clone(),
                lifetime: match lifetime {
                    model::SessionLifetime::Session => "Session",
                    model::SessionLifetime::Permanent => "Permanent",
                }
                .to_owned(),
            },
            model::SessionToken::Header(name) => SessionToken::Header {
                name: name.to_string(),
            },
        };
        Self {
            token,
            absolute_timeout: session.absolute_timeout.map(of_duration),
            idle_timeout: session.idle_timeout.map(of_duration),
        }
    }
}

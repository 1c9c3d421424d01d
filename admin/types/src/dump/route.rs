//! Route rules.

use serde::{Deserialize, Serialize};

use super::{Filters, HttpMatch};

/// A rule of a route object, attached to a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// `Kind/namespace/name/rule/` and the key of the listener.
    pub key: String,
    /// Key of its listener.
    pub listener: String,
    /// `HTTP`, `GRPC`, `TLS`, `TCP` or `UDP`.
    pub protocol: String,
    /// Hostnames; empty for all hosts of the listener.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Precedence among equally specific rules.
    pub order: Order,
    /// Name of the rule, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Matches, one of which has to be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HttpMatch>,
    /// Filters of the rule.
    #[serde(default, skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
    /// Backend references with weights.
    pub backends: Vec<RouteBackend>,
    /// Timeouts of the rule.
    #[serde(default, skip_serializing_if = "Timeouts::is_empty")]
    pub timeouts: Timeouts,
    /// Retries; None for no retries by the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Session persistence; None for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionPersistence>,
}

/// The precedence of Gateway API: the smaller one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Creation time, in seconds since 1970; 0 where unknown.
    pub created: i64,
    /// `namespace/name` of the route object.
    pub object: String,
    /// Index of the rule in the route object, from 0.
    pub rule: u16,
}

/// A backend reference of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteBackend {
    /// The backend that receives the requests.
    pub target: Target,
    /// Weight relative to the other references of the rule.
    pub weight: u32,
    /// Filters for requests to this backend.
    #[serde(default, skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
    /// Session persistence of this backend only; None for none, or for that of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionPersistence>,
}

/// A backend that a rule or filter refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Target {
    /// A port of a service.
    Service {
        /// Key of the service.
        service: String,
        /// Port of the service, as `spec.ports` declares it.
        port: u16,
    },
    /// A `Backend`, InferencePool or XBackend resource.
    Backend {
        /// Key of the backend.
        backend: String,
    },
    /// An invalid reference, whose requests get status 500.
    Invalid {
        /// Reason of the condition `ResolvedRefs`.
        reason: String,
        /// The reference: `kind/namespace/name`, with the port where it has one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reference: String,
    },
}

/// Timeouts; absent ones have their default, and `0s` disables the timeout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// Of the whole request, retries included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Of one attempt: `backendRequest` of Gateway API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<String>,
}

impl Timeouts {
    /// Whether no timeout is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Retries of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// Attempts after the first.
    pub attempts: u32,
    /// Status codes that are retried.
    pub codes: Vec<u16>,
    /// Minimum delay before a retry; None for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}

/// Session persistence: requests of a session go to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// Carrier of the session token.
    pub token: SessionToken,
    /// Lifetime of a session; None for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<String>,
    /// Lifetime of a session after its last request; None for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
}

/// Carrier of a session token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum SessionToken {
    /// A cookie, set by the gateway.
    Cookie {
        /// Name of the cookie.
        name: String,
        /// Paths that a browser sends it to.
        #[serde(default = "every_path")]
        path: String,
        /// How long browsers keep it: `Session` or `Permanent`.
        lifetime: String,
    },
    /// A header, which the client copies from the response.
    Header {
        /// Name of the header.
        name: String,
    },
}

fn every_path() -> String {
    "/".to_owned()
}

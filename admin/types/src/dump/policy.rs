//! Policies.

use serde::{Deserialize, Serialize};
use xds::model::limits::{self, LimitKind};

use super::{Authorization, Jwt, NetworkPolicy, RateLimit};

/// The settings of one policy object for one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Key of the policy and its target.
    pub key: String,
    /// The target of the policy.
    pub target: PolicyTarget,
    /// The settings that the policy object contains.
    pub spec: PolicySpec,
}

/// The target of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum PolicyTarget {
    /// All of a Gateway.
    Gateway {
        /// The Gateway: `namespace/name`.
        gateway: String,
    },
    /// One listener of a Gateway or ListenerSet.
    Listener {
        /// Key of the listener.
        listener: String,
    },
    /// All rules of a route object.
    Route {
        /// The route object: `Kind/namespace/name`.
        route: String,
    },
    /// All listeners of a `ListenerSet`.
    ListenerSet {
        /// The ListenerSet: `namespace/name`.
        listener_set: String,
    },
    /// The rules of one name in a route object.
    Rule {
        /// The route object: `Kind/namespace/name`.
        route: String,
        /// The `name` of the rules.
        rule: String,
    },
    /// A Service; for backend settings.
    Service {
        /// Key of the service: `Service/namespace/name`.
        service: String,
    },
    /// A `Backend`; for backend settings.
    Backend {
        /// Key of the backend: `Backend/namespace/name`.
        backend: String,
    },
}

/// The settings of a policy; absent fields are inherited from the next wider target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySpec {
    /// Whether and how requests are logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLog>,
    /// Limits and timeouts that the policy overrides.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Sources of trusted forwarding headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// PROXY protocol from clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Normalisation of request paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_options: Option<PathOptions>,
    /// Limit of retries to a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// Limit of the rate of retries to a service, in the place of `retryBudget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_constraint: Option<RetryConstraint>,
    /// Outlier ejection of endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// Tokens that requests must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// Rules on requests and claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// Networks of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<NetworkPolicy>,
    /// How many requests pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Fingerprint of the Gateway's client certificate for backends that request one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// `Overrides` if nearer targets can only tighten these settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precedence: Option<String>,
    /// Whether every request of the target is refused (`policy_invalid`), because restrictions of the
    /// policy cannot be enforced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invalid: bool,
    /// Whether connections and datagrams are refused too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invalid_for_connections: bool,
    /// Further places of tokens that logs and traces hide, of a version of the policy that was
    /// rejected: `header:name`, `query:name` or `cookie:name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// Settings of the access log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// Whether the access log is off.
    pub off: bool,
    /// Format of the lines: `text` or `json`.
    pub format: String,
    /// Fraction of requests to log, from 0 to 1.
    pub sample: f64,
    /// Conditions on requests to log.
    #[serde(default)]
    pub filter: AccessLogFilter,
}

/// Conditions on requests to log; one has to hold, unless none is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLogFilter {
    /// Logs responses with this status code or a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_at_least: Option<u16>,
    /// Logs requests that took at least this long, such as `500ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_at_least: Option<String>,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        /// Overrides of limits; absent fields have the default, and `0s` disables a timeout.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct Limits {
            $($(#[$doc])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<<limits::$kind as LimitKind>::Written>,)*
        }
    };
}

xds::limits_table!(limits);

impl Limits {
    /// Whether no limit is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Sources of trusted forwarding headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// Number of trusted hops in front of the gateway.
    TrustedHops(u32),
    /// Peers in these networks.
    TrustedSources(Vec<String>),
}

/// PROXY protocol from clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// `Off`, `Optional` or `Required`.
    pub mode: String,
    /// Networks that may send the header; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted_sources: Vec<String>,
}

/// Normalisation of request paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathOptions {
    /// Whether `//` is replaced by `/`.
    pub merge_slashes: bool,
    /// `Keep` or `Reject`: how `%2F` is handled.
    pub escaped_slash: String,
}

/// Limit of retries to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryBudget {
    /// Retries in flight, in percent of the requests in flight.
    pub percent: u32,
    /// Retries that are always allowed.
    pub floor: u32,
}

/// Limit of the rate of retries to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryConstraint {
    /// Retries, in percent of the requests and retries of an interval.
    pub percent: u32,
    /// Length of the interval, such as `10s`.
    pub interval: String,
    /// Retries that are always allowed in `minInterval`.
    pub min_count: u32,
    /// Interval of the least rate.
    pub min_interval: String,
}

/// Outlier ejection of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ejection {
    /// Consecutive failures that eject an endpoint.
    pub consecutive_failures: u32,
    /// Duration of the first ejection.
    pub base: String,
    /// Longest ejection, to which repeated ones grow.
    pub max: String,
    /// Most endpoints ejected at once, in percent of the service's.
    pub max_percent: u32,
}

//! Policies and their targets.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{
    ApiKeyPolicy, AuthorizationPolicy, BackendKey, Balance, BasicAuthPolicy, Certificate,
    ErrorPage, HealthCheck, HealthPath, JwtPolicy, JwtSource, Limits, ListenerKey, NetworkPolicy,
    ObjectName, PathRewrite, PolicyKey, RateLimitPolicy, RespondPolicy, ServiceKey, SessionKeys,
    Target, json, jwt,
};

/// The settings of one policy object for one target. Conflicts are already resolved: of two
/// policies with the same target, at most one has a given field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Key of object and target.
    pub key: PolicyKey,
    /// The target of the policy.
    pub target: PolicyTarget,
    /// The settings, without those that lost a conflict.
    pub spec: PolicySpec,
}

/// The target of a policy. The most specific one wins, per field: rule, route, listener,
/// ListenerSet, Gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyTarget {
    /// All of a Gateway.
    Gateway(ObjectName),
    /// All listeners of a ListenerSet.
    ListenerSet(ObjectName),
    /// One listener of a Gateway or ListenerSet.
    Listener(ListenerKey),
    /// All rules of a route object.
    Route {
        /// Kind of the route object.
        kind: String,
        /// Name of the route object.
        object: ObjectName,
    },
    /// The rules of this name in a route object.
    Rule {
        /// Kind of the route object.
        kind: String,
        /// Name of the route object.
        object: ObjectName,
        /// The `name` of the rules.
        rule: String,
    },
    /// A Service; for backend settings.
    Service(ServiceKey),
    /// A `Backend`; for backend settings.
    Backend(BackendKey),
}

impl Serialize for PolicyTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut target = |kind: &str, name: &str, key: &dyn fmt::Display| {
            map.serialize_entry("type", kind)?;
            map.serialize_entry(name, &key.to_string())
        };
        match self {
            Self::Gateway(name) => target("Gateway", "gateway", name)?,
            Self::ListenerSet(name) => target("ListenerSet", "listenerSet", name)?,
            Self::Listener(key) => target("Listener", "listener", key)?,
            Self::Route { kind, object } => {
                target("Route", "route", &format_args!("{kind}/{object}"))?;
            }
            Self::Rule { kind, object, rule } => {
                target("Rule", "route", &format_args!("{kind}/{object}"))?;
                map.serialize_entry("rule", rule)?;
            }
            Self::Service(key) => target("Service", "service", key)?,
            Self::Backend(key) => target("Backend", "backend", key)?,
        }
        map.end()
    }
}

/// The settings of a policy. A field that is `None` is inherited from the next wider target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Whether and how requests are logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLog>,
    /// Limits and timeouts, each inherited separately.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Sources of trusted `X-Forwarded-*` headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// PROXY protocol from clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocolIn>,
    /// Normalisation of request paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_options: Option<PathOptions>,
    /// Where load balancers ask whether a proxy takes requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_path: Option<HealthPath>,
    /// Limit of retries to a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// Limit of the rate of retries to a service, in the place of `retry_budget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_constraint: Option<RetryConstraint>,
    /// Outlier ejection of endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// What endpoints are asked, to find out whether they can serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// How requests are spread over endpoints.
    #[serde(skip_serializing_if = "Balance::is_empty")]
    pub balance: Balance,
    /// Tokens that requests must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtPolicy>,
    /// Passwords that requests must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuthPolicy>,
    /// API keys that requests must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeyPolicy>,
    /// Whether a request needs a credential of each kind that the policy has, instead of one of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_all: bool,
    /// Rules on requests and claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationPolicy>,
    /// The networks of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<NetworkPolicy>,
    /// How many requests pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitPolicy>,
    /// The answer of the gateway itself, in the place of backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respond: Option<RespondPolicy>,
    /// Pages in the place of the contents of errors; the first one that is for an error applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_pages: Option<Vec<ErrorPage>>,
    /// How paths are rewritten for backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rewrite: Option<PathRewrite>,
    /// The client certificate of a Gateway for backends that request one (`spec.tls.backend`), or for
    /// one backend. Two Gateways share connections to a backend only if it is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<Certificate>,
    /// The keys of a Gateway that authenticate session tokens. A proxy without any makes one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_keys: Option<SessionKeys>,
    /// Whether its settings take precedence over those of nearer targets.
    #[serde(skip_serializing_if = "Precedence::is_default")]
    pub precedence: Precedence,
    /// Whether the policy restricts access in a way that cannot be enforced, because it is invalid or
    /// its target is not identified: every request of the target is refused, whatever a policy of a
    /// nearer target says. Such a policy has no other restriction.
    #[serde(rename = "invalid", skip_serializing_if = "std::ops::Not::not")]
    pub is_invalid: bool,
    /// Whether connections and datagrams are refused too, in an invalid policy: it has `networks`, or a field
    /// that may be a newer way to restrict them.
    #[serde(
        rename = "invalidForConnections",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub closes_connections: bool,
    /// Where requests may carry tokens besides the places that `jwt` names, so that logs and traces
    /// hide them: those of a version of the policy that was rejected. The name [`JwtSource::ANY_NAME`] stands
    /// for all.
    #[serde(serialize_with = "json::texts", skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<JwtSource>,
}

impl PolicySpec {
    /// Whether limits of nearer targets stay within its own.
    #[must_use]
    pub fn bounds_limits(&self) -> bool {
        self.precedence == Precedence::Overrides && !self.limits.is_empty()
    }

    /// The page servers of its error pages.
    pub fn page_servers(&self) -> impl Iterator<Item = &Target> {
        let pages = self.error_pages.iter().flatten();
        pages.filter_map(ErrorPage::server)
    }

    /// The backends that its settings name.
    pub fn named_backends(&self) -> impl Iterator<Item = &Target> {
        let keys = self.jwt.iter().flat_map(JwtPolicy::targets);
        keys.chain(self.page_servers())
    }

    /// Whether it says how clients authenticate themselves. The settings about that belong together: they are
    /// those of one policy.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.jwt.is_some() || self.basic_auth.is_some() || self.api_keys.is_some()
    }

    /// Where requests carry credentials, according to it.
    pub fn credential_sources(&self) -> impl Iterator<Item = &JwtSource> {
        let providers = self.jwt.iter().flat_map(|jwt| &jwt.providers);
        let tokens = providers.flat_map(|provider| &provider.from);
        tokens.chain(self.api_keys.iter().flat_map(|keys| &keys.from))
    }

    /// The settings that refuse every request, in the place of these: nothing but where tokens are, for
    /// logs. They are small, since they may be needed for each of thousands of targets.
    #[must_use]
    pub fn refusing_all(&self) -> Self {
        let read = self.credential_sources();
        Self {
            is_invalid: true,
            precedence: self.precedence,
            closes_connections: self.closes_connections || self.networks.is_some(),
            hidden: jwt::hidden(read.chain(&self.hidden)),
            ..Self::default()
        }
    }
}

/// Which of two policies wins, where they set the same field at different targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Precedence {
    /// That of the nearer target.
    #[default]
    Defaults,
    /// This one: nearer targets can only tighten what it sets. `authorization`, `networks` and `rate_limit`
    /// hold in addition to theirs, so does `respond` for requests that it excepts, limits are bounds, and everything
    /// else replaces theirs.
    Overrides,
}

impl Precedence {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::Defaults
    }
}

/// The access log of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessLog {
    /// Turns the access log off.
    pub off: bool,
    /// Format of a line.
    pub format: LogFormat,
    /// Fraction of requests to log, per million.
    #[serde(rename = "sample", serialize_with = "json::per_million")]
    pub sample_per_million: u32,
    /// Conditions on requests to log.
    pub filter: AccessLogFilter,
}

/// Format of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line of text per request, for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Conditions on requests to log: one has to hold, unless none is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogFilter {
    /// Logs responses with this status code or a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_at_least: Option<u16>,
    /// Logs requests that took at least this long.
    #[serde(
        serialize_with = "json::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_at_least: Option<Duration>,
}

/// Sources of trusted `X-Forwarded-*` headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Trust {
    /// The number of trusted hops in front of the gateway, whatever their addresses.
    #[serde(rename = "trustedHops")]
    Hops(NonZeroU32),
    /// Peers in these networks: address and prefix length.
    #[serde(rename = "trustedSources", serialize_with = "json::networks")]
    Sources(Vec<(IpAddr, u8)>),
}

/// PROXY protocol from clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocolIn {
    /// Whether the header is expected.
    pub mode: ProxyProtocolMode,
    /// Networks that may send the header; empty means all.
    #[serde(
        serialize_with = "json::networks",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub trusted_sources: Vec<(IpAddr, u8)>,
}

/// Whether a PROXY protocol header is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ProxyProtocolMode {
    /// No header is read.
    Off,
    /// A header is read if present.
    Optional,
    /// A connection without a header is closed.
    Required,
}

/// Path normalisation beyond the fixed rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathOptions {
    /// Replaces `//` by `/`.
    pub merge_slashes: bool,
    /// How `%2F` is handled.
    pub escaped_slash: EscapedSlash,
}

/// How `%2F` in a path is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum EscapedSlash {
    /// It stays as it is, never equal to `/`.
    Keep,
    /// The request is rejected with 400.
    Reject,
}

/// Limit of retries to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RetryBudget {
    /// Retries in flight, in percent of the requests in flight.
    pub percent: u32,
    /// Retries in flight that are always allowed.
    pub floor: u32,
}

/// Limit of the rate of retries to a service (GEP-3388). A retry that exceeds both is not made, and
/// the client receives 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RetryConstraint {
    /// Retries, in percent of the requests and retries of an interval.
    pub percent: u32,
    /// How far back requests and retries are counted.
    #[serde(serialize_with = "json::duration")]
    pub interval: Duration,
    /// The rate of retries that is always allowed.
    #[serde(flatten)]
    pub min_rate: RetryRate,
}

/// A rate of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RetryRate {
    /// Retries in the interval.
    #[serde(rename = "minCount")]
    pub count: NonZeroU32,
    /// Length of the interval.
    #[serde(rename = "minInterval", serialize_with = "json::duration")]
    pub interval: Duration,
}

/// Outlier ejection: when an endpoint receives no requests for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ejection {
    /// Consecutive failures that eject an endpoint.
    pub consecutive_failures: NonZeroU32,
    /// Duration of the first ejection; the n-th lasts n times as long.
    #[serde(serialize_with = "json::duration")]
    pub base: Duration,
    /// Longest ejection, however often it is repeated.
    #[serde(serialize_with = "json::duration")]
    pub max: Duration,
    /// Most endpoints ejected at once, in percent of the service's.
    pub max_percent: u32,
}

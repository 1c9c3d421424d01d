//! Policies.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};
use xds::model;

use super::jwt::source;
use super::tls::fingerprint;
use super::{Authorization, Jwt};
use crate::text::{of_duration, of_timeout};

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

impl From<&model::Policy> for Policy {
    fn from(policy: &model::Policy) -> Self {
        Self {
            key: policy.key.to_string(),
            target: (&policy.target).into(),
            spec: (&policy.spec).into(),
        }
    }
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

impl From<&model::PolicyTarget> for PolicyTarget {
    fn from(target: &model::PolicyTarget) -> Self {
        match target {
            model::PolicyTarget::Gateway(name) => Self::Gateway {
                gateway: name.to_string(),
            },
            model::PolicyTarget::ListenerSet(name) => Self::ListenerSet {
                listener_set: name.to_string(),
            },
            model::PolicyTarget::Listener(key) => Self::Listener {
                listener: key.to_string(),
            },
            model::PolicyTarget::Route { kind, object } => Self::Route {
                route: format!("{kind}/{object}"),
            },
            model::PolicyTarget::Rule { kind, object, rule } => Self::Rule {
                route: format!("{kind}/{object}"),
                rule: rule.clone(),
            },
            model::PolicyTarget::Service(key) => Self::Service {
                service: key.to_string(),
            },
            model::PolicyTarget::Backend(key) => Self::Backend {
                backend: key.to_string(),
            },
        }
    }
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
    /// Fingerprint of the Gateway's client certificate for backends that request one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// Whether every request of the target is refused (`policy_invalid`), because restrictions of the
    /// policy cannot be enforced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invalid: bool,
    /// Further places of tokens that logs and traces hide, of a version of the policy that was
    /// rejected: `header:name`, `query:name` or `cookie:name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

impl From<&model::PolicySpec> for PolicySpec {
    fn from(spec: &model::PolicySpec) -> Self {
        Self {
            access_log: spec.access_log.as_ref().map(Into::into),
            limits: (&spec.limits).into(),
            trust: spec.trust.as_ref().map(Into::into),
            proxy_protocol: spec.proxy_protocol.as_ref().map(Into::into),
            path_options: spec.path_options.map(Into::into),
            retry_budget: spec.retry_budget.map(Into::into),
            retry_constraint: spec.retry_constraint.map(Into::into),
            ejection: spec.ejection.map(Into::into),
            jwt: spec.jwt.as_ref().map(Into::into),
            authorization: spec.authorization.as_ref().map(Into::into),
            client_certificate: spec.client_certificate.as_ref().and_then(fingerprint),
            invalid: spec.is_invalid,
            hidden: spec.hidden.iter().map(source).collect(),
        }
    }
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

impl From<&model::AccessLog> for AccessLog {
    fn from(log: &model::AccessLog) -> Self {
        Self {
            off: log.off,
            format: match log.format {
                model::LogFormat::Text => "text",
                model::LogFormat::Json => "json",
            }
            .to_owned(),
            sample: f64::from(log.sample_per_million) / 1e6,
            filter: AccessLogFilter {
                status_at_least: log.filter.status_at_least,
                duration_at_least: log.filter.duration_at_least.map(of_duration),
            },
        }
    }
}

/// Overrides of limits; absent fields have the default, and `0s` disables a timeout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Longest request line in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_line_bytes: Option<u32>,
    /// Largest request head in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_bytes: Option<u32>,
    /// Most header fields in a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_fields: Option<u32>,
    /// Largest response head in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_head_bytes: Option<u32>,
    /// Most header fields in a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_fields: Option<u32>,
    /// Largest request body in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body_bytes: Option<u64>,
    /// Timeout for a request's head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_timeout: Option<String>,
    /// Idle timeout of a request's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_idle_timeout: Option<String>,
    /// Least rate of a request's body in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_min_rate: Option<u32>,
    /// Idle timeout of a response or tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_idle_timeout: Option<String>,
    /// Timeout for a client that does not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_idle_timeout: Option<String>,
    /// Idle timeout between requests on a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_timeout: Option<String>,
    /// Timeout for a response to a client that has closed its sending side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_close_timeout: Option<String>,
    /// Most requests on a connection; 0 for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Maximum age of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_age: Option<String>,
    /// Timeout for connecting to a backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<String>,
    /// Timeout from the last request byte sent to the response head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_head_timeout: Option<String>,
    /// Timeout for a client's TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<String>,
    /// Idle timeout of a UDP session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram_idle_timeout: Option<String>,
    /// Most concurrent streams of an HTTP/2 client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_streams: Option<u32>,
    /// HTTP/2 flow-control window of a client's stream, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_stream_window_bytes: Option<u32>,
    /// HTTP/2 flow-control window of a client's connection, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_connection_window_bytes: Option<u32>,
    /// Most connections to one service, over all shards; a shard's share is rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_connections: Option<u32>,
    /// Most requests that wait for a connection, over all shards; a shard's share is rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_pending: Option<u32>,
}

impl Limits {
    /// Whether no limit is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&model::Limits> for Limits {
    fn from(limits: &model::Limits) -> Self {
        Self {
            request_line_bytes: limits.request_line_bytes.map(NonZeroU32::get),
            head_bytes: limits.head_bytes.map(NonZeroU32::get),
            header_fields: limits.header_fields.map(NonZeroU32::get),
            response_head_bytes: limits.response_head_bytes.map(NonZeroU32::get),
            response_header_fields: limits.response_header_fields.map(NonZeroU32::get),
            request_body_bytes: limits.request_body_bytes.map(NonZeroU64::get),
            head_timeout: limits.head_timeout.and_then(of_timeout),
            body_idle_timeout: limits.body_idle_timeout.and_then(of_timeout),
            body_min_rate: limits.body_min_rate,
            stream_idle_timeout: limits.stream_idle_timeout.and_then(of_timeout),
            write_idle_timeout: limits.write_idle_timeout.and_then(of_timeout),
            keep_alive_timeout: limits.keep_alive_timeout.and_then(of_timeout),
            half_close_timeout: limits.half_close_timeout.and_then(of_timeout),
            requests_per_connection: limits.requests_per_connection,
            connection_age: limits.connection_age.and_then(of_timeout),
            connect_timeout: limits.connect_timeout.and_then(of_timeout),
            response_head_timeout: limits.response_head_timeout.and_then(of_timeout),
            handshake_timeout: limits.handshake_timeout.and_then(of_timeout),
            datagram_idle_timeout: limits.datagram_idle_timeout.and_then(of_timeout),
            http2_streams: limits.http2_streams.map(NonZeroU32::get),
            http2_stream_window_bytes: limits.http2_stream_window_bytes.map(NonZeroU32::get),
            http2_connection_window_bytes: limits
                .http2_connection_window_bytes
                .map(NonZeroU32::get),
            upstream_connections: limits.upstream_connections.map(NonZeroU32::get),
            upstream_pending: limits.upstream_pending.map(NonZeroU32::get),
        }
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

impl From<&model::Trust> for Trust {
    fn from(trust: &model::Trust) -> Self {
        match trust {
            model::Trust::Hops(hops) => Self::TrustedHops(hops.get()),
            model::Trust::Sources(networks) => Self::TrustedSources(texts(networks)),
        }
    }
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

impl From<&model::ProxyProtocolIn> for ProxyProtocol {
    fn from(proxy: &model::ProxyProtocolIn) -> Self {
        Self {
            mode: match proxy.mode {
                model::ProxyProtocolMode::Off => "Off",
                model::ProxyProtocolMode::Optional => "Optional",
                model::ProxyProtocolMode::Required => "Required",
            }
            .to_owned(),
            trusted_sources: texts(&proxy.trusted_sources),
        }
    }
}

fn texts(networks: &[(IpAddr, u8)]) -> Vec<String> {
    let text = |(address, length): &(IpAddr, u8)| format!("{address}/{length}");
    networks.iter().map(text).collect()
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

impl From<model::PathOptions> for PathOptions {
    fn from(options: model::PathOptions) -> Self {
        Self {
            merge_slashes: options.merge_slashes,
            escaped_slash: match options.escaped_slash {
                model::EscapedSlash::Keep => "Keep",
                model::EscapedSlash::Reject => "Reject",
            }
            .to_owned(),
        }
    }
}

/// Limit of retries to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryBudget {
    /// Retries in flight, in percent of the requests in flight.
    pub percent: u32,
    /// Retries that are always allowed.
    pub floor: u32,
}

impl From<model::RetryBudget> for RetryBudget {
    fn from(budget: model::RetryBudget) -> Self {
        Self {
            percent: budget.percent,
            floor: budget.floor,
        }
    }
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

impl From<model::RetryConstraint> for RetryConstraint {
    fn from(constraint: model::RetryConstraint) -> Self {
        Self {
            percent: constraint.percent,
            interval: of_duration(constraint.interval),
            min_count: constraint.min_rate.count.get(),
            min_interval: of_duration(constraint.min_rate.interval),
        }
    }
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

impl From<model::Ejection> for Ejection {
    fn from(ejection: model::Ejection) -> Self {
        Self {
            consecutive_failures: ejection.consecutive_failures.get(),
            base: of_duration(ejection.base),
            max: of_duration(ejection.max),
            max_percent: ejection.max_percent,
        }
    }
}

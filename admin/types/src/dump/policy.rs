//! Policies.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};
use xds::model;

use super::tls::fingerprint;
use super::{Authorization, Jwt};
use crate::text::{of_duration, of_timeout};

/// What one policy object says of one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Its key.
    pub key: String,
    /// What it aims at.
    pub target: PolicyTarget,
    /// What it says.
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

/// What a policy aims at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum PolicyTarget {
    /// All of a Gateway.
    Gateway {
        /// `namespace/name`.
        gateway: String,
    },
    /// One listener.
    Listener {
        /// Its key.
        listener: String,
    },
    /// All rules of a route object.
    Route {
        /// `Kind/namespace/name`.
        route: String,
    },
    /// All listeners of a `ListenerSet`.
    ListenerSet {
        /// `namespace/name`.
        listener_set: String,
    },
    /// The rules of one name in a route object.
    Rule {
        /// `Kind/namespace/name`.
        route: String,
        /// The rule's name.
        rule: String,
    },
    /// A service.
    Service {
        /// Its key.
        service: String,
    },
    /// A backend.
    Backend {
        /// Its key.
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

/// What a policy says; what is absent is left to the next wider target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySpec {
    /// The access log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLog>,
    /// Limits and timeouts.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Whose forwarding headers are believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// PROXY protocol from clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How paths are normalised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_options: Option<PathOptions>,
    /// How many retries a service bears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// When an endpoint is put aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// Tokens that requests must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// Which requests are let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// Fingerprint of what a Gateway shows to backends that ask for a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
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
            ejection: spec.ejection.map(Into::into),
            jwt: spec.jwt.as_ref().map(Into::into),
            authorization: spec.authorization.as_ref().map(Into::into),
            client_certificate: spec.client_certificate.as_ref().and_then(fingerprint),
        }
    }
}

/// An access log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// Off altogether.
    pub off: bool,
    /// `text` or `json`.
    pub format: String,
    /// Share of the requests that are logged, from 0 to 1.
    pub sample: f64,
    /// Which requests are logged.
    #[serde(default)]
    pub filter: AccessLogFilter,
}

/// Which requests are logged: those that reach any bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLogFilter {
    /// This status or a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_at_least: Option<u16>,
    /// This long or longer.
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

/// Overrides of limits; the default holds where there is none, and a timeout of `0s` is never.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Longest request line in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_line_bytes: Option<u32>,
    /// Largest head in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_bytes: Option<u32>,
    /// Most header fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_fields: Option<u32>,
    /// Largest request body in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body_bytes: Option<u64>,
    /// Time for a request's head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_timeout: Option<String>,
    /// Time between bytes of a request's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_idle_timeout: Option<String>,
    /// Least rate of a request's body in bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_min_rate: Option<u32>,
    /// Time between bytes of a response or tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_idle_timeout: Option<String>,
    /// Time a client may refuse to take bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_idle_timeout: Option<String>,
    /// Time between requests of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_timeout: Option<String>,
    /// Requests of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Age of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_age: Option<String>,
    /// Time to connect to a backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<String>,
    /// Time from the last request byte sent to the response's head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_head_timeout: Option<String>,
    /// Time for a client's TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<String>,
    /// Time without a datagram of a UDP session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram_idle_timeout: Option<String>,
    /// Streams that an HTTP/2 client may have open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_streams: Option<u32>,
    /// Bytes that an HTTP/2 client may send on a stream before they were sent on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_stream_window_bytes: Option<u32>,
    /// Bytes that an HTTP/2 client may send on its connection before they were sent on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_connection_window_bytes: Option<u32>,
    /// Connections to one service, over all shards; a shard's share is rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_connections: Option<u32>,
    /// Requests that wait for one, over all shards; a shard's share is rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_pending: Option<u32>,
}

impl Limits {
    /// Whether there are none.
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
            request_body_bytes: limits.request_body_bytes.map(NonZeroU64::get),
            head_timeout: limits.head_timeout.and_then(of_timeout),
            body_idle_timeout: limits.body_idle_timeout.and_then(of_timeout),
            body_min_rate: limits.body_min_rate,
            stream_idle_timeout: limits.stream_idle_timeout.and_then(of_timeout),
            write_idle_timeout: limits.write_idle_timeout.and_then(of_timeout),
            keep_alive_timeout: limits.keep_alive_timeout.and_then(of_timeout),
            requests_per_connection: limits.requests_per_connection.map(NonZeroU64::get),
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

/// Whose forwarding headers are believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// The last so many hops.
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
    /// Networks it is believed from; everyone where there are none.
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

/// How paths are normalised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathOptions {
    /// Whether `//` becomes `/`.
    pub merge_slashes: bool,
    /// `Keep` or `Reject`.
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

/// How many retries a service bears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryBudget {
    /// In percent of the requests in flight.
    pub percent: u32,
    /// That are always allowed.
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

/// When an endpoint is put aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ejection {
    /// After so many failures in a row.
    pub consecutive_failures: u32,
    /// For how long the first time.
    pub base: String,
    /// For how long at most.
    pub max: String,
    /// Most endpoints at once, in percent of the service's.
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

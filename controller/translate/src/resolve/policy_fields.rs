//! The fields of a traffic policy, one entry each: name, allowed targets, and how to detect and
//! remove it. Conflicts are resolved field by field, so nothing else lists them.

use xds::model::{PolicySpec, PolicyTarget, Trust};

/// One field of a policy.
pub(crate) struct Field {
    /// Name as written after `spec.`; see [`Field::path`].
    pub(crate) name: &'static str,
    pub(crate) reach: FieldScope,
    pub(crate) is_set: fn(&PolicySpec) -> bool,
    pub(crate) clear: fn(&mut PolicySpec),
}

impl Field {
    /// Its path in this policy. Trust is one field with two names.
    pub(crate) fn path(&self, spec: &PolicySpec) -> String {
        let name = match &spec.trust {
            Some(Trust::Sources(_)) if self.name == TRUST => "trustedSources",
            _ => self.name,
        };
        format!("spec.{name}")
    }
}

/// The targets that a field applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldScope {
    /// Settings needed before there is a request: Gateways and listeners.
    Connection,
    /// Gateways, listeners, routes and rules.
    Request,
    /// Gateways, and destinations of requests.
    Upstream,
    Any,
}

impl FieldScope {
    pub(crate) fn holds(self, target: &PolicyTarget) -> bool {
        match target {
            PolicyTarget::Gateway(_) => true,
            PolicyTarget::ListenerSet(_) | PolicyTarget::Listener(_) => self != Self::Upstream,
            PolicyTarget::Route { .. } | PolicyTarget::Rule { .. } => {
                matches!(self, Self::Request | Self::Any)
            }
            PolicyTarget::Service(_) | PolicyTarget::Backend(_) => {
                matches!(self, Self::Upstream | Self::Any)
            }
        }
    }

    /// The allowed targets, for messages.
    pub(crate) fn targets(self) -> &'static str {
        match self {
            Self::Connection => "a Gateway or one of its listeners",
            Self::Request => "a Gateway, a listener, a route or a rule",
            Self::Upstream => "a Gateway, a Service or a Backend",
            Self::Any => "any target",
        }
    }
}

/// The fields whose loss would allow requests.
pub(crate) const RESTRICTIONS: [&str; 2] = [JWT, AUTHORIZATION];
const JWT: &str = "jwt";
const AUTHORIZATION: &str = "authorization";
/// The first name of trust.
const TRUST: &str = "trustedHops";

macro_rules! fields {
    ($($name:tt $reach:ident: $($path:ident).+;)*) => {
        &[$(Field {
            name: $name,
            reach: FieldScope::$reach,
            is_set: |spec| spec.$($path).+.is_some(),
            clear: |spec| spec.$($path).+ = None,
        }),*]
    };
}

pub(crate) const FIELDS: &[Field] = fields! {
    "accessLog" Request: access_log;
    JWT Request: jwt;
    AUTHORIZATION Request: authorization;
    TRUST Connection: trust;
    "proxyProtocol" Connection: proxy_protocol;
    "pathOptions" Connection: path_options;
    "retryBudget" Upstream: retry_budget;
    "ejection" Upstream: ejection;
    "limits.requestLineBytes" Connection: limits.request_line_bytes;
    "limits.headBytes" Connection: limits.head_bytes;
    "limits.headerFields" Connection: limits.header_fields;
    "limits.headTimeout" Connection: limits.head_timeout;
    "limits.handshakeTimeout" Connection: limits.handshake_timeout;
    "limits.keepAliveTimeout" Connection: limits.keep_alive_timeout;
    "limits.requestsPerConnection" Connection: limits.requests_per_connection;
    "limits.connectionAge" Connection: limits.connection_age;
    "limits.http2Streams" Connection: limits.http2_streams;
    "limits.http2StreamWindowBytes" Connection: limits.http2_stream_window_bytes;
    "limits.http2ConnectionWindowBytes" Connection: limits.http2_connection_window_bytes;
    "limits.requestBodyBytes" Request: limits.request_body_bytes;
    "limits.bodyIdleTimeout" Request: limits.body_idle_timeout;
    "limits.bodyMinRate" Request: limits.body_min_rate;
    "limits.streamIdleTimeout" Request: limits.stream_idle_timeout;
    "limits.datagramIdleTimeout" Request: limits.datagram_idle_timeout;
    "limits.writeIdleTimeout" Request: limits.write_idle_timeout;
    "limits.connectTimeout" Any: limits.connect_timeout;
    "limits.responseHeadTimeout" Any: limits.response_head_timeout;
    "limits.upstreamConnections" Upstream: limits.upstream_connections;
    "limits.upstreamPending" Upstream: limits.upstream_pending;
};

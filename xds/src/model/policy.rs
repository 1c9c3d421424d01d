//! Policies and what they aim at.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::{
    AuthorizationPolicy, BackendKey, Certificate, JwtPolicy, ListenerKey, ObjectName, PolicyKey,
    ServiceKey, Timeout,
};

/// What one policy object says of one target. Conflicts are settled before: of two policies of one
/// target, at most one has a given field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its key.
    pub key: PolicyKey,
    /// What it aims at.
    pub target: PolicyTarget,
    /// What it says.
    pub spec: PolicySpec,
}

/// What a policy aims at. Nearer ones win, per field: rule, route, listener, ListenerSet, Gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyTarget {
    /// All of a Gateway.
    Gateway(ObjectName),
    /// All listeners of a ListenerSet.
    ListenerSet(ObjectName),
    /// One listener.
    Listener(ListenerKey),
    /// All rules of a route object.
    Route {
        /// Its kind.
        kind: String,
        /// Its name.
        object: ObjectName,
    },
    /// The rules of this name in a route object.
    Rule {
        /// The object's kind.
        kind: String,
        /// The object's name.
        object: ObjectName,
        /// The rule's name.
        rule: String,
    },
    /// A service.
    Service(ServiceKey),
    /// A backend.
    Backend(BackendKey),
}

/// What a policy can say. What is `None` is left to the next wider target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySpec {
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// Limits and timeouts, each on its own.
    pub limits: Limits,
    /// Whose forwarding headers are believed.
    pub trust: Option<Trust>,
    /// PROXY protocol from clients.
    pub proxy_protocol: Option<ProxyProtocolIn>,
    /// How paths are normalised.
    pub path_options: Option<PathOptions>,
    /// How many retries a service bears.
    pub retry_budget: Option<RetryBudget>,
    /// When an endpoint is put aside.
    pub ejection: Option<Ejection>,
    /// Tokens that requests must carry.
    pub jwt: Option<JwtPolicy>,
    /// Which requests are let through.
    pub authorization: Option<AuthorizationPolicy>,
    /// What a Gateway shows to backends that ask for a certificate (`spec.tls.backend`). Two
    /// Gateways never share a connection to a backend unless it is the same.
    pub client_certificate: Option<Certificate>,
}

/// The access log of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// Off altogether.
    pub off: bool,
    /// Text or JSON.
    pub format: LogFormat,
    /// Share of the requests that are logged, in millionths.
    pub sample_per_million: u32,
    /// Which requests are logged.
    pub filter: AccessLogFilter,
}

/// Form of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line to read.
    Text,
    /// A line of JSON.
    Json,
}

/// Which requests are logged: those that reach any bound given; all where none is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessLogFilter {
    /// This status or a higher one.
    pub status_at_least: Option<u16>,
    /// This long or longer.
    pub duration_at_least: Option<Duration>,
}

/// Overrides of the limits table; `None` leaves the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line in bytes.
    pub request_line_bytes: Option<NonZeroU32>,
    /// Largest head in bytes.
    pub head_bytes: Option<NonZeroU32>,
    /// Most header fields.
    pub header_fields: Option<NonZeroU32>,
    /// Largest request body in bytes.
    pub request_body_bytes: Option<NonZeroU64>,
    /// Time for a request's head.
    pub head_timeout: Option<Timeout>,
    /// Time between bytes of a request's body.
    pub body_idle_timeout: Option<Timeout>,
    /// Least rate of a request's body in bytes a second; 0 means none.
    pub body_min_rate: Option<u32>,
    /// Time between bytes of a response or tunnel.
    pub stream_idle_timeout: Option<Timeout>,
    /// Time a client may refuse to take bytes.
    pub write_idle_timeout: Option<Timeout>,
    /// Time between requests of a connection.
    pub keep_alive_timeout: Option<Timeout>,
    /// Requests of a connection.
    pub requests_per_connection: Option<NonZeroU64>,
    /// Age of a connection.
    pub connection_age: Option<Timeout>,
    /// Time to connect to a backend.
    pub connect_timeout: Option<Timeout>,
    /// Time from the last request byte sent to the response head.
    pub response_head_timeout: Option<Timeout>,
    /// Time for a client's TLS handshake, and for a PROXY protocol header before it.
    pub handshake_timeout: Option<Timeout>,
    /// Time without a datagram of a UDP session.
    pub datagram_idle_timeout: Option<Timeout>,
    /// Streams that an HTTP/2 client may have open.
    pub http2_streams: Option<NonZeroU32>,
    /// Bytes that an HTTP/2 client may send on a stream before they were sent on.
    pub http2_stream_window_bytes: Option<NonZeroU32>,
    /// Bytes that an HTTP/2 client may send on its connection before they were sent on.
    pub http2_connection_window_bytes: Option<NonZeroU32>,
    /// Connections to one service, over all shards.
    pub upstream_connections: Option<NonZeroU32>,
    /// Requests that wait for a connection to one service, over all shards.
    pub upstream_pending: Option<NonZeroU32>,
}

/// Whose `X-Forwarded-*` is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The last so many hops, whoever they are.
    Hops(NonZeroU32),
    /// Peers in these networks: address and prefix length.
    Sources(Vec<(IpAddr, u8)>),
}

/// PROXY protocol from clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyProtocolIn {
    /// Whether it is read.
    pub mode: ProxyProtocolMode,
    /// Networks it is believed from; empty means everyone.
    pub trusted_sources: Vec<(IpAddr, u8)>,
}

/// Whether a PROXY protocol header is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocolMode {
    /// Never.
    Off,
    /// Where there is one.
    Optional,
    /// Always; a connection without one is closed.
    Required,
}

/// How paths are normalised, beyond what is always done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathOptions {
    /// `//` becomes `/`.
    pub merge_slashes: bool,
    /// What becomes of `%2F`.
    pub escaped_slash: EscapedSlash,
}

/// What becomes of `%2F` in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapedSlash {
    /// Stays as it is, never equal to `/`.
    Keep,
    /// 400.
    Reject,
}

/// How many retries a service bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries in flight, in percent of the requests in flight.
    pub percent: u32,
    /// Retries in flight that are always allowed.
    pub floor: u32,
}

/// When an endpoint is put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Failures in a row.
    pub consecutive_failures: NonZeroU32,
    /// For how long the first time; the n-th time n times as long.
    pub base: Duration,
    /// For how long at most.
    pub max: Duration,
    /// Most endpoints put aside at once, in percent of the service's.
    pub max_percent: u32,
}

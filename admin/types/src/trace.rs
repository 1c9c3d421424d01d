//! The events of `/debug/trace`.

use serde::{Deserialize, Serialize};

/// An event of a traced request or connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Start, in µs since the start of the request.
    pub event_start: u64,
    /// End, in µs since the start of the request.
    pub event_end: u64,
    /// Number of the shard.
    pub shard: u16,
    /// Distinguishes the requests of a stream: the request id, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Severity of the event.
    pub severity: Severity,
    /// Type of the event with its data.
    pub message: Message,
}

/// The severity of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A step of the request succeeded.
    Success,
    /// Information without judgement.
    #[default]
    Info,
    /// A problem that did not end the request.
    Warn,
    /// A failure that ended the request or an attempt.
    Error,
}

/// The type of an event with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Message {
    /// A TCP, TLS passthrough or UDP connection started.
    ConnectionStarted {
        /// IP address and port of the client.
        client: String,
        /// Key of the bind that accepted it.
        bind: String,
        /// `TCP`, `TLS` or `UDP`.
        #[serde(default)]
        protocol: String,
        /// SNI of the TLS client; None where it sends none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_name: Option<String>,
        /// Number of the configuration that serves it.
        #[serde(default)]
        configuration: u64,
    },
    /// A TCP, TLS passthrough or UDP connection ended.
    ConnectionFinished(ConnectionFinished),
    /// The head of a request was received.
    RequestStarted {
        /// IP address and port of the client.
        client: String,
        /// Key of the bind that accepted it.
        bind: String,
        /// Number of the configuration that serves it.
        configuration: u64,
    },
    /// The request as received, with its path normalized.
    RequestSnapshot(Request),
    /// Selection of the listener by the request's host.
    ListenerSelection {
        /// Host of the request.
        host: String,
        /// Key of the listener; None where none matches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<String>,
        /// The listeners of the bind with the outcome of each.
        candidates: Vec<ListenerCandidate>,
    },
    /// Selection of the route rule.
    RouteSelection {
        /// `kind/namespace/name/rule` of the rule; None where none matches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<String>,
        /// The evaluated matches with the outcome of each.
        candidates: Vec<RouteCandidate>,
        /// Whether the list is incomplete.
        #[serde(default)]
        truncated: bool,
    },
    /// The policies and filters in effect for the request.
    PolicySelection {
        /// Names of their fields, such as `retry`.
        policies: Vec<String>,
    },
    /// The outcome of a policy or filter.
    Policy {
        /// Kind, such as `redirect`.
        kind: String,
        /// Whether it was applied.
        outcome: PolicyOutcome,
        /// What it did, or why it was skipped.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// The decision of an authorization policy or of an authorization server.
    AuthorizationResult {
        /// The policy that decided.
        by: String,
        /// Whether the request is allowed.
        allowed: bool,
        /// Reason for the decision, without credentials.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// Selection of the backend and its endpoint.
    BackendSelection {
        /// Key of the backend, or of the service with its port.
        backend: String,
        /// Reason of `ResolvedRefs` where the reference is invalid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unresolved: Option<String>,
        /// The selected endpoint; None where none is available.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<String>,
        /// The endpoints with their load balancing state.
        endpoints: Vec<EndpointScore>,
        /// Whether there are more than are listed.
        #[serde(default)]
        truncated: bool,
    },
    /// An attempt to call an endpoint started.
    BackendCallStart {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Address of the endpoint.
        endpoint: String,
        /// Whether the connection is from the pool.
        reused: bool,
        /// Time to connect; None for a pooled connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connect_micros: Option<u64>,
    },
    /// An attempt to call an endpoint ended.
    BackendCallResult {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Address of the endpoint.
        endpoint: String,
        /// Status of the response; None without a response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Reason of a failure; None on success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Whether a failed attempt is retried.
    Retry {
        /// Whether the request is retried.
        retried: bool,
        /// Why, or why not.
        reason: String,
    },
    /// The response head as received from the backend.
    ResponseSnapshot {
        /// Status code of the response.
        status: u16,
        /// Names and values; secrets are masked.
        headers: Vec<(String, String)>,
    },
    /// The request ended, by a response or a failure.
    RequestFinished(Finished),
    /// Events of this stream were dropped because the client did not read them in time.
    EventsLost {
        /// Number of dropped events.
        count: u64,
    },
}

/// A request as received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// Method, such as `GET`.
    pub method: String,
    /// Host, with the port if given.
    pub host: String,
    /// Path and query; secrets are masked.
    pub path: String,
    /// Protocol version, such as `HTTP/1.1`.
    pub protocol: String,
    /// Names and values; secrets are masked.
    pub headers: Vec<(String, String)>,
}

/// A candidate of the listener selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerCandidate {
    /// Key of the listener.
    pub listener: String,
    /// Its hostname; `*` for all hosts.
    pub hostname: String,
    /// Whether it was selected.
    pub selected: bool,
}

/// A candidate of the route selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteCandidate {
    /// `kind/namespace/name/rule` of the rule.
    pub route: String,
    /// Index of the match in the rule, from 0.
    pub match_index: u16,
    /// Outcome of the evaluation.
    pub outcome: RouteOutcome,
    /// Why it was not selected.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The outcome of evaluating a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteOutcome {
    /// Matches and has precedence.
    Selected,
    /// Matches, but a more specific or older rule has precedence.
    Shadowed,
    /// The match does not match the request.
    Lost,
}

/// Whether a policy was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyOutcome {
    /// Applied to the request.
    Applied,
    /// Not applicable to the request.
    Skipped,
}

/// An endpoint in the load balancing of one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointScore {
    /// Address of the endpoint.
    pub endpoint: String,
    /// Weight relative to the other endpoints.
    pub weight: u32,
    /// Health divided by expected latency and load: of two random endpoints, the higher score wins.
    pub score: f64,
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Moving average of the time to the response head; 0 before the first response.
    pub latency_ms: f64,
    /// Number of requests in flight.
    pub in_flight: u32,
    /// Whether it is ejected.
    pub ejected: bool,
    /// Whether its health check fails, so that it gets no requests.
    #[serde(default)]
    pub probed_out: bool,
    /// Zone that it is in, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it comes before others because of where it is; None where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred: Option<bool>,
    /// Whether an earlier attempt of this request used it.
    pub tried: bool,
}

/// The end of a TCP or TLS connection, or of a UDP session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionFinished {
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// Reason of a failure; None on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The route rule, once selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The backend, once selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The endpoint of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Attempts after the first.
    pub retries: u32,
    /// Total duration, in µs.
    pub duration_micros: u64,
}

/// The end of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finished {
    /// Status sent to the client; 0 without a response.
    pub status: u16,
    /// Reason of a failure; None on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The route rule, once selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The backend, once selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The endpoint of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Body bytes from the client.
    pub bytes_in: u64,
    /// Body bytes to the client.
    pub bytes_out: u64,
    /// Attempts after the first.
    pub retries: u32,
    /// Time from the start of the last attempt to the response head, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_micros: Option<u64>,
    /// Total duration, in µs.
    pub duration_micros: u64,
}

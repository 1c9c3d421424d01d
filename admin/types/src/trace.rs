//! The events of `/debug/trace`: the life of one request, told as it happens.

use serde::{Deserialize, Serialize};

/// An event of a traced request or connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When it began, in µs from the request's start.
    pub event_start: u64,
    /// When it ended, likewise.
    pub event_end: u64,
    /// The shard it happened on.
    pub shard: u16,
    /// Tells the requests of one stream apart: the request's id, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How good or bad it is.
    pub severity: Severity,
    /// What happened.
    pub message: Message,
}

/// How good or bad an event is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It went well.
    Success,
    /// It happened.
    #[default]
    Info,
    /// It is not as it should be, and the request went on.
    Warn,
    /// It ended the request, or one try of it.
    Error,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Message {
    /// A connection that is relayed as it is began.
    ConnectionStarted {
        /// The client's address.
        client: String,
        /// Where it came in.
        bind: String,
        /// `TCP`, `TLS` or `UDP`.
        #[serde(default)]
        protocol: String,
        /// The name that a TLS client asks for, if it asks for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_name: Option<String>,
        /// Number of the configuration that it is served by.
        #[serde(default)]
        configuration: u64,
    },
    /// A connection that was relayed as it is ended.
    ConnectionFinished(ConnectionFinished),
    /// A request's head was read.
    RequestStarted {
        /// The client's address.
        client: String,
        /// Key of the bind it came in by.
        bind: String,
        /// Number of the configuration that it is served by.
        configuration: u64,
    },
    /// The request as it came, its path normalised.
    RequestSnapshot(Request),
    /// Which listener owns the request's host.
    ListenerSelection {
        /// The host.
        host: String,
        /// Key of the listener; nothing where none owns it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<String>,
        /// The listeners of the bind, and what came of each.
        candidates: Vec<ListenerCandidate>,
    },
    /// Which rule serves the request.
    RouteSelection {
        /// `kind/namespace/name/rule` of the rule; nothing where none matches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<String>,
        /// The matches it was held against, and what came of each.
        candidates: Vec<RouteCandidate>,
        /// Whether there were more than are listed.
        #[serde(default)]
        truncated: bool,
    },
    /// What holds for the request, by the policies and filters of its route.
    PolicySelection {
        /// The names of what holds.
        policies: Vec<String>,
    },
    /// What a policy or filter did.
    Policy {
        /// Its kind, such as `redirect`.
        kind: String,
        /// Whether it did anything.
        outcome: PolicyOutcome,
        /// Why not, or what it did.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// Whether the request may go on.
    AuthorizationResult {
        /// What decided.
        by: String,
        /// Whether it may.
        allowed: bool,
        /// Why; never the credentials.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// Where the request goes.
    BackendSelection {
        /// The backend or service that was drawn.
        backend: String,
        /// Why it does not resolve, where it does not: a reason of `ResolvedRefs`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unresolved: Option<String>,
        /// The endpoint that was chosen; nothing where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<String>,
        /// The endpoints there are, as the balancing sees them.
        endpoints: Vec<EndpointScore>,
        /// Whether there are more than are listed.
        #[serde(default)]
        truncated: bool,
    },
    /// A try begins.
    BackendCallStart {
        /// Its number, from 1.
        attempt: u32,
        /// The endpoint.
        endpoint: String,
        /// Whether the connection was used before.
        reused: bool,
        /// Time to connect, where it was not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connect_micros: Option<u64>,
    },
    /// How a try ended.
    BackendCallResult {
        /// Its number, from 1.
        attempt: u32,
        /// The endpoint.
        endpoint: String,
        /// The status it answered with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Why it failed, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Whether there is another try.
    Retry {
        /// Whether there is.
        retried: bool,
        /// Why, or why not.
        reason: String,
    },
    /// The response's head as it came from the backend.
    ResponseSnapshot {
        /// Its status.
        status: u16,
        /// Its headers; secret values are masked.
        headers: Vec<(String, String)>,
    },
    /// The request is over.
    RequestFinished(Finished),
    /// The stream is over, and lost events that nobody took in time.
    EventsLost {
        /// How many.
        count: u64,
    },
}

/// A request as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its host.
    pub host: String,
    /// Its path and query; values of parameters that carry credentials are masked.
    pub path: String,
    /// `HTTP/1.1` and the like.
    pub protocol: String,
    /// Its headers; secret values are masked.
    pub headers: Vec<(String, String)>,
}

/// A listener that a request was held against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerCandidate {
    /// Its key.
    pub listener: String,
    /// Its hosts; `*` where it has every host.
    pub hostname: String,
    /// Whether it owns the request.
    pub selected: bool,
}

/// A match that a request was held against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteCandidate {
    /// `kind/namespace/name/rule` of its rule.
    pub route: String,
    /// Number of the match in the rule.
    pub match_index: u16,
    /// What came of it.
    pub outcome: RouteOutcome,
    /// Why it lost.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What came of holding a request against a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteOutcome {
    /// It serves the request.
    Selected,
    /// It matches, but a more specific or older one serves the request.
    Shadowed,
    /// It does not match.
    Lost,
}

/// Whether a policy did anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyOutcome {
    /// It did.
    Applied,
    /// It did not.
    Skipped,
}

/// An endpoint as the balancing of one shard sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointScore {
    /// Its name.
    pub endpoint: String,
    /// Its share, relative to the others.
    pub weight: u32,
    /// Health over expected time and load: the higher one of two that are drawn wins.
    pub score: f64,
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Average time to the response's head; 0 before the first.
    pub latency_ms: f64,
    /// Requests now.
    pub in_flight: u32,
    /// Whether it is put aside.
    pub ejected: bool,
    /// Whether an earlier try of this request went to it.
    pub tried: bool,
}

/// How a connection, or a session of datagrams, ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionFinished {
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that served it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The backend it went to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The endpoint it went to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Tries after the first.
    pub retries: u32,
    /// The whole, in µs.
    pub duration_micros: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finished {
    /// Status that the client got; 0 where it got none.
    pub status: u16,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that served it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The backend it went to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The endpoint it went to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Payload bytes from the client.
    pub bytes_in: u64,
    /// Payload bytes to the client.
    pub bytes_out: u64,
    /// Tries after the first.
    pub retries: u32,
    /// From the last try's beginning to the response's head, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_micros: Option<u64>,
    /// The whole, in µs.
    pub duration_micros: u64,
}

//! Limits of the server, each with its unit, default and reason.

use std::time::Duration;

/// Limits on the cost of connections and streams.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Timeout for the first byte of a connection, and again for its TLS handshake.
    pub handshake: Duration,
    /// Idle timeout: for the first call, and between calls.
    pub idle: Duration,
    /// Timeout for authorization, which may involve the API server.
    pub authorization: Duration,
    /// Timeout for the first request of a stream and, while responses are in flight, for reading or
    /// acknowledging any of them. A proxy applies a large configuration within seconds.
    pub unresponsive: Duration,
    /// Maximum age of a connection, so that proxies spread over replicas and revoked permissions
    /// end.
    pub age: Duration,
    /// Jitter of the maximum age in both directions, so that connections opened together do not all
    /// close together.
    pub age_jitter: Duration,
    /// Time within which connections retire when proxies are sent away, each at a random moment: a thousand
    /// proxies then reach the other servers at a hundred a second.
    pub sent_away: Duration,
    /// Time for a retiring connection to finish the batch in progress.
    pub grace: Duration,
    /// Interval of HTTP/2 pings. Connection tracking drops idle connections after minutes.
    pub keepalive: Duration,
    /// Timeout for the response to a ping.
    pub keepalive_timeout: Duration,
    /// Concurrent connections: each has two buffers, a task and a file descriptor.
    pub connections: usize,
    /// Concurrent unauthenticated connections from one address. A node's address can stand for many
    /// proxies that start together.
    pub unauthenticated: usize,
    /// Concurrent calls on one connection. A proxy opens one stream.
    pub calls: u32,
    /// Concurrent streams of one proxy. When it reconnects, its previous stream may not have ended.
    pub streams: usize,
    /// Bytes of a request's header fields. A token has about 1.5 KiB.
    pub header_bytes: u32,
    /// Largest request in bytes: versions of 100 000 resources of one type, once per stream.
    pub request_bytes: usize,
    /// HTTP/2 windows of a stream and of a connection in bytes: what is buffered of an unread
    /// request.
    pub window_bytes: u32,
    /// Bytes that a stream may make the server keep: subscribed names and reported versions of all
    /// types.
    pub kept_bytes: usize,
    /// Burst of requests that acknowledge nothing. A client that subscribes by name sends some.
    pub requests: u32,
    /// Refill rate of that burst.
    pub requests_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(5),
            authorization: Duration::from_secs(10),
            unresponsive: Duration::from_secs(30),
            age: Duration::from_mins(30),
            age_jitter: Duration::from_mins(3),
            sent_away: Duration::from_secs(10),
            grace: Duration::from_secs(30),
            keepalive: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            connections: 10_000,
            unauthenticated: 128,
            calls: 4,
            streams: 4,
            header_bytes: 16 << 10,
            request_bytes: 16 << 20,
            window_bytes: 256 << 10,
            kept_bytes: 16 << 20,
            requests: 1_000,
            requests_per_second: 50,
        }
    }
}

/// Calls of one connection: burst, and rate per second. A proxy whose stream ended backs off before
/// the next.
pub(super) const CALLS: u32 = 16;
pub(super) const CALLS_PER_SECOND: u32 = 1;

/// Unknown types logged per stream.
pub(super) const LOGGED_TYPES: u32 = 8;

/// Log lines about failed connections: burst, and rate per second. Anyone who reaches the port can
/// cause them.
pub(super) const LOGGED_FAILURES: u32 = 10;

/// Most bytes of a peer's text in a log line.
pub(super) const LOGGED_TEXT: usize = 256;

/// Pause after a failed `accept`, until file descriptors become free.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

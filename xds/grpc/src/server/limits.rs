//! Limits of the server, each with its unit, default and reason.

use std::time::Duration;

/// What connections and streams may cost.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Until a connection has told its first byte, and again until its TLS handshake is done.
    pub handshake: Duration,
    /// Until a connection makes its first call, and how long it may be without one afterwards.
    pub idle: Duration,
    /// Until it is known who calls. The API server may have to be asked.
    pub authorization: Duration,
    /// Until a stream has sent its first request; and, while responses are under way, how long it
    /// may neither take nor answer any. A proxy applies a large configuration in seconds.
    pub unresponsive: Duration,
    /// How long a connection lives, so that proxies spread over replicas, and permissions that were
    /// taken away end.
    pub age: Duration,
    /// How much longer or shorter it may be, so that connections which began together do not end
    /// together.
    pub age_jitter: Duration,
    /// What a connection that is told to end may still take, to finish the batch under way.
    pub grace: Duration,
    /// Between two HTTP/2 pings. Connection tracking forgets idle connections after minutes.
    pub keepalive: Duration,
    /// Until a ping has to be answered.
    pub keepalive_timeout: Duration,
    /// Connections at a time: each has two buffers, a task and a file descriptor.
    pub connections: usize,
    /// Connections from one address that have not said who they are. Addresses can be those of
    /// nodes with many proxies, which start together.
    pub strangers: usize,
    /// Calls at a time on one connection. A proxy has one stream.
    pub calls: u32,
    /// Streams at a time of one proxy. When it reconnects, the stream before may not have ended.
    pub streams: usize,
    /// Bytes of a request's header fields. A token has about 1.5 KiB.
    pub header_bytes: u32,
    /// Bytes of one request: versions of 100 000 resources of one type, once per stream.
    pub request_bytes: usize,
    /// Bytes of HTTP/2 windows, of a stream and of a connection: what is buffered of a request that
    /// is not read.
    pub window_bytes: u32,
    /// Bytes that a stream may make the server keep: names it subscribes to, and what it says it
    /// holds, of all types together.
    pub kept_bytes: usize,
    /// Requests at once that answer nothing. A client that subscribes by name sends some.
    pub requests: u32,
    /// How many of them are granted again each second.
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
            grace: Duration::from_secs(30),
            keepalive: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            connections: 10_000,
            strangers: 128,
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

/// Calls of one connection, at once and then per second. A proxy whose stream ended waits before it
/// makes another.
pub(super) const CALLS: u32 = 16;
pub(super) const CALLS_PER_SECOND: u32 = 1;

/// Unknown types that are logged on one stream.
pub(super) const LOGGED_TYPES: u32 = 8;

/// Lines about connections that came to nothing, at once and per second: anyone who reaches the
/// port can cause them.
pub(super) const LOGGED_FAILURES: u32 = 10;

/// Bytes of a peer's text in a log line.
pub(super) const LOGGED_TEXT: usize = 256;

/// How long nothing is accepted after an error of `accept`: file descriptors have to become free.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

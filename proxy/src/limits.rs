//! Every limit and timeout of the data plane: its unit, its default and the reason for it.
//!
//! `Limits` holds those that a policy can change, resolved for one route or listener; the constants
//! below it hold for every connection. A bare number anywhere else is a mistake. Values that a
//! policy gives for all shards are split by `per_shard`.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use xds::model;

/// The limits that a policy can change. A timeout of `None` never fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request line, above which 414: 8 KiB, what browsers and caches stay below.
    pub request_line_bytes: u32,
    /// Bytes of a request's or response's head, above which 431 or 502: 32 KiB, half a buffer, so
    /// that a head and the first body bytes always fit into one. Never more than `MAX_HEAD_BYTES`.
    pub head_bytes: u32,
    /// Fields of a head, cookie crumbs counted one by one: 100, as Apache and Envoy.
    pub header_fields: u32,
    /// Bytes of a request's body, above which 413; `None` (the default) streams any amount, since
    /// nothing of it is kept.
    pub request_body_bytes: Option<NonZeroU64>,
    /// From the first byte of a head to its last, whatever trickles in between: 10 s, then 408.
    pub head_timeout: Option<Duration>,
    /// Between two reads of a request's body: 30 s, then 408.
    pub body_idle_timeout: Option<Duration>,
    /// Bytes a second that a request's body must average, or 408: 256, below any modem and above
    /// any attack worth its sockets. Not for gRPC and upgraded connections. 0 asks for nothing.
    pub body_min_rate: u32,
    /// Between two bytes of a response, a gRPC stream or a tunnel: 1 h, so that server-sent events
    /// and watches live on.
    pub stream_idle_timeout: Option<Duration>,
    /// For how long a client may take no byte of a response: 30 s.
    pub write_idle_timeout: Option<Duration>,
    /// Between two requests of a client's connection: 60 s, a browser's own patience.
    pub keep_alive_timeout: Option<Duration>,
    /// Requests of one client connection: 10 000, so that load spreads again now and then.
    pub requests_per_connection: NonZeroU64,
    /// Age of a client's connection, with jitter: 1 h, for the same reason.
    pub connection_age: Option<Duration>,
    /// To connect to an endpoint, TLS included: 2 s, one lost SYN and its repetition.
    pub connect_timeout: Option<Duration>,
    /// From the last request byte sent to the response's head: 15 s. Not for gRPC, which brings its
    /// own deadline, nor for upgrades.
    pub response_head_timeout: Option<Duration>,
    /// Connections to one service, over all shards: 1024, as Envoy.
    pub upstream_connections: NonZeroU32,
    /// Requests that wait for a connection to one service, over all shards: 1024, as Envoy.
    pub upstream_pending: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_line_bytes: 8 * 1024,
            head_bytes: 32 * 1024,
            header_fields: 100,
            request_body_bytes: None,
            head_timeout: Some(Duration::from_secs(10)),
            body_idle_timeout: Some(Duration::from_secs(30)),
            body_min_rate: 256,
            stream_idle_timeout: Some(HOUR),
            write_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_timeout: Some(MINUTE),
            requests_per_connection: NonZeroU64::MIN.saturating_add(9_999),
            connection_age: Some(HOUR),
            connect_timeout: Some(Duration::from_secs(2)),
            response_head_timeout: Some(Duration::from_secs(15)),
            upstream_connections: NonZeroU32::MIN.saturating_add(1_023),
            upstream_pending: NonZeroU32::MIN.saturating_add(1_023),
        }
    }
}

impl Limits {
    /// These limits with what a nearer target says put over them. Apply Gateway, listener, route
    /// and rule in this order: the nearest that names a field wins it.
    #[must_use]
    pub fn with(self, nearer: &model::Limits) -> Self {
        let size = |given: Option<NonZeroU32>, wider: u32| given.map_or(wider, NonZeroU32::get);
        Self {
            request_line_bytes: size(nearer.request_line_bytes, self.request_line_bytes)
                .min(MAX_HEAD_BYTES),
            head_bytes: size(nearer.head_bytes, self.head_bytes).min(MAX_HEAD_BYTES),
            header_fields: size(nearer.header_fields, self.header_fields),
            request_body_bytes: nearer.request_body_bytes.or(self.request_body_bytes),
            head_timeout: resolve(nearer.head_timeout, self.head_timeout),
            body_idle_timeout: resolve(nearer.body_idle_timeout, self.body_idle_timeout),
            body_min_rate: nearer.body_min_rate.unwrap_or(self.body_min_rate),
            stream_idle_timeout: resolve(nearer.stream_idle_timeout, self.stream_idle_timeout),
            write_idle_timeout: resolve(nearer.write_idle_timeout, self.write_idle_timeout),
            keep_alive_timeout: resolve(nearer.keep_alive_timeout, self.keep_alive_timeout),
            requests_per_connection: nearer
                .requests_per_connection
                .unwrap_or(self.requests_per_connection),
            connection_age: resolve(nearer.connection_age, self.connection_age),
            connect_timeout: resolve(nearer.connect_timeout, self.connect_timeout),
            response_head_timeout: resolve(
                nearer.response_head_timeout,
                self.response_head_timeout,
            ),
            upstream_connections: nearer
                .upstream_connections
                .unwrap_or(self.upstream_connections),
            upstream_pending: nearer.upstream_pending.unwrap_or(self.upstream_pending),
        }
    }
}

/// What a timeout comes to: `given` where it says something, otherwise `wider`.
#[must_use]
pub fn resolve(given: Option<model::Timeout>, wider: Option<Duration>) -> Option<Duration> {
    match given {
        None | Some(model::Timeout::Default) => wider,
        Some(model::Timeout::Never) => None,
        Some(model::Timeout::After(time)) => Some(time),
    }
}

/// One shard's share of a limit for all of them, rounded up so that none is left with nothing.
#[must_use]
pub fn per_shard(limit: NonZeroU32, shards: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new(limit.get().div_ceil(shards.get())).unwrap_or(NonZeroU32::MIN)
}

const KIB: usize = 1024;
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

// Buffers and work.

/// Bytes of a pooled buffer: 64 KiB. With 16 KiB, a 16 KiB POST took twice the time.
pub const BUFFER_BYTES: usize = 64 * KIB;
/// Bytes kept free in front of a buffer, for the head that we write anew: 4 KiB.
pub const BUFFER_HEADROOM_BYTES: usize = 4 * KIB;
/// Bytes of the largest head any policy can allow: spans of a head are 16 bits wide.
pub const MAX_HEAD_BYTES: u32 = 65_535;
/// Bytes of a file of configuration: 64 MiB, some hundred thousand routes.
pub const CONFIGURATION_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Buffers that a shard keeps for later, used or not: 64 (4 MiB); those above it go back to the
/// system when none of them was needed between two sweeps.
pub const POOLED_BUFFERS: usize = 64;
/// Pipelined requests served in one poll, before real I/O is awaited: 16, so that no connection
/// starves its neighbours.
pub const REQUESTS_PER_POLL: u32 = 16;
/// Bytes of a request's body that a mirror gets to lag behind by: 64 KiB, then it is dropped.
pub const MIRROR_BYTES: usize = 64 * KIB;
/// Share of the file descriptors (`RLIMIT_NOFILE`) that client connections may take: 45 %, since
/// each can need an upstream one, and ourselves a few. At the limit accepting stops.
pub const CLIENT_DESCRIPTORS_PERCENT: u64 = 45;
/// Operations that a ring takes in one submission: 1024, more than one turn of the loop begins.
pub const RING_ENTRIES: u32 = 1024;
/// Completions that a ring holds: 65 536; the kernel refuses more.
pub const RING_MAX_COMPLETIONS: u32 = 65_536;
/// Bytes of a PROXY protocol header, TLVs included: 4 KiB; those that carry a certificate's subject
/// stay below 2 KiB.
pub const PROXY_HEADER_BYTES: usize = 4 * KIB;
/// Bytes of a trusted hop's request id that is taken over: 64; ours have 36.
pub const REQUEST_ID_BYTES: usize = 64;
/// Accept loops of a listener on a shard: 4, which keeps the accept queue of a burst short.
pub const ACCEPT_LOOPS: usize = 4;

// Time.

/// One tick of a shard's deadline wheel: 100 ms. Timeouts are seconds, so a tenth is exact enough.
pub const WHEEL_TICK: Duration = Duration::from_millis(100);
/// Bytes read and dropped after a final answer, so that the client sees it and not a reset: 64 KiB.
pub const LINGER_BYTES: usize = 64 * KIB;
/// For how long they are read: 1 s.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// TLS handshake of a client, and PROXY protocol header before it: 5 s.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection ends up to so many percent before its age: 10, so that connections made at once do
/// not end at once.
pub const CONNECTION_AGE_JITTER_PERCENT: u32 = 10;
/// Without a byte for this long, a connection gives its buffer back: 1 s.
pub const PARK_AFTER: Duration = Duration::from_secs(1);
/// A pooled upstream connection idle for this long is closed: 60 s. Origins that give up earlier
/// (nginx waits 75 s, Node 5 s) are found out by the peek, and by the replay where it is too late.
pub const POOL_IDLE_TIMEOUT: Duration = MINUTE;
/// Ticks between two sweeps of the idle upstream connections: 50 (5 s), fine enough for 60 s.
pub const POOL_SWEEP_TICKS: u32 = 50;
/// `Retry-After` of an answer given under overload: 1 s.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Connections that wait in a socket's queue to be accepted: 4096, a second's worth of a busy shard.
pub const ACCEPT_BACKLOG: i32 = 4096;
/// TCP keepalive probes start after this long without a byte: 60 s, before a NAT forgets.
pub const KEEPALIVE_AFTER: Duration = MINUTE;
/// A client to whom a response sends nothing for this long is looked at whether it is still there:
/// 5 s, so that streams nobody reads any more end soon.
pub const CLIENT_LOOK: Duration = Duration::from_secs(5);
/// A shard that does not start within this time never will: 10 s.
pub const SHARD_START_TIMEOUT: Duration = Duration::from_secs(10);
/// For how long the last lines of the access log are waited for at the end: 1 s.
pub const LOG_STOP_PATIENCE: Duration = Duration::from_secs(1);
/// Pause before a dead shard is started again: 100 ms.
pub const SHARD_RESTART_PAUSE: Duration = Duration::from_millis(100);
/// Pause after an accept that failed for want of descriptors or memory: 100 ms.
pub const ACCEPT_PAUSE: Duration = WHEEL_TICK;
/// From SIGTERM until accepting stops: 5 s, what endpoint removal takes to reach every node.
pub const DRAIN_ACCEPT: Duration = Duration::from_secs(5);
/// From SIGTERM until what is left is reset: 30 s.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(30);

// Upstreams.

/// Interim responses (1xx) before a final one: 16, more than any origin has reason to send.
pub const INTERIM_RESPONSES: u32 = 16;

/// When an endpoint is put aside: 5 failures in a row, 30 s times the number of times, at most
/// 5 min, at most half of a service.
pub const EJECTION: model::Ejection = model::Ejection {
    consecutive_failures: NonZeroU32::MIN.saturating_add(4),
    base: Duration::from_secs(30),
    max: Duration::from_mins(5),
    max_percent: 50,
};
/// Retries in flight: 20 % of the requests in flight, and always 10, so that retries cannot make an
/// outage out of a stumble.
pub const RETRY_BUDGET: model::RetryBudget = model::RetryBudget {
    percent: 20,
    floor: 10,
};
/// Least wait before a retry where the route names none: 25 ms.
pub const RETRY_BACKOFF: Duration = Duration::from_millis(25);
/// Longest wait before a retry, whatever the number of tries: 1 s.
pub const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Extra tries that a route without a retry policy gets after a failure that no endpoint can have
/// acted on (connection refused): 1.
pub const UNASKED_RETRIES: u32 = 1;
/// Weight of the newest sample in the averages of health and latency: 0.3, so that five samples
/// make up for five sixths of an average.
pub const EWMA_ALPHA: f64 = 0.3;
/// What was measured of an endpoint's latency counts half after this long without a new sample: 1 s.
pub const LATENCY_HALF_LIFE: Duration = Duration::from_secs(1);
/// Added to every latency when endpoints are compared: 1 ms. Below that, scheduling decides who is
/// quicker; with 100 µs, one of three equal endpoints on a fast network got 5 of 300 requests.
pub const LATENCY_FLOOR: Duration = Duration::from_millis(1);

// Observation.

/// Bytes of an access log chunk handed to the writer: 16 KiB, some eighty lines.
pub const LOG_CHUNK_BYTES: usize = 16 * KIB;
/// Chunks on their way to the writer, over all shards: 64 (1 MiB); what comes on top is dropped and
/// counted.
pub const LOG_QUEUED_CHUNKS: usize = 64;
/// Bytes kept of any one field of a log line that came from a peer: 1 KiB.
pub const LOG_FIELD_BYTES: usize = KIB;

// Configuration.

/// Quiet after a change of a file before it is read: 10 ms, so that files written together are read
/// together.
pub const CHANGE_QUIET: Duration = Duration::from_millis(10);
/// Longest wait for that quiet, and for a writer to close its file: 100 ms.
pub const CHANGE_QUIET_MAX: Duration = Duration::from_millis(100);
/// Between two looks at files that the kernel does not watch for us: 2 s.
pub const FILE_POLL: Duration = Duration::from_secs(2);
/// Between two tries to listen on a port that was refused: 3 s, so that a port another process gives
/// up is taken soon.
pub const BIND_RETRY: Duration = Duration::from_secs(3);
/// Between two looks whether shards let go of old snapshots: 1 s.
pub const SNAPSHOT_SWEEP: Duration = Duration::from_secs(1);
/// Shortest time that an address of a name is good for, whatever its record says: 1 s.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(1);
/// Longest time that an address of a name is good for: 5 min, so that a record that was wrong for a
/// moment does not stay for a day.
pub const DNS_TTL_MAX: Duration = Duration::from_mins(5);
/// Wait after a name's first failed look-up: 1 s, doubled with every further one.
pub const DNS_RETRY: Duration = Duration::from_secs(1);
/// Longest wait after a failed look-up: 1 min.
pub const DNS_RETRY_MAX: Duration = MINUTE;
/// For how long a configuration waits for answers to its new names: 2 s, so that its first requests
/// find their backends, and an unreachable server holds nothing up.
pub const DNS_FIRST_WAIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};
    use std::time::Duration;

    use xds::model::{self, Timeout};

    use super::{Limits, MAX_HEAD_BYTES, per_shard};

    fn u32s(n: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(n)
    }

    #[test]
    fn saying_nothing_changes_nothing() {
        let limits = Limits::default();
        assert_eq!(limits.with(&model::Limits::default()), limits);
    }

    #[test]
    fn the_nearest_target_wins_each_field_on_its_own() {
        let gateway = model::Limits {
            head_bytes: u32s(1_000),
            header_fields: u32s(10),
            connect_timeout: Some(Timeout::After(Duration::from_secs(9))),
            ..model::Limits::default()
        };
        let route = model::Limits {
            header_fields: u32s(20),
            request_body_bytes: NonZeroU64::new(7),
            connect_timeout: Some(Timeout::Default),
            ..model::Limits::default()
        };
        let limits = Limits::default().with(&gateway).with(&route);
        assert_eq!(limits.head_bytes, 1_000);
        assert_eq!(limits.header_fields, 20);
        assert_eq!(limits.request_body_bytes, NonZeroU64::new(7));
        assert_eq!(limits.connect_timeout, Some(Duration::from_secs(9)));
        assert_eq!(limits.head_timeout, Limits::default().head_timeout);
    }

    #[test]
    fn zero_takes_a_timeout_away() {
        let rule = model::Limits {
            response_head_timeout: Some(Timeout::Never),
            ..model::Limits::default()
        };
        assert_eq!(Limits::default().with(&rule).response_head_timeout, None);
    }

    #[test]
    fn no_policy_allows_a_head_that_spans_cannot_name() {
        let huge = model::Limits {
            head_bytes: u32s(u32::MAX),
            request_line_bytes: u32s(u32::MAX),
            ..model::Limits::default()
        };
        let limits = Limits::default().with(&huge);
        assert_eq!(limits.head_bytes, MAX_HEAD_BYTES);
        assert_eq!(limits.request_line_bytes, MAX_HEAD_BYTES);
    }

    #[test]
    fn a_shard_gets_its_share_rounded_up() {
        let n = |n: u32| NonZeroU32::new(n).expect("not zero");
        for (limit, shards, share) in [(1024, 8, 128), (10, 4, 3), (1, 64, 1)] {
            assert_eq!(per_shard(n(limit), n(shards)), n(share));
        }
    }
}

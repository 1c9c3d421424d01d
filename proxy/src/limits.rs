//! Every limit and timeout of the data plane: its unit, its default and the reason for it.
//!
//! [`Limits`] holds those that a policy can change; the constants apply to every connection. A bare
//! number anywhere else is a mistake. Values that a policy sets for all shards together are split
//! by [`per_shard`].

use std::num::NonZeroU32;
use std::time::Duration;

use xds::model;

mod answers;
mod controller;
mod files;
mod health;
mod http2;
mod overload;
mod passwords;
mod policy;
mod ring;
mod router;
mod sessions;

pub use answers::*;
pub use controller::*;
pub use files::*;
pub use health::*;
pub use http2::*;
pub use overload::*;
pub use passwords::*;
pub use policy::{Limits, per_shard};
pub use ring::*;
pub use router::*;
pub use sessions::*;

const KIB: usize = 1024;
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

// Buffers and work.

/// Bytes of a pooled buffer: 64 KiB, what a direction of a message holds of a body. With 16 KiB, a
/// 16 KiB POST took twice the time.
pub const BUFFER_BYTES: usize = 64 * KIB;
/// Bytes of the smaller buffer in which a connection waits for a message: 20 KiB, for 16 KiB of a
/// body and its head. Waiting connections compete for the processor's cache: with 64 KiB, responses
/// cost 10 % more.
pub const SMALL_BUFFER_BYTES: usize = 20 * KIB;
/// Bytes kept free in front of a buffer, for a rewritten head: 4 KiB.
pub const BUFFER_HEADROOM_BYTES: usize = 4 * KIB;
/// Bytes of the largest head that a policy can allow: spans of a head have 16 bits.
pub const MAX_HEAD_BYTES: u32 = 65_535;
/// Fields of a head that a policy can allow: 1000, as nginx. They are parsed into an array on the
/// stack.
pub const MAX_HEADER_FIELDS: u32 = 1000;
/// Fields of a head below which that array is small: 256 (8 KiB); larger ones are for heads whose
/// limits are above it.
pub const FEW_HEADER_FIELDS: usize = 256;
/// Digits of a chunk's size: 16, for 64 bits.
pub const CHUNK_SIZE_DIGITS: u8 = 16;
/// Bytes of a chunk's extensions, which are unused in practice: 256. CVE-2023-39326 and others are
/// about unlimited ones.
pub const CHUNK_EXTENSION_BYTES: u16 = 256;
/// Bytes of a trailer section, which is held in memory: 8 KiB, far more than is used in practice.
pub const MAX_TRAILER_BYTES: usize = 8 * KIB;
/// Fields of a trailer section: 64.
pub const MAX_TRAILER_FIELDS: usize = 64;
/// Options of a Connection field: 32. Every field of a head is compared with each, which has to
/// stay linear.
pub const MAX_CONNECTION_OPTIONS: usize = 32;
/// Bytes of a configuration file: 64 MiB, some hundred thousand routes.
pub const CONFIGURATION_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes between two samples of the heap profile, on average: 512 KiB, as in Go and tcmalloc.
/// Requests do not allocate, so samples come from long-lived state.
pub const HEAP_SAMPLING_BYTES: u32 = 512 * 1024;
/// Live samples of the heap profile: 16 384, which stand for 8 GiB, in a table of half a MiB;
/// further ones are never recorded as freed.
pub const HEAP_LIVE_SAMPLES: usize = 16 * 1024;
/// Distinct stacks of the heap profile: 4096, 1.8 MiB of addresses; further ones are merged.
pub const HEAP_STACKS: usize = 4096;
/// Frames of a stack in it: 48, enough for async code, which has many frames.
pub const HEAP_FRAMES: usize = 48;
/// Shards whose allocations are counted separately: 256, more than the cores of a typical machine.
/// Further ones count as the rest of the process.
pub const HEAP_SHARDS: usize = 256;
/// Connections that became idle and buffers freed between two sweeps, before a shard has the
/// allocator return memory to the system: 16; fewer are not worth the time.
pub const TRIM_AFTER: usize = 16;
/// Ticks between two checks of that number: 2 (200 ms), so that memory is returned a second after a
/// burst.
pub const TRIM_TICKS: u32 = 2;
/// Free buffers of each size, and working memories of requests, that a shard keeps when a
/// connection becomes idle: 32, as many as connections start in two iterations.
pub const SPARE_BUFFERS: usize = 32;
/// Bytes that a direction of a tunnel has moved before it is spliced: 1 MiB; below, system calls
/// cost more than the copies. Only a body that has passed this many may fill a pipe.
pub const SPLICE_AFTER: u64 = 1024 * 1024;
/// Remaining bytes of a response body from which on it is spliced: 32 KiB. A response of 64 KiB
/// costs a quarter less then, one of 1 MiB less than half.
pub const SPLICE_FROM: u64 = 32 * 1024;
/// Bytes of a pipe between two sockets: 256 KiB, for fewer calls.
pub const SPLICE_PIPE_BYTES: i32 = 256 * 1024;
/// Pipes of a shard: 64 (16 MiB of kernel memory). A pipe that a slow receiver does not empty stays
/// in use; further directions use buffers.
pub const SPLICE_PIPES: usize = 64;
/// Bytes moved through a pipe before a yield: 4 MiB, about a millisecond.
pub const SPLICE_BYTES_PER_POLL: usize = 4 * 1024 * KIB;
/// Requests of a connection, pipelined or on streams, started in one poll before a yield: 16, so
/// that none starves the others.
pub const REQUESTS_PER_POLL: u32 = 16;
/// Bytes of a body moved in one poll before a yield: 256 KiB, some 100 µs of copying, compared with
/// 2 µs for a yield.
pub const BYTES_PER_POLL: usize = 256 * KIB;
/// Connections accepted by one loop in one poll before a yield: 16.
pub const ACCEPTS_PER_POLL: u32 = 16;
/// Bytes of a request body queued for a mirror while the body is received: 64 KiB; a mirror that
/// falls further behind is dropped. A body that a picker or an authorization server read first is
/// queued as a whole.
pub const MIRROR_BYTES: usize = 64 * KIB;
/// Bytes of a mirror's response read to reuse its connection: 1 MiB; then it is closed.
pub const MIRROR_RESPONSE_BYTES: usize = 1024 * KIB;
/// File descriptors (`RLIMIT_NOFILE`) reserved for other than connections: 1024. 128 of them are for
/// rings, inboxes, logs and files, 512 for probes ([`PROBE_CONNECTIONS`], and as many in progress), the others
/// for [`JWKS_FETCHES`] and [`DNS_LOOKUPS`], which take two each while they ask two name servers at a time.
pub const OWN_DESCRIPTORS: u64 = 1024;
/// Descriptors of a shard per bind: 2, its socket and the supervisor's.
pub const BIND_DESCRIPTORS: usize = 2;
/// Bytes of a PROXY protocol header, TLVs included: 4 KiB; those that carry a certificate's subject
/// stay below 2 KiB.
pub const PROXY_HEADER_BYTES: usize = 4 * KIB;
/// Bytes of a ClientHello, record headers included: 32 KiB, half a buffer; those with post-quantum
/// keys stay below 2 KiB.
pub const CLIENT_HELLO_BYTES: usize = 32 * KIB;
/// Bytes of a request id accepted from a trusted hop: 64; generated ones have 36.
pub const REQUEST_ID_BYTES: usize = 64;
/// A new connection is handed to a shard that has this many clients fewer: 2; with 1 it would not
/// matter which of the two gets it.
pub const HANDOVER_GAP: u64 = 2;
/// And at least this fraction of our own clients fewer: a 16th, since a hand-over costs half as
/// much as a connection, which evenness is not worth if there are many.
pub const HANDOVER_SHARE: u64 = 16;
/// Accept loops of a listener on a shard: 4, which keeps the accept queue short in a burst.
pub const ACCEPT_LOOPS: usize = 4;

// Datagrams.

/// Bytes of the largest datagram: 64 KiB, the limit of its 16-bit length.
pub const DATAGRAM_BYTES: usize = 64 * KIB;
/// Datagrams received from a socket before a yield: 64, as many as a default receive buffer holds
/// of the usual size.
pub const DATAGRAMS_PER_POLL: usize = 64;
/// UDP sessions of a listener on a shard: 16 384, and no more than the shard may have clients: each
/// takes a descriptor.
pub const UDP_SESSIONS: usize = 16 * 1024;
/// At the limit of sessions, an answered one that has been idle this long is evicted: 5 s.
pub const UDP_YIELD_AFTER: Duration = Duration::from_secs(5);
/// Interval of checking for idle UDP sessions: 1 s.
pub const UDP_SWEEP: Duration = Duration::from_secs(1);
/// Time for which a removed UDP listener still passes responses: 1 s.
pub const UDP_STOP_GRACE: Duration = Duration::from_secs(1);

// Time.

/// Tick of a shard's timer wheel: 100 ms. Timeouts are seconds, so a tenth is exact enough.
pub const WHEEL_TICK: Duration = Duration::from_millis(100);
/// Scheduling slice that a shard requests: 100 µs, the shortest available (Linux 6.12).
pub const SHARD_SLICE: Duration = Duration::from_micros(100);
/// Bytes read and dropped at the end of an HTTP/2 connection, so that the client receives GOAWAY and not
/// a reset: 64 KiB. An early response ends its stream alone.
pub const LINGER_BYTES: usize = 64 * KIB;
/// Time for reading them, and for other ends of a connection: 1 s. The rest of a request after an early
/// response has no more either while a shard drains or is under pressure.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which a client may go on sending its request after a final response: 30 s, enough for 10
/// MiB at 350 KB/s. Many clients read only once they have sent everything, and a reset would take the
/// response from them (RFC 9112 section 9.6).
pub const REST_OF_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The same between two pieces: 5 s, as nginx.
pub const REST_OF_REQUEST_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of it dropped before other tasks have their turn: 1 MiB, which are not copied.
pub const REST_OF_REQUEST_BYTES_PER_TURN: usize = 1024 * KIB;
/// Of the clients that a shard has room for, one in 4 may be such a one; beyond that, the oldest of them
/// is closed.
pub const LINGERING_SHARE: usize = 4;
/// Of the clients that a shard has room for, one in 4 may have closed its sending side and wait for a
/// response; beyond that, the one that has waited longest counts as gone. It may be gone indeed, and holds
/// a connection to an endpoint.
pub const HALF_CLOSED_SHARE: usize = 4;
/// Interval of keepalive probes to a client that has closed its sending side, and the idle time before
/// the first: 5 s, so that one whose host is gone does not wait for `half_close_timeout`.
pub const HALF_CLOSED_PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without a response before it counts as gone: 3.
pub const HALF_CLOSED_PROBES: u32 = 3;
/// Time for which requests are rejected after a connection to an endpoint failed for lack of
/// descriptors: 1 s.
pub const OVERLOAD_SHORTAGE: Duration = Duration::from_secs(1);
/// Keep-alive timeout of client connections under overload: at most 2 s.
pub const OVERLOAD_KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Jitter of a connection's maximum age in percent: up to 10 less, so that connections made
/// together do not end together.
pub const CONNECTION_AGE_JITTER_PERCENT: u32 = 10;
/// Idle time after which a connection returns its buffer: 1 s.
pub const PARK_AFTER: Duration = Duration::from_secs(1);
/// The same for client connections if half of [`WAITING_BUFFERS`] are in use: 300 ms, so that
/// memory is returned a second after a burst.
pub const PARK_AFTER_UNDER_LOAD: Duration = Duration::from_millis(300);
/// Idle client connections of a shard that wait for a request with a buffer: 256. Beyond that, the
/// longest-idle one returns its buffer, so that a burst of connections does not cost 17 KB each.
pub const WAITING_BUFFERS: usize = 256;
/// The same, including those idle for less than a tick: 1024. A thousand busy clients send their
/// next requests within that time, and returning buffers would slow each of them.
pub const WAITING_BUFFERS_AT_ONCE: usize = 1024;
/// Idle timeout of pooled upstream connections: 60 s. Earlier closes by the origin (Node after 5 s)
/// are detected by the liveness check, or by a retry.
pub const POOL_IDLE_TIMEOUT: Duration = MINUTE;
/// Ticks between two sweeps of idle upstream connections: 50 (5 s), fine enough for 60 s.
pub const POOL_SWEEP_TICKS: u32 = 50;
/// `Retry-After` of a response under overload: 1 s.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Accept queue of a listening socket: 4096, a second's worth of a busy shard.
pub const ACCEPT_BACKLOG: i32 = 4096;
/// Idle time before TCP keepalive probes: 60 s, before a NAT drops its entry.
pub const KEEPALIVE_AFTER: Duration = MINUTE;
/// Minimum rate of a receiver in bytes per second while bytes wait for it, measured over its idle
/// timeout: 256, like a request body. A slower one holds a buffer for nothing.
pub const RECEIVER_MIN_RATE: u32 = 256;
/// Measurements within that time: 4. The first has nothing to compare with, so the effective time
/// is a quarter longer.
pub const RECEIVER_CHECKS: u32 = 4;
/// Interval of checking whether a client is still connected while nothing is sent to it: 5 s, so
/// that abandoned streams end soon.
pub const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout for the start of a shard: 10 s.
pub const SHARD_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to write the last lines of a log at shutdown: 1 s.
pub const LOG_STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a dead shard is restarted: 100 ms.
pub const SHARD_RESTART_PAUSE: Duration = Duration::from_millis(100);
/// Timeout for a WebSocket's response to a Close on drain: 5 s; then it is reset.
pub const WEBSOCKET_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after an accept that failed for lack of descriptors or memory: 100 ms.
pub const ACCEPT_PAUSE: Duration = WHEEL_TICK;
/// Checks of the accept queues of stopping sockets: at most 100, with `QUEUE_PAUSE` between.
pub const QUEUE_CHECKS: u32 = 100;
/// Consecutive checks that find them empty: 20, the time of a TCP handshake in progress on most
/// networks.
pub const QUEUE_EMPTY_CHECKS: u32 = 20;
/// Pause between two such checks: 1 ms, the resolution of a shard's timers.
pub const QUEUE_PAUSE: Duration = Duration::from_millis(1);
/// Time for which stopped sockets may block new ones on their port: 1 s, far more than shards take
/// to close them.
pub const HANDOVER: Duration = Duration::from_secs(1);
/// Interval of checking whether they are closed: 2 ms.
pub const HANDOVER_PAUSE: Duration = Duration::from_millis(2);
/// Ticks over which a drain spreads closing idle connections: 20 (2 s), so that not all clients
/// reconnect elsewhere at once.
pub const DRAIN_SPREAD_TICKS: usize = 20;
/// Idle connections that a drain closes per tick regardless of their number: 64.
pub const DRAIN_BATCH: usize = 64;
/// Time for which idle connections outlive their listener: 5 s. A request that arrives meanwhile
/// gets a response, and a restored listener keeps its connections.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(5);
/// Ticks to wait for the last operations of a stopping shard: 20 (2 s).
pub const STOP_TICKS: u32 = 20;
/// Timeout for a stopping shard: 5 s, more than twice those ticks. Otherwise a stuck shard would
/// keep the process alive forever.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// From SIGTERM until accepting stops: 5 s, the time for endpoint removal to reach every node.
pub const DRAIN_ACCEPT: Duration = Duration::from_secs(5);
/// Interval of checking whether a drain is complete: 20 ms.
pub const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// From SIGTERM until remaining connections are reset: 30 s.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(30);

/// Bytes of the client certificate header for backends: 4 KiB, half the usual limit of a header
/// line. Names that do not fit are left out.
pub const CLIENT_CERTIFICATE_BYTES: usize = 4 * KIB;

// Upstreams.

/// TLS sessions that a shard remembers per backend: 8 servers; usually there is one, by name.
pub const RESUMABLE_SERVERS: usize = 8;
/// Interim responses (1xx) before a final one: 16, more than any origin needs.
pub const INTERIM_RESPONSES: u32 = 16;

/// Header fields that one server may edit of a head, an authorization server or an endpoint picker:
/// 100, as many as a head may have. Each edit looks through those before it.
pub const MUTATION_EDITS: usize = 100;

/// Draws of another endpoint where the first has no free connection: 8, so that load is still considered.
pub const FULL_ENDPOINTS: u32 = 8;
/// Endpoints that are then searched for a free connection: 256, which takes some 10 µs.
pub const SEARCHED_ENDPOINTS: usize = 256;

/// Random draws of an endpoint before all are examined: 8. If half are unavailable, one choice in
/// 256 needs that.
pub const MAX_RANDOM_DRAWS: u32 = 8;
/// Factor by which a second draw has to score better to replace the first: 2; less is noise.
pub const CLEARLY_BETTER: f64 = 2.0;
/// One choice in this many goes to the endpoint drawn first, if that is idle: 32, so that an
/// endpoint that was slow once is tried again.
pub const PROBE_ONE_IN: u32 = 32;
/// Bytes of a message in a gRPC call made by a shard: 4 MiB, the default limit of gRPC servers.
pub const CALL_MESSAGE_BYTES: usize = 4096 * KIB;
/// Bytes of a body kept for an endpoint picker: 10 MiB, the limit of the Inference Extension's pickers. A
/// request's is forwarded once it is complete; a response's is kept until its head is answered.
pub const PICKER_BODY_BYTES: usize = 10 * 1024 * KIB;
/// Bytes of a body that was read before in one message to an endpoint picker: 64 KiB.
pub const BODY_PIECE_BYTES: usize = 64 * KIB;
/// Timeout for an endpoint picker's answer that is due: 10 s, since pickers hold requests back while their
/// pods are busy.
pub const PICKER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that trailers wait for a picker's answer if it has returned all of the body unaltered: 1 s.
/// Some pickers never answer to trailers.
pub const PICKER_TRAILERS_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a response body that an endpoint picker has received and not returned: 256 KiB. They are kept,
/// so that the response can go on if it fails. If it buffers the body, and holds back more, none are kept.
pub const PICKER_WINDOW_BYTES: usize = 256 * KIB;
/// Messages of a response body that an endpoint picker has received and not answered: 1024.
pub const PICKER_WINDOW_MESSAGES: usize = 1024;
/// The same if it has not answered the head either: 40960, [`PICKER_BODY_BYTES`] in messages of 256 bytes.
pub const PICKER_BODY_MESSAGES: usize = 40 * PICKER_WINDOW_MESSAGES;
/// Time for an endpoint picker's first answer about a body, once it has answered the head and its window
/// ([`PICKER_WINDOW_BYTES`], [`PICKER_WINDOW_MESSAGES`]) is full: 1 s. Without one, it is assumed to buffer
/// the body, and is sent the rest; if it then answers each message, it fails. Before it answers the head, the
/// same wait raises the window to [`PICKER_BODY_BYTES`] and [`PICKER_BODY_MESSAGES`].
pub const PICKER_FIRST_RESPONSE: Duration = Duration::from_secs(1);
/// Endpoints tried for such a call: 3.
pub const CALL_TRIES: usize = 3;
/// Timeout of connecting to each of them: 2 s, as for requests, so that there is time for another one.
pub const CALL_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a request to an external authorization server: 5 s. The client waits meanwhile.
pub const EXTERNAL_AUTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest response body of an authorization server that is passed on to the client: 64 KiB. A longer
/// one is left out, and so is any while more than half of the memory for buffers is in use.
pub const EXTERNAL_AUTH_RESPONSE_BYTES: usize = 64 * KIB;
/// When an endpoint is ejected: 5 failures in a row, 30 s times the number of times, at most
/// 5 min, at most half of a service.
pub const EJECTION: model::Ejection = model::Ejection {
    consecutive_failures: NonZeroU32::MIN.saturating_add(4),
    base: Duration::from_secs(30),
    max: Duration::from_mins(5),
    max_percent: 50,
};
/// Retries in flight: 20 % of the requests in flight, and always 10, so that retries cannot turn a
/// brief failure into an outage.
pub const RETRY_BUDGET: model::RetryBudget = model::RetryBudget {
    percent: 20,
    floor: 10,
};
/// Slots of the interval over which a retry constraint counts: 10, so that it is accurate to a tenth.
pub const RETRY_WINDOW_SLOTS: usize = 10;
/// Least wait before a retry, unless the route sets one: 25 ms.
pub const RETRY_BACKOFF: Duration = Duration::from_millis(25);
/// Longest wait before a retry, whatever the number of attempts: 1 s.
pub const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Retries without a retry policy, after a failure in which no endpoint can have processed the
/// request (connection refused): 1.
pub const DEFAULT_RETRIES: u32 = 1;
/// Reused connections of one request that may turn out to be closed: 2. After the first one, new
/// connections are preferred.
pub const STALE_CONNECTIONS: u32 = 2;

// Tokens.

/// Bytes of a token, above which 401: 16 KiB, a quarter of the largest head; tokens of identity
/// providers have 1 or 2 KiB.
pub const JWT_BYTES: usize = 16 * KIB;
/// Allowed clock skew between an issuer and the gateway, unless the policy sets another: 1 min.
pub const JWT_SKEW: Duration = MINUTE;
/// Seconds for which a token without expiry stays in the cache of verified tokens: 300, so that it
/// displaces none that expires later.
pub const JWT_ETERNAL_CACHED: i64 = 300;
/// Keys tried for a token without key id: 4, to bound the cost of forged tokens.
pub const JWT_KEYS_TRIED: usize = 4;
/// Sets of the cache of verified tokens: 1024, with `JWT_CACHE_WAYS` slots each.
pub const JWT_CACHE_SETS: usize = 1024;
/// Slots of a set: 4; so 4096 tokens per shard, less than 1 MiB if they have few claims.
pub const JWT_CACHE_WAYS: usize = 4;
/// Least bits of an RSA modulus: 2048; below that RSA is broken.
pub const JWT_RSA_BITS_MIN: usize = 2048;
/// Most bits of an RSA modulus: 8192; above that one verification keeps a shard busy for longer
/// than a request.
pub const JWT_RSA_BITS_MAX: usize = 8192;
/// Bytes of an issuer's key set: 1 MiB, a hundred times the largest public ones.
pub const JWKS_BYTES: usize = 1024 * KIB;
/// Keys of a key set: 100.
pub const JWKS_KEYS: usize = 100;
/// Refresh interval of a key set if neither policy nor response sets one: 5 min.
pub const JWKS_TTL: Duration = Duration::from_mins(5);
/// Shortest refresh interval, whatever the response says: 1 min.
pub const JWKS_TTL_MIN: Duration = MINUTE;
/// Longest refresh interval: 24 h. It is also how long keys stay in use when they cannot be fetched
/// again; afterwards tokens cannot be verified.
pub const JWKS_TTL_MAX: Duration = Duration::from_hours(24);
/// Interval of fetches for unknown keys: 1 s. Forged tokens cannot load the issuer, and do not
/// delay a token with a new key beyond `JWKS_WAIT`.
pub const JWKS_REFRESH: Duration = Duration::from_secs(1);
/// Time for which a shard remembers that a key does not exist: 30 s.
pub const JWKS_UNKNOWN_KEY_TTL: Duration = Duration::from_secs(30);
/// Time that a request with an unknown key waits for a fetch: 3 s. Issuers usually respond within a
/// tenth of a second, but may be busy just after a rotation.
pub const JWKS_WAIT: Duration = Duration::from_secs(3);
/// Wait before the first check whether the fetch has ended: 5 ms. Keys are published for all shards
/// at once, without waking them.
pub const JWKS_POLL: Duration = Duration::from_millis(5);
/// Longest interval of these checks, which doubles each time: 40 ms. With as many as may wait, they
/// cost a shard a hundredth of its time.
pub const JWKS_POLL_MAX: Duration = Duration::from_millis(40);
/// Requests of a shard that wait for a key set to be fetched: 512; further ones get 503. Those for routes
/// of one namespace may take half of the places, and no more than it leaves free; of these, the ones for
/// one source of keys half: anybody may name many issuers that hang.
pub const JWKS_WAITING: usize = 512;
/// Keys that a shard remembers as unknown: 256, in slots by hash, so 6 KiB.
pub const JWKS_UNKNOWN_KEYS: usize = 256;
/// Fetches of key sets in progress: 64. Those for policies of one namespace may take half of the places,
/// and no more than it leaves free: anybody may name many addresses that hang, each for
/// [`JWKS_TIMEOUT`], and the keys of others are fetched meanwhile.
pub const JWKS_FETCHES: usize = 64;
/// Timeout for fetching a key set, from connecting to the last byte: 5 s.
pub const JWKS_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait after the first failed fetch: 1 s, doubled after each further one.
pub const JWKS_RETRY: Duration = Duration::from_secs(1);
/// Longest wait after a failed fetch: 1 min.
pub const JWKS_RETRY_MAX: Duration = MINUTE;
/// Fetches that fail in a row before the controller is told: 2, so that one lost packet changes no status.
pub const JWKS_FAILURES_TOLD: u32 = 2;
/// Interval at which the controller is told what only this proxy sees: 1 s, however fast it changes.
pub const SYMPTOMS_INTERVAL: Duration = Duration::from_secs(1);

// Observation.

/// Bytes of an access log chunk passed to the writer: 16 KiB, some eighty lines.
pub const LOG_CHUNK_BYTES: usize = 16 * KIB;
/// Chunks queued for the writer, over all shards: 64 (1 MiB); further ones are dropped and counted.
pub const LOG_QUEUED_CHUNKS: usize = 64;
/// Bytes of the program log queued for stderr: 4 MiB, the messages of a configuration with ten
/// thousand mistakes; further ones are dropped and counted.
pub const PROGRAM_LOG_BYTES: usize = 4096 * KIB;
/// Capacity that its buffers keep after such a burst: 64 KiB.
pub const PROGRAM_LOG_KEPT_BYTES: usize = 64 * KIB;
/// Objects that a dump names of those whose previous version stays in effect: 100; metrics count
/// them all.
pub const PREVIOUS_VERSIONS_SHOWN: usize = 100;
/// Problems with objects in files that the admin server shows: 100, as for previous versions.
pub const PROBLEMS_SHOWN: usize = 100;
/// Listeners that the admin server names of a port that is down, and policies of a key set that is missing: 8, enough
/// to find the others.
pub const OWNERS_SHOWN: usize = 8;
/// Bytes logged of any field received from a peer: 1 KiB.
pub const LOG_FIELD_BYTES: usize = KIB;

/// Free bytes of a chunk below which it is passed on: 1 KiB; longer lines are rare and may make it
/// grow.
pub const LOG_LINE_ROOM_BYTES: usize = KIB;
/// Candidates of one selection in a trace: 100.
pub const TRACE_CANDIDATES: usize = 100;
/// Response series counted by a shard, by method, status, reason and backend: half a million, 12
/// MiB at most; further ones are counted as one.
pub const SERIES: usize = 512 * 1024;
/// Interval of log lines that any client can cause (HTTP/2 abuse, refused connections), per shard: 1 s; the counters include all.
pub const LOG_PAUSE: Duration = Duration::from_secs(1);

// Configuration.

/// Changed resources from which on the mapped code of the program is returned together with free
/// memory: 256, so that what a large load used does not stay with the process.
pub const TRIM_AFTER_CHANGES: usize = 256;
/// How long after an update with that many resources both are returned: 1 s, so that it is acknowledged,
/// and the next one is not delayed: whoever may create as many objects could delay the changes of all.
pub const TRIM_AFTER_LARGE: Duration = Duration::from_secs(1);
/// Least time between two returns of the mapped code: 1 minute. Pages that
/// requests use are mapped again by page faults, some hundred of them, within a millisecond of CPU.
pub const UNMAP_INTERVAL: Duration = Duration::from_mins(1);
/// How long after the last smaller update free memory is returned: 3 s, so that no change of a series
/// waits for it.
pub const TRIM_WHEN_QUIET: Duration = Duration::from_secs(3);
/// Longest interval of checking for expired certificates: 1 h, since clocks are set and machines
/// sleep.
pub const CLOCK_CHECK_INTERVAL: Duration = HOUR;
/// Interval of retrying to listen on an unavailable port: 3 s, so that a port freed by another
/// process is taken soon.
pub const BIND_RETRY: Duration = Duration::from_secs(3);
/// Interval of checking whether shards have released old snapshots: 1 s.
pub const SNAPSHOT_SWEEP: Duration = Duration::from_secs(1);
/// Shortest TTL of a resolved address, whatever its record says: 1 s.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(1);
/// Longest TTL of a resolved address: 5 min, so that a wrong record does not persist for a day.
pub const DNS_TTL_MAX: Duration = Duration::from_mins(5);
/// Lookups in progress: 128, shared by the namespaces of backends like [`JWKS_FETCHES`]. A name whose
/// servers do not respond takes a place for some 10 s.
pub const DNS_LOOKUPS: usize = 128;
/// Wait after a name's first failed lookup: 1 s, doubled after each further one.
pub const DNS_RETRY: Duration = Duration::from_secs(1);
/// Longest wait after a failed lookup: 1 min.
pub const DNS_RETRY_MAX: Duration = MINUTE;
/// How long the first configuration waits for its names to resolve and its key sets to be fetched:
/// 2 s, so that the first requests find both. The proxy serves nothing yet.
pub const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Time that changes wait for new names to resolve: 20 ms, enough for a nearby DNS server.
pub const DNS_CHANGE_WAIT: Duration = Duration::from_millis(20);
/// Interval in which all changes together wait for at most `DNS_CHANGE_WAIT`: 10 s. Names that do
/// not resolve, which anybody may configure, then delay changes for a five-hundredth of the time.
pub const DNS_WAIT_INTERVAL: Duration = Duration::from_secs(10);

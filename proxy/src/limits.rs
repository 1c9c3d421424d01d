//! Every limit and timeout of the data plane: its unit, its default and the reason for it.
//!
//! [`Limits`] holds those that a policy can change; the constants here hold for every connection. A
//! bare number anywhere else is a mistake. Values that a policy gives for all shards are split by
//! [`per_shard`].

use std::num::NonZeroU32;
use std::time::Duration;

use xds::model;

mod controller;
mod overload;
mod policy;
mod router;

pub use controller::*;
pub use overload::*;
pub use policy::{Limits, per_shard, resolve};
pub use router::*;

const KIB: usize = 1024;
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

// Buffers and work.

/// Bytes of a pooled buffer: 64 KiB, what a direction of a message holds of a body. With 16 KiB, a
/// 16 KiB POST took twice the time.
pub const BUFFER_BYTES: usize = 64 * KIB;
/// Bytes of the smaller buffer in which a message is waited for: 20 KiB, which is 16 KiB of a body
/// and its head. Many connections wait at once, and what they wait in pushes everything else out of
/// the processor's cache: with large ones, a response of 64 KiB cost a tenth more.
pub const SMALL_BUFFER_BYTES: usize = 20 * KIB;
/// Bytes kept free in front of a buffer, for the head that we write anew: 4 KiB.
pub const BUFFER_HEADROOM_BYTES: usize = 4 * KIB;
/// Bytes of the largest head any policy can allow: spans of a head are 16 bits wide.
pub const MAX_HEAD_BYTES: u32 = 65_535;
/// Digits of a chunk's size: 16, which are 64 bits.
pub const CHUNK_SIZE_DIGITS: u8 = 16;
/// Bytes of a chunk's extensions, which nobody uses: 256. CVE-2023-39326 and others made servers
/// read them without an end.
pub const CHUNK_EXTENSION_BYTES: u16 = 256;
/// Bytes of a trailer section, which is held in memory: 8 KiB, many times what anybody sends.
pub const MAX_TRAILER_BYTES: usize = 8 * KIB;
/// Fields of a trailer section: 64.
pub const MAX_TRAILER_FIELDS: usize = 64;
/// Options of a Connection field: 32. Every field of a head is compared with each, and its work
/// has to stay linear.
pub const MAX_CONNECTION_OPTIONS: usize = 32;
/// Bytes of a file of configuration: 64 MiB, some hundred thousand routes.
pub const CONFIGURATION_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes between two samples of the heap profile, on average: 512 KiB, as in Go and tcmalloc. A
/// request allocates nothing, so what is sampled is the life of the process.
pub const HEAP_SAMPLING_BYTES: u32 = 512 * 1024;
/// Samples of the heap profile that live at once: 16 384, which stand for 8 GiB, in a table of half a
/// MiB; samples beyond that are never noted as freed.
pub const HEAP_LIVE_SAMPLES: usize = 16 * 1024;
/// Stacks of the heap profile that are told apart: 4096, 1.8 MiB of addresses; those above it are one.
pub const HEAP_STACKS: usize = 4096;
/// Frames of a stack in it: 48, deep enough for async code, whose frames are many.
pub const HEAP_FRAMES: usize = 48;
/// Shards whose allocations are counted each for itself: 256, more than a process has cores that it
/// would use. Those above it count as the rest of the process.
pub const HEAP_SHARDS: usize = 256;
/// Connections that went idle, and buffers freed because nobody needed them between two sweeps, before
/// a shard has the allocator give memory back to the system: 16; fewer are not worth its time.
pub const TRIM_AFTER: usize = 16;
/// Ticks between two looks whether they are so many: 2 (200 ms), so that a burst has given its memory
/// back a second after its end.
pub const TRIM_TICKS: u32 = 2;
/// Free buffers of each size, and working memories of requests, that a shard keeps when a connection
/// goes idle: 32, as many as connections begin at once in two turns. Those in excess are freed at
/// once: what an idle connection gives up, nobody is about to need.
pub const SPARE_BUFFERS: usize = 32;
/// Bytes that a direction of a tunnel has carried before it does without our memory: 1 MiB; below
/// that the system calls cost more than the copies. A body that has passed so many may fill a pipe;
/// shorter ones are held back as in a buffer.
pub const SPLICE_AFTER: u64 = 1024 * 1024;
/// Bytes of a response's body that have yet to come when the rest of it does without our memory:
/// 32 KiB. A response of 64 KiB costs a quarter less then, one of 1 MiB less than half.
pub const SPLICE_FROM: u64 = 32 * 1024;
/// Bytes of a pipe between two sockets: 256 KiB, for fewer calls.
pub const SPLICE_PIPE_BYTES: i32 = 256 * 1024;
/// Pipes of a shard: 64 (16 MiB of the kernel's memory). One that a slow receiver does not empty stays
/// in use; directions in excess use buffers.
pub const SPLICE_PIPES: usize = 64;
/// Bytes that pass through a pipe before others have their turn: 4 MiB, about a millisecond.
pub const SPLICE_BYTES_PER_POLL: usize = 4 * 1024 * KIB;
/// Requests of a connection, pipelined or on streams, that are begun in one poll, before other
/// connections get their turn: 16, so that none starves its neighbours.
pub const REQUESTS_PER_POLL: u32 = 16;
/// Bytes of a body moved in one poll, likewise: 256 KiB, some 100 µs of copying, which makes little
/// of the 2 µs that a turn costs.
pub const BYTES_PER_POLL: usize = 256 * KIB;
/// Connections that one loop accepts in one poll, likewise: 16.
pub const ACCEPTS_PER_POLL: u32 = 16;
/// Bytes of a request's body that a mirror gets to lag behind by: 64 KiB, then it is dropped.
pub const MIRROR_BYTES: usize = 64 * KIB;
/// Bytes of a mirror's answer that are read for the sake of its connection: 1 MiB, then that is closed.
pub const MIRROR_ANSWER_BYTES: usize = 1024 * KIB;
/// File descriptors (`RLIMIT_NOFILE`) that are not for connections: 128, for rings, inboxes, logs,
/// files and look-ups.
pub const OWN_DESCRIPTORS: u64 = 128;
/// Descriptors of a shard that a bind takes: 2, its socket and the supervisor's.
pub const BIND_DESCRIPTORS: usize = 2;
/// Operations that a ring takes in one submission: 1024, more than one turn of the loop begins.
pub const RING_ENTRIES: u32 = 1024;
/// Completions that a ring holds at least: 2048, two turns of the loop.
pub const RING_MIN_COMPLETIONS: u32 = 2 * RING_ENTRIES;
/// Completions that a ring holds at most: 65 536; the kernel refuses more.
pub const RING_MAX_COMPLETIONS: u32 = 65_536;
/// Bytes of a PROXY protocol header, TLVs included: 4 KiB; those that carry a certificate's subject
/// stay below 2 KiB.
pub const PROXY_HEADER_BYTES: usize = 4 * KIB;
/// Bytes of a TLS client's first message, record headers included: 32 KiB, half a buffer; those with
/// post-quantum keys stay below 2 KiB.
pub const CLIENT_HELLO_BYTES: usize = 32 * KIB;
/// Bytes of a trusted hop's request id that is taken over: 64; ours have 36.
pub const REQUEST_ID_BYTES: usize = 64;
/// A fresh connection is handed to a shard that has so many clients fewer: 2; with 1 it would not
/// matter which of the two gets it.
pub const HANDOVER_GAP: u64 = 2;
/// And at least so many times fewer than we have clients ourselves: a 16th, since a hand-over costs
/// as much as half a connection does and evenness is not worth that where there are many.
pub const HANDOVER_SHARE: u64 = 16;
/// Accept loops of a listener on a shard: 4, which keeps the accept queue of a burst short.
pub const ACCEPT_LOOPS: usize = 4;

// Datagrams.

/// Bytes of the largest datagram: 64 KiB, what a length of 16 bits can say.
pub const DATAGRAM_BYTES: usize = 64 * KIB;
/// Datagrams of a socket that are taken before others have their turn: 64, as many as a default
/// receive buffer holds of the usual size.
pub const DATAGRAMS_PER_POLL: usize = 64;
/// Sessions of datagrams of a listener on a shard: 16 384, and no more than the shard may have
/// clients: each takes a descriptor.
pub const UDP_SESSIONS: usize = 16 * 1024;
/// Where there are too many sessions, an answered one that was quiet for this long makes room: 5 s.
pub const UDP_YIELD_AFTER: Duration = Duration::from_secs(5);
/// Between two looks for sessions that were quiet for too long: 1 s.
pub const UDP_SWEEP: Duration = Duration::from_secs(1);
/// For how long a listener that is gone still passes answers: 1 s.
pub const UDP_STOP_GRACE: Duration = Duration::from_secs(1);

// Time.

/// One tick of a shard's deadline wheel: 100 ms. Timeouts are seconds, so a tenth is exact enough.
pub const WHEEL_TICK: Duration = Duration::from_millis(100);
/// The turns on its core that a shard asks the kernel for: 100 µs, the shortest there are (Linux 6.12).
pub const SHARD_SLICE: Duration = Duration::from_micros(100);
/// Bytes read and dropped after a final answer, so that the client sees it and not a reset: 64 KiB.
pub const LINGER_BYTES: usize = 64 * KIB;
/// For how long they are read: 1 s.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// For how long requests are refused after an endpoint's connection found no descriptor: 1 s.
pub const OVERLOAD_SHORTAGE: Duration = Duration::from_secs(1);
/// Between two requests of a client's connection under overload: 2 s at most.
pub const OVERLOAD_KEEP_ALIVE: Duration = Duration::from_secs(2);
/// A connection ends up to so many percent before its age: 10, so that connections made at once do
/// not end at once.
pub const CONNECTION_AGE_JITTER_PERCENT: u32 = 10;
/// Without a byte for this long, a connection gives its buffer back: 1 s.
pub const PARK_AFTER: Duration = Duration::from_secs(1);
/// As [`PARK_AFTER`], of a client's connection where half of [`WAITING_BUFFERS`] wait: 300 ms, so that
/// a burst has given its memory back a second after its end.
pub const PARK_SOON_AFTER: Duration = Duration::from_millis(300);
/// Idle client connections of a shard that wait for a request with a buffer in hand: 256. Where one
/// more is idle, the one that has waited longest gives its buffer up, so that a burst of connections
/// does not cost 17 KB each.
pub const WAITING_BUFFERS: usize = 256;
/// And with those that have waited for less than a tick: 1024. A thousand clients at work have their
/// next requests on their way within that time, and giving buffers up would cost each of them.
pub const WAITING_BUFFERS_AT_ONCE: usize = 1024;
/// A pooled upstream connection idle for this long is closed: 60 s. Origins that give up earlier
/// (nginx waits 75 s, Node 5 s) are found out by the look, and by the replay where it is too late.
pub const POOL_IDLE_TIMEOUT: Duration = MINUTE;
/// Ticks between two sweeps of the idle upstream connections: 50 (5 s), fine enough for 60 s.
pub const POOL_SWEEP_TICKS: u32 = 50;
/// `Retry-After` of an answer given under overload: 1 s.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Connections that wait in a socket's queue to be accepted: 4096, a second's worth of a busy shard.
pub const ACCEPT_BACKLOG: i32 = 4096;
/// TCP keepalive probes start after this long without a byte: 60 s, before a NAT forgets.
pub const KEEPALIVE_AFTER: Duration = MINUTE;
/// Bytes a second that a receiver has to take while bytes wait for it, over the time that it may take
/// none for: 256, as a request's body has to give. One that takes less holds a buffer for nothing.
pub const RECEIVER_MIN_RATE: u32 = 256;
/// Looks at what it has taken, in that time: 4. It has a quarter more of it then, since the first look
/// has nothing to compare with.
pub const RECEIVER_LOOKS: u32 = 4;
/// A client to whom a response sends nothing for this long is looked at whether it is still there:
/// 5 s, so that streams nobody reads any more end soon.
pub const CLIENT_LOOK: Duration = Duration::from_secs(5);
/// A shard that does not start within this time never will: 10 s.
pub const SHARD_START_TIMEOUT: Duration = Duration::from_secs(10);
/// For how long the last lines of a log are waited for at the end: 1 s.
pub const LOG_STOP_PATIENCE: Duration = Duration::from_secs(1);
/// Pause before a dead shard is started again: 100 ms.
pub const SHARD_RESTART_PAUSE: Duration = Duration::from_millis(100);
/// For how long a WebSocket may take to answer our Close when we drain: 5 s, then it is reset.
pub const WEBSOCKET_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after an accept that failed for want of descriptors or memory: 100 ms.
pub const ACCEPT_PAUSE: Duration = WHEEL_TICK;
/// Looks at the queues of listening sockets that stop: 100 at most, with `QUEUE_PAUSE` between.
pub const QUEUE_LOOKS: u32 = 100;
/// Looks that have to find them empty: 20, the time of a handshake that had begun, on most networks.
pub const QUEUE_QUIET_LOOKS: u32 = 20;
/// Pause between two such looks: 1 ms, the shortest that a shard's timer knows.
pub const QUEUE_PAUSE: Duration = Duration::from_millis(1);
/// For how long sockets that were given up may be in the way of new ones on their port: 1 s, many
/// times what shards take to let go of them.
pub const HANDOVER: Duration = Duration::from_secs(1);
/// Pause between two looks whether they are gone: 2 ms.
pub const HANDOVER_PAUSE: Duration = Duration::from_millis(2);
/// Ticks over which a drain spreads the end of idle connections: 20 (2 s), so that not all clients
/// turn to the others at once.
pub const DRAIN_SPREAD_TICKS: usize = 20;
/// Idle connections that a drain ends in a tick whatever their number: 64, which nobody notices.
pub const DRAIN_BATCH: usize = 64;
/// For how long idle connections outlive their listener: 5 s. A request that comes meanwhile is
/// answered, and a listener that comes back finds them.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(5);
/// Ticks that the last operations of a shard that ends are waited for: 20 (2 s).
pub const STOP_TICKS: u32 = 20;
/// For how long a shard that was told to end is waited for: 5 s, more than twice those ticks. One
/// that is still there then is stuck, and would keep the process for ever.
pub const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// From SIGTERM until accepting stops: 5 s, what endpoint removal takes to reach every node.
pub const DRAIN_ACCEPT: Duration = Duration::from_secs(5);
/// Between two looks whether a drain is over: 20 ms.
pub const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// From SIGTERM until what is left is reset: 30 s.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(30);

/// Bytes of what a backend is told of a client's certificate: 4 KiB, half of what servers take of a
/// line. Names that do not fit are left out.
pub const CLIENT_CERTIFICATE_BYTES: usize = 4 * KIB;

// HTTP/2.

/// Streams that any policy can allow a client to have open: 250, fewer than are watched.
pub const MAX_H2_STREAMS: u32 = 250;
/// Streams of a client that are watched for resets: 256, more than it may have open; those above it
/// are refused before anything is done for them.
pub const H2_WATCHED_STREAMS: usize = 256;
/// Bytes of the largest window of a stream that any policy can allow: 16 MiB, which is 1 Gbit/s over a
/// round trip of 130 ms.
pub const MAX_H2_STREAM_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Bytes of the largest window of a connection that any policy can name: 64 MiB, which one client may
/// then have us hold.
pub const MAX_H2_CONNECTION_WINDOW_BYTES: u32 = 64 * 1024 * 1024;
/// Bytes that a peer may send on one stream before they were sent on: 64 KiB, a pooled buffer. It is
/// what we may come to hold of a body whose receiver stands still, and so a large upload waits for
/// us once every 64 KiB: 330 times in 20 MB, also where half of it is given back at a time. Over
/// HTTP/1 the kernel holds what we do not take; a stream has nobody else.
pub const H2_STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// Bytes of the largest window that HTTP/2 knows (RFC 9113 section 6.9.1): 2 GiB less one.
pub const MAX_H2_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// Bytes that an endpoint may send on a connection before they were sent on: as many as there can be.
/// Clients share the connection, so the windows of its streams bound what we hold: with 1 MiB for all,
/// the 16 responses that one client did not read kept those of all others from coming.
pub const H2_UPSTREAM_CONNECTION_WINDOW_BYTES: u32 = MAX_H2_WINDOW_BYTES;
/// Streams of a connection to an endpoint, whatever that allows: 32 767, whose windows fit into the
/// connection's.
pub const H2_UPSTREAM_STREAMS: u32 = H2_UPSTREAM_CONNECTION_WINDOW_BYTES / H2_STREAM_WINDOW_BYTES;
/// Bytes of one stream that wait for the socket, and of one send: 64 KiB.
pub const H2_SEND_BYTES: usize = 64 * KIB;
/// Bytes of a frame that we take: 16 KiB, the least that a peer may count on.
pub const H2_FRAME_BYTES: u32 = 16 * 1024;
/// Reads that may come without any wait before other connections get their turn: 4 (256 KiB).
pub const H2_READS_PER_POLL: u32 = 4;
/// Heads of one connection that are decoded in a turn of its shard: 16, as many as are begun in a
/// poll, and some 50 µs. Hundreds come in one read of a flood.
pub const H2_HEADS_PER_TURN: usize = 16;
/// `RST_STREAM` frames a second from a client: 100. Whoever cancels more has no change of mind.
pub const H2_RESETS_PER_SECOND: u32 = 100;
/// Streams over which a client's resets are judged: of 500, half may be cut short.
pub const H2_RESET_SAMPLE: u32 = 500;
/// Streams of one connection that we reset, whatever made us: 500 (CVE-2025-8671).
pub const H2_OWN_RESETS: u32 = 500;
/// PING frames a second, beside one after DATA of ours: 100.
pub const H2_PINGS_PER_SECOND: u32 = 100;
/// SETTINGS frames a second: 50.
pub const H2_SETTINGS_PER_SECOND: u32 = 50;
/// CONTINUATION frames of one head: 20, of a head that fits into two (CVE-2024-27316).
pub const H2_CONTINUATIONS: u32 = 20;
/// DATA frames without data that do not end a stream, in a connection's life: 100.
pub const H2_EMPTY_DATA: u32 = 100;
/// `WINDOW_UPDATE` and PRIORITY frames, each, that nothing gave reason for: 100.
pub const H2_FREE_FRAMES: u64 = 100;
/// And so many more for each stream, and `WINDOW_UPDATE` for each DATA frame sent: 10; peers that
/// give back 4 KiB at a time need 8.
pub const H2_FREE_FRAMES_EACH: u64 = 10;
/// Without a byte from a peer that owes one for this long, it is asked for a sign of life: 30 s.
pub const H2_PING_AFTER: Duration = Duration::from_secs(30);
/// For how long that sign is waited for: 15 s.
pub const H2_PING_PATIENCE: Duration = Duration::from_secs(15);
/// For how long an endpoint may take to begin to speak HTTP/2, to end a head, or to take bytes:
/// 10 s. Requests have patience of their own, and mostly less.
pub const H2_UPSTREAM_PATIENCE: Duration = Duration::from_secs(10);

// Upstreams.

/// Servers whose TLS sessions a shard remembers for each backend: 8; there is one, by name.
pub const RESUMABLE_SERVERS: usize = 8;
/// Interim responses (1xx) before a final one: 16, more than any origin has reason to send.
pub const INTERIM_RESPONSES: u32 = 16;

/// Draws of an endpoint before all are looked at one by one: 8. If half are out of question, one
/// choice in 256 comes to that.
pub const QUICK_DRAWS: u32 = 8;
/// A second draw has to score so many times the first one to replace it: 2, less is noise.
pub const CLEARLY_BETTER: f64 = 2.0;
/// One choice in so many goes to the endpoint drawn first, if that is idle: 32, so that one that was
/// slow once is asked again.
pub const PROBE_ONE_IN: u32 = 32;
/// Bytes of a message in a call of gRPC that a shard makes itself: 4 MiB, as servers of gRPC have
/// it by default.
pub const CALL_MESSAGE_BYTES: usize = 4096 * KIB;
/// Bytes of a request's body that are kept while an endpoint picker looks at it: 10 MiB, what the
/// pickers of the Inference Extension take; a body is sent on only when it is all there.
pub const PICKER_BODY_BYTES: usize = 10 * 1024 * KIB;
/// For how long an endpoint picker may be silent about a request: 10 s, since pickers hold requests back
/// while their pods are busy.
pub const PICKER_PATIENCE: Duration = Duration::from_secs(10);
/// For how long a response waits for what an endpoint picker changes in its head: 1 s.
pub const PICKER_RESPONSE_PATIENCE: Duration = Duration::from_secs(1);
/// Endpoints that such a call is tried at where nobody answers: 3.
pub const CALL_TRIES: usize = 3;
/// Timeout of a request to an external authorization server: 5 s. The client waits meanwhile.
pub const EXTERNAL_AUTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest response body of an authorization server that is passed on to the client: 64 KiB. A longer
/// one is left out.
pub const EXTERNAL_AUTH_ANSWER_BYTES: usize = 64 * KIB;
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
/// A request counts half after this long where shards are weighed against each other to say how an
/// endpoint fares: 10 s.
pub const RECENT_HALF_LIFE: Duration = Duration::from_secs(10);
/// Added to every latency when endpoints are compared: 1 ms. Below that, scheduling decides who is
/// quicker; with 100 µs, one of three equal endpoints on a fast network got 5 of 300 requests.
pub const LATENCY_FLOOR: Duration = Duration::from_millis(1);

// Tokens.

/// Bytes of a token, above which 401: 16 KiB, half a head; those of identity providers have one or
/// two, and what takes longer to read is not worth it.
pub const JWT_BYTES: usize = 16 * KIB;
/// How far the clocks of an issuer and of ours may be apart: 1 min.
pub const JWT_SKEW: Duration = MINUTE;
/// Keys tried for a token that names none: 4, so that garbage costs at most as many verifications.
pub const JWT_KEYS_TRIED: usize = 4;
/// Sets of the cache of verified tokens: 1024, with `JWT_CACHE_WAYS` slots each.
pub const JWT_CACHE_SETS: usize = 1024;
/// Slots of a set: 4; so 4096 tokens of a shard, and less than 1 MiB where they say little.
pub const JWT_CACHE_WAYS: usize = 4;
/// Bits of the modulus of an RSA key, at least: 2048; below that RSA is broken.
pub const JWT_RSA_BITS_MIN: usize = 2048;
/// And at most: 8192; above that one signature keeps a shard busy for longer than a request.
pub const JWT_RSA_BITS_MAX: usize = 8192;
/// Bytes of an issuer's key set: 1 MiB, a hundred times what the largest public ones have.
pub const JWKS_BYTES: usize = 1024 * KIB;
/// Keys of a key set: 100.
pub const JWKS_KEYS: usize = 100;
/// A key set is fetched again after this where neither policy nor answer says when: 5 min.
pub const JWKS_TTL: Duration = Duration::from_mins(5);
/// Shortest time that a key set is good for, whatever its answer says: 1 min.
pub const JWKS_TTL_MIN: Duration = MINUTE;
/// Longest time that a key set is good for: 24 h. It is also for how long keys stay in use that cannot
/// be fetched again; then nothing can be verified.
pub const JWKS_TTL_MAX: Duration = Duration::from_hours(24);
/// Time between two fetches because of tokens with an unknown key: 1 s. Made-up ones do not become a load
/// on the issuer, and however many there are, a token of a new key waits no longer than it may.
pub const JWKS_REFRESH: Duration = Duration::from_secs(1);
/// For how long a shard remembers that there is no such key: 30 s.
pub const JWKS_UNKNOWN: Duration = Duration::from_secs(30);
/// For how long a request with an unknown key waits for a fetch: 3 s. Issuers answer within a tenth
/// of a second, and may be busy where all their keys are new.
pub const JWKS_WAIT: Duration = Duration::from_secs(3);
/// When it first looks whether the fetch has ended: after 5 ms. Keys are published for all shards at once,
/// and none of them is woken.
pub const JWKS_LOOK: Duration = Duration::from_millis(5);
/// It looks half as often each time, but at least every 40 ms: as many as may wait then cost a shard
/// a hundredth of its time.
pub const JWKS_LOOK_MAX: Duration = Duration::from_millis(40);
/// Requests of a shard that wait so: 512; further ones get 503. Made-up keys may take all places, but
/// none for longer than until the next fetch, which tells them from new ones.
pub const JWKS_WAITING: usize = 512;
/// Keys that a shard remembers as unknown: 256, in places by hash, so 6 KiB.
pub const JWKS_UNKNOWN_KEYS: usize = 256;
/// To fetch a key set, from the connection to the last byte: 5 s.
pub const JWKS_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait after a first failed fetch: 1 s, doubled with every further one.
pub const JWKS_RETRY: Duration = Duration::from_secs(1);
/// Longest wait after a failed fetch: 1 min.
pub const JWKS_RETRY_MAX: Duration = MINUTE;
/// For how long a configuration waits for its new key sets: 2 s, so that its first requests can be
/// verified, and an issuer that is away holds nothing up.
pub const JWKS_FIRST_WAIT: Duration = Duration::from_secs(2);

// Observation.

/// Bytes of an access log chunk handed to the writer: 16 KiB, some eighty lines.
pub const LOG_CHUNK_BYTES: usize = 16 * KIB;
/// Chunks on their way to the writer, over all shards: 64 (1 MiB); what comes on top is dropped and
/// counted.
pub const LOG_QUEUED_CHUNKS: usize = 64;
/// Bytes of the program's log that wait for stderr: 4 MiB, what a configuration of ten thousand
/// mistakes has to say at once; what comes on top is dropped and counted.
pub const PROGRAM_LOG_BYTES: usize = 4096 * KIB;
/// Room that its buffers keep after such a flood: 64 KiB.
pub const PROGRAM_LOG_KEPT_BYTES: usize = 64 * KIB;
/// Bytes kept of any one field of a log line that came from a peer: 1 KiB.
pub const LOG_FIELD_BYTES: usize = KIB;

/// Room of a chunk for one more line, or it is handed over: 1 KiB; longer lines are rare and may make
/// it grow.
pub const LOG_LINE_ROOM_BYTES: usize = KIB;
/// Candidates of one selection that a trace tells of: 100. More would be cut by their reader anyway.
pub const TRACE_CANDIDATES: usize = 100;
/// Series of responses that a shard counts, by method, status, reason and backend: some half a
/// million, 12 MiB at most; what does not fit is counted as one.
pub const SERIES: usize = 512 * 1024;
/// Between two lines about peers that abuse HTTP/2, on a shard: 1 s; the counters tell of all.
pub const ABUSE_LOG_PAUSE: Duration = Duration::from_secs(1);

// Configuration.

/// Changes of a configuration that are applied at once, from which on the allocator gives memory back
/// after them: 256, so that what a large load has needed does not stay with the process.
pub const TRIM_AFTER_CHANGES: usize = 256;
/// Quiet after a change of a file before it is read: 2 ms, so that files written together are read
/// together. A file that is still being written is waited for apart from that.
pub const CHANGE_QUIET: Duration = Duration::from_millis(2);
/// Longest wait for that quiet, and for a writer to close its file: 100 ms.
pub const CHANGE_QUIET_MAX: Duration = Duration::from_millis(100);
/// A file that was written to and not closed since counts as half written for so long after the last
/// write: 5 s. Until then it says what it said before.
pub const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// A file that is empty all of a sudden says what it said before for so long: 1 s. Some editors
/// empty a file first and write it after.
pub const EMPTY_PATIENCE: Duration = Duration::from_secs(1);
/// Links that are followed one after the other on the way to a file: 40, as Linux does.
pub const MOST_LINKS: u32 = 40;
/// Bytes of a secret that seals session tokens, at least: 32, as many as HMAC-SHA256 makes of it.
pub const SESSION_KEY_BYTES: usize = 32;
/// A file that changed less than this before it was read is read again at every look: 2 s, since times
/// of files are no finer on some file systems, and two writes may leave the same.
pub const STAMP_GRAIN: Duration = Duration::from_secs(2);
/// Between two looks at files that the kernel does not watch for us: 2 s.
pub const FILE_POLL: Duration = Duration::from_secs(2);
/// Between two looks whether a certificate has expired: 1 h at most, since clocks are set and machines
/// sleep.
pub const CLOCK_LOOK: Duration = HOUR;
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
/// For how long the first configuration waits for answers to its names: 2 s, so that the first
/// requests find their backends, and an unreachable server does not keep us from serving.
pub const DNS_FIRST_WAIT: Duration = Duration::from_secs(2);
/// For how long a change waits for answers to its new names: 20 ms, what a server nearby takes. The
/// rest of the change does not wait for a far one.
pub const DNS_CHANGE_WAIT: Duration = Duration::from_millis(20);

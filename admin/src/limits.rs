//! Every limit of the servers, with its unit and reason.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Timeout for a shard to reply to a query: 100 ms. A shard that exceeds it is reported as stuck.
pub const SHARD_QUERY_TIMEOUT: Duration = Duration::from_millis(100);
/// Timeout for a request head of the admin server, including the idle time since the previous request:
/// 15 s. Its clients are people.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// The same of probes and scrapes: 2 s. They send a request at once.
pub const PROBE_HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a write without progress: 30 s.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a whole response, so that a slow reader cannot keep an old configuration in memory
/// forever: 10 min.
pub const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// Size of a request head: 16 KiB.
pub const HEAD_BYTES: usize = 16 * 1024;
/// Connections per server: 128, each with two buffers and a file descriptor. For a further one, the oldest
/// of the address with most of them is closed.
pub const MAX_CONNECTIONS: usize = 128;
/// Queue of connections that are not accepted yet: 4096, the default bound of Linux. What does not fit is
/// repeated by the client's kernel after a second, when a probe has failed.
pub const BACKLOG: i32 = 4096;
/// Texts of metrics in memory: 8, each of up to some megabytes. All scrapes at a time share one; a client
/// that has not read its response when this many newer ones were written is disconnected.
pub const KEPT_SCRAPES: u64 = 8;
/// Concurrent background jobs: 4; each uses a thread, and may keep an old configuration in memory.
pub const BACKGROUND_JOBS: usize = 4;
/// Niceness of the admin thread relative to shards: 10, a tenth of a contended core, which is enough to
/// respond to probes.
pub const ADMIN_NICENESS: i32 = 10;
/// Niceness of background threads: 19, the maximum, which is 1.5 % of a contended core.
pub const BACKGROUND_NICENESS: i32 = 19;
/// Size of a chunk of a streamed response: 64 KiB.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks of a streamed response queued for the client: 4 (256 KiB).
pub const QUEUED_CHUNKS: usize = 4;
/// Duration of a CPU profile in seconds: 1 to 300.
pub const PROFILE_SECONDS: RangeInclusive<u32> = 1..=300;
/// Default duration of a CPU profile: 10 s.
pub const PROFILE_SECONDS_DEFAULT: u32 = 10;
/// Samples per second of CPU time: 1 to 250; each costs a few microseconds.
pub const PROFILE_FREQUENCY: RangeInclusive<u32> = 1..=250;
/// Default samples per second: 99, which avoids lockstep with activity every 10 ms.
pub const PROFILE_FREQUENCY_DEFAULT: u32 = 99;
/// Interval of collecting samples of a CPU profile: 100 ms, in which a core has at most 25.
pub const PROFILE_PAUSE: Duration = Duration::from_millis(100);
/// Frames per stack in a CPU profile: 128, not counting inlined functions; outer frames are cut off.
pub const CPU_FRAMES: usize = 128;
/// Distinct stacks per CPU profile: 65 536 (at most 70 MiB), more than a core yields in four minutes at
/// the highest frequency; further stacks are counted by thread only.
pub const CPU_STACKS: usize = 65_536;
/// Events of a trace queued for the client: 1024; further ones are dropped and counted.
pub const QUEUED_EVENTS: usize = 1024;
/// Requests per trace: 10 000.
pub const MAX_TRACED_REQUESTS: u32 = 10_000;
/// Concurrent traces: 16; every request is compared with each of them.
pub const MAX_TRACES: usize = 16;
/// Interval of comments that keep an idle event stream alive: 1 s.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum of a trace's `timeout` parameter: 24 h.
pub const MAX_TRACE_TIMEOUT: Duration = Duration::from_hours(24);
/// Size of a log filter: 4 KiB.
pub const FILTER_BYTES: usize = 4 * 1024;
/// Tasks per shard in a response: 10 000; further ones are counted.
pub const MAX_TASKS: usize = 10_000;
/// Pause after a failed accept, such as for lack of file descriptors: 100 ms.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

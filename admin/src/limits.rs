//! Every limit of the servers, with its unit and reason.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A shard has this long to answer a question: 100 ms. One that has not by then is stuck, which is
/// an answer too.
pub const SHARD_PATIENCE: Duration = Duration::from_millis(100);
/// A client has this long to send a request's head, the pause between two requests included: 15 s.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// A client that takes no byte for this long is dropped: 30 s.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest that one answer may be under way, so that a trickling reader holds no old
/// configuration for ever: 10 min.
pub const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// Bytes of a request's head: 16 KiB.
pub const HEAD_BYTES: usize = 16 * 1024;
/// Connections to one server: 128; more are closed at once, so that a flood of them costs nothing.
pub const CONNECTIONS: usize = 128;
/// Long answers being made at a time: 4; each is a thread, and may hold an old configuration.
pub const BACKGROUND_JOBS: usize = 4;
/// How much nicer than a shard the admin servers' thread is: 10; a tenth of a core that others want,
/// so that a probe is answered there too.
pub const ADMIN_NICENESS: i32 = 10;
/// How much nicer threads of long answers are: 19, so as nice as can be; 1.5 % of a core that others
/// want.
pub const BACKGROUND_NICENESS: i32 = 19;
/// Bytes of one piece of a streamed answer: 64 KiB.
pub const PIECE_BYTES: usize = 64 * 1024;
/// Pieces of a streamed answer that wait for the client: 4 (256 KiB).
pub const PIECES_WAITING: usize = 4;
/// Seconds of a CPU profile: 1 to 300.
pub const PROFILE_SECONDS: RangeInclusive<u32> = 1..=300;
/// Seconds of a CPU profile that says none: 10.
pub const PROFILE_SECONDS_DEFAULT: u32 = 10;
/// Samples of a CPU profile for each second of CPU time: 1 to 250; each costs some microseconds.
pub const PROFILE_FREQUENCY: RangeInclusive<u32> = 1..=250;
/// Samples a second of a CPU profile that says none: 99, so as not to beat with what happens each
/// hundredth of a second.
pub const PROFILE_FREQUENCY_DEFAULT: u32 = 99;
/// Pause between two looks for samples of a CPU profile: 100 ms, in which a core has no more than 25.
pub const PROFILE_PAUSE: Duration = Duration::from_millis(100);
/// Functions of a stack in a CPU profile: 128, not counting what was inlined; what called the others
/// is left out.
pub const CPU_FRAMES: usize = 128;
/// Stacks of a CPU profile: 65 536 (at most 70 MiB), more than a core gives in four minutes at the
/// highest frequency; what is new after that counts for its thread.
pub const CPU_STACKS: usize = 65_536;
/// Events of a trace that wait for the client: 1024; what comes on top is lost, and counted.
pub const EVENTS_WAITING: usize = 1024;
/// Requests that one stream may trace: 10 000.
pub const TRACED_REQUESTS: u32 = 10_000;
/// Traces armed at a time: 16; each is looked at by every request while it is.
pub const TRACES: usize = 16;
/// A comment this often keeps a silent stream of events alive: each second.
pub const KEEPALIVE: Duration = Duration::from_secs(1);
/// The longest a trace may be armed by `timeout`: 24 h.
pub const TRACE_TIMEOUT_MAX: Duration = Duration::from_hours(24);
/// Bytes of a level filter: 4 KiB.
pub const FILTER_BYTES: usize = 4 * 1024;
/// Tasks of one shard in an answer: 10 000; the others are counted.
pub const TASKS_SHOWN: usize = 10_000;
/// Pause after an accept that failed for want of descriptors: 100 ms.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

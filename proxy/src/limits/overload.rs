//! Thresholds of the overload levels.

use std::time::Duration;

/// Delay of the event loop for each level of overload: 200 ms (connections end with their
/// response), 400 ms (idle ones end soon), 1 s (503), 2 s (no connections are accepted).
pub const OVERLOAD_LAG: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Consecutive late ticks that raise the level: 10, since a few can be caused by other processes on
/// the core.
pub const LATE_TICKS: u32 = 10;
/// Shares of the client limit at which the first two levels begin: 80 % and 90 %. At 100 % no
/// connections are accepted.
pub const OVERLOAD_ROOM_PERCENT: [usize; 2] = [80, 90];
/// Share of the memory limit in use at which each level begins: 80, 85, 90 and 95 %.
pub const OVERLOAD_MEMORY_PERCENT: [usize; 4] = [80, 85, 90, 95];
/// Interval of measuring the memory in use: 100 ms. A measurement costs about 30 µs, and in that
/// time a shard does not allocate a tenth of any sensible limit.
pub const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(100);

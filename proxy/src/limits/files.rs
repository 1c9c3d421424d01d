//! Limits of reading configuration files.

use std::time::Duration;

/// Quiet time after a file change before it is read: 2 ms, to read files of one change together.
pub const CHANGE_QUIET: Duration = Duration::from_millis(2);
/// Longest wait for that quiet time, and for a writer to close its file: 100 ms.
pub const CHANGE_QUIET_MAX: Duration = Duration::from_millis(100);
/// Time after the last write for which a file that was not closed counts as incomplete: 5 s. Until
/// then its previous content applies.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which the previous content of a suddenly empty file applies: 1 s. Some editors truncate
/// a file before writing it.
pub const EMPTY_FILE_TIMEOUT: Duration = Duration::from_secs(1);
/// Symbolic links followed to reach a file: 40, as in Linux.
pub const MAX_LINKS: u32 = 40;
/// A file that changed less than this before it was read is read again at every check: 100 ms, several
/// ticks of the clock that file systems take timestamps from.
pub const FILE_TIME_GRANULARITY: Duration = Duration::from_millis(100);
/// The same where timestamps are whole seconds: 2 s, the coarsest resolution of a file system.
pub const FILE_TIME_GRANULARITY_SECONDS: Duration = Duration::from_secs(2);
/// Interval of checking files that the kernel does not watch: 2 s.
pub const FILE_POLL: Duration = Duration::from_secs(2);

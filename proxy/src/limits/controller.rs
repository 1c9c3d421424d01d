//! Limits towards the controller.

use std::time::Duration;

/// Before the first try to connect again: up to 200 ms, doubled with every further one.
pub const CONTROLLER_RETRY: Duration = Duration::from_millis(200);
/// Longest wait before a further try: 15 s, so that a controller which comes back is noticed soon.
pub const CONTROLLER_RETRY_MAX: Duration = Duration::from_secs(15);
/// Shortest wait before any try: 20 ms. A controller that ends every stream at once is not contacted
/// again in a loop.
pub const CONTROLLER_RETRY_MIN: Duration = Duration::from_millis(20);
/// Between a change and the time it is kept for the next process: 2 s. Writing costs as much as there
/// is configuration, so it is not done for every change of many.
pub const LAST_GOOD_WAIT: Duration = Duration::from_secs(2);
/// Bytes of the file in which a configuration is kept: 1 GiB, far beyond any.
pub const LAST_GOOD_BYTES: u64 = 1024 * 1024 * 1024;

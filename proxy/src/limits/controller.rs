//! Limits towards the controller.

use std::time::Duration;

/// Wait before the first reconnect: up to 200 ms, doubled for each further attempt.
pub const CONTROLLER_RETRY: Duration = Duration::from_millis(200);
/// Longest wait before a further attempt: 15 s, so that a controller which comes back is noticed
/// soon.
pub const CONTROLLER_RETRY_MAX: Duration = Duration::from_secs(15);
/// Longest wait before a further attempt while nothing listens at the controller's address: 500 ms. Such
/// attempts take nothing from a controller, and a new one listens a few seconds after the last one has ended.
pub const CONTROLLER_RETRY_REFUSED_MAX: Duration = Duration::from_millis(500);
/// Shortest wait before any attempt: 20 ms. A controller that ends every stream at once is not
/// contacted again in a loop.
pub const CONTROLLER_RETRY_MIN: Duration = Duration::from_millis(20);
/// Interval of checking whether there is room for regular expressions that were refused for lack of it:
/// 5 s. If there is, a new stream is opened, which sends their resources again.
pub const ROOM_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Delay between a change and saving it for the next process: 2 s. Writing costs as much as there
/// is configuration, so it is not done for every change of many.
pub const LAST_GOOD_WAIT: Duration = Duration::from_secs(2);
/// Bytes of the file in which a configuration is saved: 1 GiB, far above any real one.
pub const LAST_GOOD_BYTES: u64 = 1024 * 1024 * 1024;

//! Durations as Gateway API writes them.

use std::time::Duration;

use xds::model::{GatewayDuration, Timeout};

/// `1m30s`.
pub(crate) fn of_duration(duration: Duration) -> String {
    GatewayDuration(duration).to_string()
}

/// `1m30s`, or `0s` for never; nothing where the default holds.
pub(crate) fn of_timeout(timeout: Timeout) -> Option<String> {
    match timeout {
        Timeout::Default => None,
        Timeout::Never => Some(of_duration(Duration::ZERO)),
        Timeout::After(time) => Some(of_duration(time)),
    }
}

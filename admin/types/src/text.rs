//! Durations in the Gateway API format.

use std::time::Duration;

use xds::model::{GatewayDuration, Timeout};

/// A duration as Gateway API writes it, such as `1m30s` (GEP-2257).
pub(crate) fn of_duration(duration: Duration) -> String {
    GatewayDuration(duration).to_string()
}

/// `1m30s`, `0s` for no timeout, or None for the default.
pub(crate) fn of_timeout(timeout: Timeout) -> Option<String> {
    match timeout {
        Timeout::Default => None,
        Timeout::Never => Some(of_duration(Duration::ZERO)),
        Timeout::After(time) => Some(of_duration(time)),
    }
}

//! Health and latency of endpoints.

use std::time::Duration;

/// Weight of the newest sample in the averages of health and latency: 0.3, so that five samples
/// make up five sixths of an average.
pub const EWMA_ALPHA: f64 = 0.3;
/// Half-life of an endpoint's measured latency without new samples: 1 s.
pub const LATENCY_HALF_LIFE: Duration = Duration::from_secs(1);
/// Half-life of requests when the shards' views of an endpoint are merged: 10 s.
pub const RECENT_HALF_LIFE: Duration = Duration::from_secs(10);
/// Added to every latency when endpoints are compared: 1 ms. Below that, scheduling noise decides;
/// with 100 µs, one of three equal endpoints on a fast network got 5 of 300 requests.
pub const LATENCY_FLOOR: Duration = Duration::from_millis(1);

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

/// Load of an endpoint that is preferred by where it is, compared with its usual one, beyond which others get the rest:
/// 1.4, so that a zone of three of four endpoints sends nothing elsewhere.
pub const LOCALITY_OVERLOAD: f64 = 1.4;
/// Time for which it is remembered what a zone had: 10 min, longer than a drain takes.
pub const LOCALITY_MEMORY: Duration = Duration::from_mins(10);
/// Changes of a zone within this time are remembered as one: 20 s, so that at most about 30 are, whatever changes.
pub const LOCALITY_SAMPLE: Duration = Duration::from_secs(20);
/// Interval at which a shard counts again which endpoints of each zone are in service: 100 ms.
pub const LOCALITY_REVIEW: Duration = Duration::from_millis(100);

/// Probes of health checks that a proxy begins in a second, of all endpoints: 2000. Where the intervals would
/// need more, they become longer.
pub const PROBES_PER_SECOND: u32 = 2_000;
/// Probes that begin at once after a pause: 20, those of 10 ms, so that a timer's millisecond costs none.
pub const PROBE_BURST: u32 = 20;
/// Probes in progress: 2048, each with a descriptor, of which [`super::OWN_DESCRIPTORS`] has room for 256: more are
/// in progress only where endpoints hang, and a lack of descriptors is no failure of theirs. Those of one service may take half of the places: all of its
/// endpoints may hang for as long as their timeout.
pub const PROBES_IN_FLIGHT: usize = 2_048;
/// Connections of HTTP/2 that are kept for the next probe: 256. Other probes make new ones.
pub const PROBE_CONNECTIONS: usize = 256;
/// Time between two lines of the log about probes that lack descriptors, memory or ports: 1 min.
pub const PROBE_SHORTAGE_LOG: Duration = Duration::from_mins(1);
/// Wait of a probe that found no place: 100 ms.
pub const PROBE_PLACE_WAIT: Duration = Duration::from_millis(100);
/// Time within which an endpoint that becomes ready is probed: 1 s, so that those of a new configuration are not
/// all probed at once.
pub const FIRST_PROBE_WITHIN: Duration = Duration::from_secs(1);
/// By how much of an interval each probe comes earlier or later: a fifth, so that proxies that started together
/// do not ask together.
pub const PROBE_JITTER: f64 = 0.2;
/// Bytes of the body that are read of a probe's response: 4 KiB, for the sake of servers that log an aborted one.
pub const PROBE_BODY_BYTES: usize = 4 * 1024;

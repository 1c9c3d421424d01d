//! Observability of the traffic: metrics and the access log.
//!
//! Shards write, other threads read; nothing here delays a request.

pub mod access_log;
pub mod causes;
pub mod counters;
pub mod external_auth;
pub mod handshakes;
pub mod hashes;
pub mod heartbeat;
pub mod log_writer;
pub mod panics;
pub mod picks;
pub mod program_log;
pub mod proxy_headers;
pub mod series;
pub mod shed;
pub mod thread_clock;

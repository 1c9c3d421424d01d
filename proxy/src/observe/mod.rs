//! What an operator sees of the traffic: counters and the access log.
//!
//! A shard writes, others read or carry away; nothing here makes a request wait.

pub mod access_log;
pub mod causes;
pub mod counters;
pub mod external_auth;
pub mod handshakes;
pub mod heartbeat;
pub mod log_writer;
pub mod panics;
pub mod picks;
pub mod program_log;
pub mod proxy_headers;
pub mod series;
pub mod shed;
pub mod thread_clock;

//! What an operator sees of the traffic: counters and the access log.
//!
//! A shard writes, others read or carry away; nothing here makes a request wait.

pub mod counters;
pub mod series;

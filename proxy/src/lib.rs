//! The data plane: one shard a core, each with its own sockets, pools, timers and counters.

// Nothing may lock or block on a shard. What is off the shards says so, file by file.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod args;
pub mod config;
pub mod cpu;
pub mod descriptors;
mod downstream;
pub mod driver;
pub mod failure;
mod forward;
pub mod http;
pub mod limits;
pub mod net;
pub mod observe;
pub mod policy;
mod relay;
mod request;
pub mod route;
pub mod shard;
pub mod sockets;
pub mod supervisor;
pub mod upstream;

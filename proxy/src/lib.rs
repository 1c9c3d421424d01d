//! The data plane: one shard a core, each with its own sockets, pools, timers and counters.

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

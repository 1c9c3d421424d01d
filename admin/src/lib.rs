//! The admin, metrics and readiness servers of a proxy.
//!
//! They run on a thread of their own; expensive work (dumps, compression, symbolization) runs on
//! low-priority threads, so that a probe never waits for a dump, and neither slows down requests. The
//! proxy provides [`Handles`] at the start: plain data and closures, so that this crate does not depend
//! on it. State that only a shard has is queried through its inbox ([`ShardQuery`]), with a timeout of
//! [`limits::SHARD_QUERY_TIMEOUT`].

pub mod address;
mod background;
mod certificates;
pub mod cgroup;
mod endpoint;
#[doc(hidden)]
pub mod fuzzing;
pub mod handles;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod pprof;
mod priority;
pub mod process;
mod query;
mod response;
mod scrapes;
mod server;
pub mod shard;
mod tasks;
pub mod upstreams;
pub mod watch;

pub use address::Address;
pub use handles::{ConfigView, Handles};
pub use log::LogControl;
pub use server::{BindError, BoundSockets, Server, Sockets, bind, start, start_for_process};
pub use shard::ShardQuery;
pub use upstreams::UpstreamStats;

//! What an operator sees of a proxy: the admin, metrics and readiness servers.
//!
//! They run on a thread of their own, and what takes long (dumps, compression) on threads of low
//! priority besides, so that a probe never waits for a dump and a request never for either. The
//! proxy hands over [`Handles`] at the start: plain data and closures, no type of its own. What only
//! a shard knows is asked through its inbox ([`Ask`]), and not waited for longer than
//! [`limits::SHARD_PATIENCE`].

pub mod address;
pub mod ask;
mod background;
mod certificates;
mod endpoint;
#[doc(hidden)]
pub mod fuzzing;
pub mod handles;
pub mod limits;
pub mod live;
pub mod log;
pub mod metrics;
pub mod pprof;
mod priority;
mod query;
mod server;
pub mod watch;

pub use address::Address;
pub use ask::Ask;
pub use handles::{Handles, View};
pub use live::Live;
pub use log::LogControl;
pub use server::{BindError, Bound, Server, Sockets, bind, start};

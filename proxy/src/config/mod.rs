//! The configuration as the shards use it: compiled off them, immutable, behind one pointer.
//!
//! `compile` makes a [`Snapshot`] of the model, `publish` hands it to the shards and takes it back.
//! Where the model comes from files, `local` does all that on a thread of its own, with `watch`,
//! `files` and `dns`.

pub mod check;
pub mod compile;
pub mod dns;
pub mod files;
pub mod local;
mod origin;
pub mod publish;
mod snapshot;
pub mod watch;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use snapshot::{
    Address, Bind, Cluster, ClusterIndex, Endpoint, Listener, Rule, RuleBackend, Snapshot,
};

/// The pointer that every shard reads and the configuration thread alone writes.
pub type Published = Arc<ArcSwap<Snapshot>>;

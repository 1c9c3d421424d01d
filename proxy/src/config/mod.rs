//! The configuration as the shards use it: compiled off them, immutable, behind one pointer.
//!
//! `compile` makes a [`Snapshot`] of the model, `publish` hands it to the shards and takes it back.
//! Where the model comes from files, `local` does all that on a thread of its own, with `watch`,
//! `files`, `dns` and `jwks`.

pub mod check;
pub mod compile;
pub mod dns;
pub mod files;
pub mod in_force;
pub mod jwks;
mod l4;
pub mod local;
mod origin;
pub mod publish;
mod snapshot;
pub mod watch;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use l4::{Carries, L4Backend, L4Routes, L4Rule, Opening};
pub use snapshot::{
    Accepts, Address, Bind, Cluster, ClusterIndex, Endpoint, Listener, Protection, Protocol, Rule,
    RuleBackend, Snapshot,
};

/// The pointer that every shard reads and the configuration thread alone writes.
pub type Published = Arc<ArcSwap<Snapshot>>;

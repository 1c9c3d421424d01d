//! The configuration as the shards use it: compiled off them, immutable, behind one pointer.

mod snapshot;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use snapshot::{
    Address, Bind, Cluster, ClusterIndex, Endpoint, Listener, Rule, RuleBackend, Snapshot,
};

/// The pointer that every shard reads and the configuration thread alone writes.
pub type Published = Arc<ArcSwap<Snapshot>>;

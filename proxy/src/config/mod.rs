//! The configuration as the shards use it: compiled off them, immutable, behind one pointer.
//!
//! A source says how the model changes; `apply` puts that in force: with `dns` and `jwks` around it,
//! `compile` makes a [`Snapshot`], and `publish` hands it to the shards and takes it back. `local` is
//! the source of configurations in files, with `watch` and `files`; `xds` is the one from a
//! controller. The source that is used owns the thread.

pub mod apply;
pub mod check;
pub mod compile;
pub mod dns;
mod endpoints;
mod external_auth;
pub mod files;
pub mod in_force;
pub mod jwks;
mod l4;
pub mod local;
mod origin;
pub mod publish;
mod snapshot;
pub mod watch;
pub mod xds;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use crate::memory::Chunked;
pub use endpoints::{Draw, EndpointRef, EndpointSet, Identity};
pub use external_auth::ExternalAuth;
pub use l4::{Carries, L4Backend, L4Routes, L4Rule, Opening};
pub use snapshot::{
    Accepts, Address, Bind, Cluster, ClusterIndex, Endpoint, Listener, Picker, Protection,
    Protocol, Rule, RuleBackend, Snapshot,
};

/// The pointer that every shard reads and the configuration thread alone writes.
pub type Published = Arc<ArcSwap<Snapshot>>;

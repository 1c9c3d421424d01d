//! The configuration as the shards use it: compiled off the shards, immutable, behind one pointer.
//!
//! A source sends changes of the model; `apply` applies them: with `dns` and `jwks`, `compile`
//! makes a [`Snapshot`], and `publish` hands it to the shards and frees it later. `local` is the
//! source that reads files, with `watch` and `files`; `xds` is the one for a controller. The source
//! owns the thread.

pub mod apply;
pub mod check;
mod cluster;
pub mod compile;
pub mod dns;
mod draw;
mod endpoints;
mod error_pages;
mod external_auth;
pub mod files;
mod hash_table;
mod hashed;
mod health_check;
pub(crate) mod held;
pub mod in_force;
mod jobs;
pub mod jwks;
mod l4;
pub mod local;
mod locality;
mod locality_history;
mod origin;
mod preference;
pub mod publish;
mod rule_policies;
pub mod session_keys;
mod snapshot;
mod socket;
mod timer;
mod warming;
pub mod watch;
pub mod xds;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use crate::memory::{Chunked, ChunkedEntries};
pub use cluster::{
    Address, Cluster, ClusterHealthCheck, ClusterIndex, Endpoint, EndpointProbe, Picker,
    Protection, Protocol, RetryLimit,
};
pub use draw::Draw;
pub use endpoints::{Candidates, EndpointIdentity, EndpointRef, EndpointSet};
pub use error_pages::PagesInForce;
pub use external_auth::ExternalAuth;
pub use hash_table::HashTable;
pub(crate) use hashed::LoadGuard;
pub use hashed::{BoundedLoads, EndpointLoad, Hashed};
pub use health_check::{
    CheckLimit, CheckedEndpoints, LimitedCheck, ProbeCounts, ProbeState, Standing,
};
pub use l4::{BindProtocol, L4Backend, L4Routes, L4Rule, TrafficMode};
pub(crate) use locality::Shares;
pub use locality::{Locality, Location, Place, Tier};
pub use preference::Preference;
pub use rule_policies::{HeadPolicies, RuleAuthentication, RuleAuthorization, RuleExtras};
pub use snapshot::{
    Accepts, BackendExtras, Bind, BindSettings, Listener, ListenerSettings, PlacedRule, Rule,
    RuleBackend, RuleCounts, RuleTimeouts, Sessions, Snapshot,
};
pub use warming::Warming;

/// The pointer that every shard reads, and only the configuration thread writes.
pub type Published = Arc<ArcSwap<Snapshot>>;

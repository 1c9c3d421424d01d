//! The status writer: the leader writes the statuses of objects to the cluster.
//!
//! [`plan`] computes, without I/O, the changes to the status of one object: it takes the
//! translator's result, lets [`programmed`] add the state of proxies and deployment, and [`merge`]s
//! it with the entries of others. [`queue`](crate::queue) decides the order and pace, and
//! [`StatusWriter`] does the I/O.

mod acks;
mod blamed;
pub mod events;
pub mod merge;
mod metrics;
pub mod plan;
mod presence;
pub mod programmed;
mod send;
mod symptoms;
mod warnings;
mod writer;

pub use events::Events;
pub use metrics::StatusMetrics;
pub use programmed::Deployment;
pub use writer::StatusWriter;

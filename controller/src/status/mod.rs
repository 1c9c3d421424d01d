//! The status writer: what users are told of their objects, written to the cluster by the leader.
//!
//! [`plan`] works out, without I/O, what has to change in the status of one object: it takes what the
//! translator says, lets [`programmed`] put in what proxies and the deployment have to say, and
//! [`merge`]s it with what others have written. [`queue`](crate::queue) decides which object is looked at when, and
//! [`StatusWriter`] does it.

pub mod merge;
mod metrics;
pub mod plan;
pub mod programmed;
pub mod refusal;
mod writer;

pub use metrics::StatusMetrics;
pub use programmed::Deployment;
pub use refusal::Events;
pub use writer::StatusWriter;

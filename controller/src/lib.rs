//! The control plane: reads the Gateway API objects of a cluster, configures the proxies, and
//! reports the status of the objects.
//!
//! Configuration flows one way:
//!
//! 1. `watch` follows the objects of every kind and admits each.
//! 2. `translation` gives them in batches to [`translate::Translator`], encodes what changed and hands
//!    it out as [`outputs`].
//! 3. The xDS server sends resources to proxies; the status writer and the deployer, on the leader
//!    alone, write statuses and what a Gateway runs on. What they learn (addresses, acknowledgements)
//!    comes back by [`outputs`] too.
//!
//! Every part is a task that takes a [`Context`](context::Context) and ends on
//! [`Stopping`](stopping::Stopping).

pub mod args;
pub mod change_tracker;
pub mod context;
pub mod deploy;
pub mod election;
pub mod gateway_class;
pub mod health;
pub mod leadership;
pub mod log;
pub mod metrics;
pub mod outputs;
pub mod queue;
pub mod selectors;
pub mod server;
pub mod status;
pub mod stopping;
#[cfg(test)]
mod testing;
pub mod translation;
pub mod watch;
pub mod xds;

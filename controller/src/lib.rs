//! The control plane: reads the Gateway API objects of a cluster, configures the proxies, and
//! reports the status of the objects.
//!
//! Configuration flows one way:
//!
//! 1. `watch` follows the objects of every kind, and validates each.
//! 2. `translation` passes changes in batches to [`translate::Translator`], encodes the resources that
//!    changed, and publishes them as [`outputs`].
//! 3. The xDS server sends resources to proxies. On the leader only, the status writer updates the
//!    status of objects, and the deployer applies the Deployments and Services that Gateways run on.
//!    Assigned addresses and acknowledgements flow back through [`outputs`] too.
//!
//! Every part is a task that takes a [`Context`](context::Context) and ends on
//! [`Stopping`](stopping::Stopping).

pub mod accounts;
pub mod args;
pub mod change_tracker;
pub mod cluster_domain;
pub mod context;
pub mod deploy;
pub mod election;
pub mod gateway_class;
pub mod health;
pub mod isolation;
pub mod leadership;
pub mod listener_binds;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod outputs;
pub mod queue;
pub mod seccomp;
pub mod selectors;
pub mod session_keys;
mod shared_values;
pub mod status;
pub mod stopping;
#[cfg(test)]
mod testing;
pub mod translation;
pub mod watch;
pub mod xds;

//! The deployer: the leader applies the workloads of Gateways to the cluster.
//!
//! [`render`](render::render) builds the objects of a Gateway, without I/O, from its
//! `infrastructure`, its [`GatewayParameters`](parameters::Parameters) and the controller's
//! settings. [`Deployer`] applies them, watches them, and reports the assigned addresses to the
//! translator.

mod addresses;
mod applier;
mod at_once;
mod attempt;
mod availability;
mod child;
mod deployer;
pub mod labels;
mod looks;
mod others;
mod overlay;
pub mod parameters;
mod pod_counts;
pub mod ports;
pub mod render;
mod settings;
mod watch;
mod workload_problem;

pub use addresses::NodeReading;
pub use child::{Child, ChildKind};
pub use deployer::Deployer;
pub use settings::Settings;
pub use workload_problem::{WorkloadProblem, report as report_workload};

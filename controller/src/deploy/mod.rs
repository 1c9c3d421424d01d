//! The deployer: what a Gateway runs on, applied to the cluster by the leader.
//!
//! [`render`](render::render) makes the objects of a Gateway, without I/O, of its `infrastructure`, its
//! [`GatewayParameters`](parameters::Parameters) and what the controller was started with. [`Deployer`]
//! applies them, watches them, and tells the translator the addresses that the cluster assigned.

mod applier;
mod child;
mod deployer;
pub mod labels;
mod overlay;
pub mod parameters;
pub mod ports;
pub mod render;
mod watch;

pub use child::{Child, ChildKind};
pub use deployer::{Deployer, Settings};

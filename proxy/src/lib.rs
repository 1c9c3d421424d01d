//! The data plane.

pub mod config;
pub mod failure;
pub mod http;
pub mod limits;
pub mod observe;
pub mod policy;
pub mod route;
pub mod shard;
pub mod upstream;

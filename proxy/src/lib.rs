//! The data plane.

pub mod failure;
pub mod http;
pub mod limits;
pub mod observe;
pub mod shard;
pub mod upstream;

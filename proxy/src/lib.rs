//! The data plane.

pub mod http;
pub mod policy;

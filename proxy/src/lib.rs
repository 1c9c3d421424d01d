//! The data plane.

pub mod http;

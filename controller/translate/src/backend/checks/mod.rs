//! Validation of backends.

pub(crate) mod pool;
pub(crate) mod x_backend;

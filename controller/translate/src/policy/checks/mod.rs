//! Validation of policies.

pub(crate) mod answer;
pub(crate) mod backend_tls;
pub(crate) mod backend_traffic;
pub(crate) mod own;
pub(crate) mod presumed;

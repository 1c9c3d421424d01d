//! Validation of Kubernetes' own kinds, and of references.

pub(crate) mod core;
pub(crate) mod reference;
pub(crate) mod reference_grant;

//! Objects of every kind: the table of kinds, the store, what units read of it, and what all kinds have in common.

pub(crate) mod admission;
#[expect(
    missing_docs,
    reason = "most fields are documented by the references of Kubernetes and Gateway API"
)]
pub mod api;
pub(crate) mod authority;
pub(crate) mod certificate;
pub(crate) mod checks;
pub(crate) mod grants;
pub(crate) mod index;
pub mod kinds;
pub(crate) mod object_index;
pub mod object_ref;
pub(crate) mod owner;
pub(crate) mod reader;
pub(crate) mod store;

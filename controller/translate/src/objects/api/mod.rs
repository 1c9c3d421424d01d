//! The Kubernetes objects that are read, as serde types of our own.
//!
//! A type holds what a user writes, without `apiVersion`, `kind` and `status`. Defaults of the API
//! are serde defaults, so that an object is complete once it is parsed; everything else that an
//! API server would reject is rejected by `admit` first.

mod config;
mod meta;
mod reference_grant;
mod resource;
mod selector;
mod text;
mod trust_bundle;

pub(crate) use config::AUTHORITIES;
pub use config::{Base64, ConfigMap, Namespace, READ_ENTRIES, Secret};
pub use meta::{Labels, ObjectMeta};
pub use reference_grant::{
    ReferenceGrant, ReferenceGrantFrom, ReferenceGrantSpec, ReferenceGrantTo,
};
pub use resource::Resource;
pub use selector::{LabelSelector, SelectorOperator, SelectorRequirement};
pub use text::Text;
pub use trust_bundle::{ClusterTrustBundle, ClusterTrustBundleSpec};

/// Reads `null` as the default: Go encodes empty lists and maps as `null`.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    <Option<T> as serde::Deserialize>::deserialize(deserializer).map(Option::unwrap_or_default)
}

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

/// The group of Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of the Gateway API Inference Extension.
pub const INFERENCE_GROUP: &str = "inference.networking.k8s.io";
/// The group of experimental kinds of Gateway API.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";
/// The group of our own kinds.
pub const OWN_GROUP: &str = "gateway-system.io";

/// The kind of classes of Gateways.
pub const CLASS_KIND: &str = "GatewayClass";
/// The kind of the parameters that a Gateway is deployed with.
pub const PARAMETERS_KIND: &str = "GatewayParameters";

/// Reads `null` as the default: Go encodes empty lists and maps as `null`.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    <Option<T> as serde::Deserialize>::deserialize(deserializer).map(Option::unwrap_or_default)
}

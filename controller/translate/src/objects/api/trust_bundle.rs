//! ClusterTrustBundle.

use serde::{Deserialize, Serialize};

use super::ObjectMeta;

/// Certificates of authorities, for a whole cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct ClusterTrustBundle {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ClusterTrustBundleSpec,
}

/// The contents of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTrustBundleSpec {
    /// The signer of the certificates; the bundle's name then begins with its name.
    #[serde(default)]
    pub signer_name: String,
    /// The certificates, in PEM.
    pub trust_bundle: String,
}

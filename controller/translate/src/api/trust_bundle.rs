//! ClusterTrustBundle.

use serde::{Deserialize, Serialize};

use super::ObjectMeta;

/// Certificates of authorities, for a whole cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct ClusterTrustBundle {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it holds.
    pub spec: ClusterTrustBundleSpec,
}

/// What a bundle holds.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTrustBundleSpec {
    /// Whose certificates they are, which its name begins with then.
    #[serde(default)]
    pub signer_name: String,
    /// The certificates, in PEM.
    pub trust_bundle: String,
}

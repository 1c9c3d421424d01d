//! ReferenceGrant.

use serde::{Deserialize, Serialize};

use super::ObjectMeta;

/// A ReferenceGrant: lets objects of other namespaces refer to objects of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct ReferenceGrant {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ReferenceGrantSpec,
}

/// Permitted references: from every `from` to every `to`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct ReferenceGrantSpec {
    #[serde(default)]
    pub from: Vec<ReferenceGrantFrom>,
    #[serde(default)]
    pub to: Vec<ReferenceGrantTo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrantFrom {
    pub group: String,
    pub kind: String,
    pub namespace: String,
}

/// The kinds and names that may be referred to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrantTo {
    pub group: String,
    pub kind: String,
    /// Name; if omitted, every object of the namespace.
    #[serde(default)]
    pub name: Option<String>,
}

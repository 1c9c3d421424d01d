//! ReferenceGrant.

use serde::{Deserialize, Serialize};

use super::ObjectMeta;

/// A ReferenceGrant: lets objects of other namespaces refer to objects of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct ReferenceGrant {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is granted.
    pub spec: ReferenceGrantSpec,
}

/// What is granted: every `from` to every `to`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    #[serde(default)]
    pub from: Vec<ReferenceGrantFrom>,
    /// To what.
    #[serde(default)]
    pub to: Vec<ReferenceGrantTo>,
}

/// Who may refer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrantFrom {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
}

/// What may be referred to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrantTo {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name; every one of the namespace where there is none.
    #[serde(default)]
    pub name: Option<String>,
}

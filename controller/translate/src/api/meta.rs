//! What every Kubernetes object has.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use xds::model::ObjectName;

/// The metadata of an object, as far as it is read. `resourceVersion` is not: every write of a status
/// changes it, and two objects that differ in nothing else are equal.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; empty for kinds without one.
    #[serde(default)]
    pub namespace: String,
    /// Its labels.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub annotations: BTreeMap<String, String>,
    /// Tells it from an object of the same name before or after it; empty for an object from a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// When it was created; unknown for an object from a file.
    #[serde(default)]
    pub creation_timestamp: Option<Timestamp>,
    /// Since when it is being deleted: it is there until its finalizers are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Counts the changes of its spec; 0 for an object from a file.
    #[serde(default)]
    pub generation: i64,
}

impl ObjectMeta {
    /// Namespace and name.
    #[must_use]
    pub fn object_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }

    /// Seconds from 1970 to its creation; 0 where that is unknown, so equal age.
    #[must_use]
    pub fn created(&self) -> i64 {
        self.creation_timestamp.map_or(0, Timestamp::as_second)
    }
}

//! Metadata of Kubernetes objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xds::model::ObjectName;
use xds::small_map::SmallMap;

/// The metadata of an object, as far as it is read. `resourceVersion` is not: every write of a status
/// changes it, and two objects that differ in nothing else are equal.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    #[serde(default)]
    pub name: String,
    /// Its namespace; empty for kinds without one.
    #[serde(default)]
    pub namespace: String,
    #[serde(default, deserialize_with = "read", serialize_with = "write")]
    pub labels: Labels,
    #[serde(default)]
    pub annotations: Annotations,
    /// UID, which distinguishes it from earlier and later objects of the same name; empty for an
    /// object from a file.
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

/// The labels of an object, in little memory: most objects have none, and EndpointSlices, of which
/// there are many, need one.
pub type Labels = SmallMap<String, String>;

/// The annotations of an object. They can be large and mean nothing here, so they are checked and not
/// kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations;

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    let labels = Option::<BTreeMap<String, String>>::deserialize(deserializer)?;
    Ok(labels.into_iter().flatten().collect())
}

fn write<S: Serializer>(labels: &Labels, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels)
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(|_| Self)
    }
}

impl Serialize for Annotations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(&Labels::default(), serializer)
    }
}

impl ObjectMeta {
    #[must_use]
    pub fn object_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }

    /// Creation time in seconds since 1970; 0 if unknown, which ranks as equal age.
    #[must_use]
    pub fn created(&self) -> i64 {
        self.creation_timestamp.map_or(0, Timestamp::as_second)
    }
}

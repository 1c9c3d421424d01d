//! Metadata of Kubernetes objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xds::model::ObjectName;
use xds::small_map::SmallMap;

use super::Text;

/// The metadata of an object, as far as it is read. `resourceVersion` is not: every write of a status
/// changes it, and two objects that differ in nothing else are equal.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(from = "WrittenMeta", into = "WrittenMeta")]
pub struct ObjectMeta {
    /// Its name, and its namespace, which is empty for kinds without one.
    pub name: ObjectName,
    pub labels: Labels,
    /// What an API server sets; nothing for an object from a file.
    set_by_server: Option<Box<SetByServer>>,
}

/// The metadata that an API server sets.
#[derive(Debug, Clone, Default, PartialEq)]
struct SetByServer {
    uid: Box<str>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    generation: i64,
}

/// Metadata as it is written.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMeta {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    namespace: Text,
    #[serde(default, deserialize_with = "read", serialize_with = "write")]
    labels: Labels,
    #[serde(default)]
    annotations: Annotations,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    uid: Box<str>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    generation: i64,
}

impl From<WrittenMeta> for ObjectMeta {
    fn from(written: WrittenMeta) -> Self {
        let set_by_server = SetByServer {
            uid: written.uid,
            creation_timestamp: written.creation_timestamp,
            deletion_timestamp: written.deletion_timestamp,
            generation: written.generation,
        };
        let is_set = set_by_server != SetByServer::default();
        Self {
            name: ObjectName::of_shared(written.namespace.to_shared(), written.name.to_shared()),
            labels: written.labels,
            set_by_server: is_set.then(|| Box::new(set_by_server)),
        }
    }
}

impl From<ObjectMeta> for WrittenMeta {
    fn from(metadata: ObjectMeta) -> Self {
        let set_by_server = metadata.set_by_server.map(|it| *it).unwrap_or_default();
        Self {
            name: (&*metadata.name.name).into(),
            namespace: (&*metadata.name.namespace).into(),
            labels: metadata.labels,
            annotations: Annotations,
            uid: set_by_server.uid,
            creation_timestamp: set_by_server.creation_timestamp,
            deletion_timestamp: set_by_server.deletion_timestamp,
            generation: set_by_server.generation,
        }
    }
}

impl Default for ObjectMeta {
    fn default() -> Self {
        Self {
            name: ObjectName::of_shared(Arc::default(), Arc::default()),
            labels: Labels::default(),
            set_by_server: None,
        }
    }
}

/// The labels of an object, in little memory: most objects have none, and EndpointSlices, which are
/// numerous, need one.
pub type Labels = SmallMap<Text, Text>;

/// The annotations of an object. They can be large and are not used, so they are validated and not
/// kept.
#[derive(Default)]
struct Annotations;

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    let labels = Option::<BTreeMap<Text, Text>>::deserialize(deserializer)?;
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
    /// The metadata of an object from a file.
    #[must_use]
    pub fn of_name(name: ObjectName) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// UID, which distinguishes it from earlier and later objects of the same name; empty for an
    /// object from a file.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.set_by_server.as_ref().map_or("", |it| &it.uid)
    }

    /// Creation time in seconds since 1970; 0 if unknown, which ranks as equal age.
    #[must_use]
    pub fn created(&self) -> i64 {
        let created = self.set_by_server.as_ref();
        let created = created.and_then(|it| it.creation_timestamp);
        created.map_or(0, Timestamp::as_second)
    }

    /// When its deletion was requested: it exists until its finalizers are removed.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.set_by_server.as_ref()?.deletion_timestamp
    }

    /// Counts the changes of its spec; 0 for an object from a file.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.set_by_server.as_ref().map_or(0, |it| it.generation)
    }
}

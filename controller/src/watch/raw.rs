//! An object from the API server, before its kind is known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use translate::api::READ_ENTRIES;
use translate::files;
use xds::model::ObjectName;

use super::entries::{ENTRIES, EntryKind, PARSES};

/// An object. It is kept as text, which is converted to its type without a value in between. Any JSON
/// object can be read: one that cannot would keep the whole list of its kind from being read. (In a watch
/// it can be taken as text since API servers send the type of an event before its object.)
#[derive(Debug, Clone, Default)]
pub(super) struct Raw {
    /// The object in JSON, without its status, its resource version and `managedFields`, half of a small
    /// object.
    pub(super) text: String,
    /// The status in JSON: of most kinds it is kept, and not read.
    pub(super) status: Option<Box<RawValue>>,
    pub(super) head: Head,
    /// What its entries are, and the names of those that were dropped.
    entries: Option<EntryKind>,
    dropped: Vec<String>,
    /// Whether entries were kept because a policy refers to them.
    has_kept: bool,
}

/// The metadata that is read of objects of all kinds; empty where it is absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    namespace: String,
    name: String,
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) generation: i64,
    /// Whether it is being deleted.
    pub(super) is_deleted: bool,
}

impl Raw {
    pub(super) fn name(&self) -> ObjectName {
        ObjectName::new(&self.head.namespace, &self.head.name)
    }

    /// Its fields, without those that are not in its text.
    pub(super) fn fields(&self) -> Map<String, Value> {
        // It is a part of JSON that was parsed before.
        files::parse_fields(&self.text).unwrap_or_default()
    }

    /// Size of what is kept of it.
    pub(super) fn bytes(&self) -> usize {
        let status = self.status.as_ref().map_or("", |status| status.get());
        self.text.len() + status.len()
    }

    /// Whether an entry was dropped that a policy refers to by now.
    pub(super) fn lacks_entries(&self) -> bool {
        let mut dropped = self.dropped.iter();
        let of = self.entries.map(|kind| (kind, self.name()));
        of.is_some_and(|of| ENTRIES.has_object(&of) && dropped.any(|key| ENTRIES.has(&of, key)))
    }

    /// Whether it is a Secret of which entries were kept that no policy refers to by now.
    pub(super) fn has_needless_entries(&self) -> bool {
        self.has_kept
            && self.entries == Some(EntryKind::Secret)
            && !ENTRIES.has_object(&(EntryKind::Secret, self.name()))
    }

    /// The resource version, if it has any.
    pub(super) fn resource_version(&self) -> Option<String> {
        let version = &self.head.resource_version;
        (!version.is_empty()).then(|| version.to_string())
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// Parses an object.
struct ObjectVisitor;

/// Parses the metadata of an object.
struct MetadataVisitor<'r>(&'r mut Raw);

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut raw = Raw {
            entries: PARSES.try_with(|kind| *kind).ok(),
            ..Raw::default()
        };
        // Which entries are read depends on the name.
        let mut entries: Vec<(Key<'de>, &'de RawValue)> = Vec::new();
        while let Some(Key(name)) = access.next_key()? {
            match &*name {
                "metadata" => {
                    begin_field(&mut raw.text, &name)?;
                    access.next_value_seed(MetadataVisitor(&mut raw))?;
                }
                "status" => raw.status = Some(access.next_value()?),
                // The kind of the watch.
                "apiVersion" | "kind" => {
                    access.next_value::<IgnoredAny>()?;
                }
                "data" | "stringData" | "binaryData" => {
                    entries.push((Key(name), access.next_value()?));
                }
                _ => {
                    begin_field(&mut raw.text, &name)?;
                    raw.text.push_str(access.next_value::<&RawValue>()?.get());
                }
            }
        }
        for (Key(name), values) in entries {
            begin_field(&mut raw.text, &name)?;
            push_entries(&mut raw, values);
        }
        end_object(&mut raw.text);
        Ok(raw)
    }
}

impl<'de> DeserializeSeed<'de> for MetadataVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MetadataVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let Self(Raw { text, head, .. }) = self;
        text.push('{');
        while let Some(Key(name)) = access.next_key()? {
            match &*name {
                "managedFields" => {
                    access.next_value::<IgnoredAny>()?;
                    continue;
                }
                "resourceVersion" => {
                    head.resource_version = string(access.next_value()?).into();
                    continue;
                }
                _ => {}
            }
            let value: &RawValue = access.next_value()?;
            match &*name {
                "namespace" => head.namespace = string(value).into_owned(),
                "name" => head.name = string(value).into_owned(),
                "uid" => head.uid = string(value).into(),
                "generation" => head.generation = value.get().parse().unwrap_or_default(),
                "deletionTimestamp" => head.is_deleted = value.get() != "null",
                _ => {}
            }
            begin_field(text, &name)?;
            match &*name {
                "annotations" => push_annotations(text, value),
                _ => text.push_str(value.get()),
            }
        }
        end_object(text);
        Ok(())
    }
}

/// Writes the name of the next field of an object.
fn begin_field<E: Error>(object: &mut String, name: &str) -> Result<(), E> {
    if !object.ends_with('{') {
        object.push(if object.is_empty() { '{' } else { ',' });
    }
    // Names that need no escapes are not copied twice.
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        object.extend(["\"", name, "\":"]);
        return Ok(());
    }
    object.push_str(&serde_json::to_string(name).map_err(E::custom)?);
    object.push(':');
    Ok(())
}

/// Writes the entries of a Secret or a ConfigMap, the only kinds with such fields, that are read. The others
/// are dropped here, so that this process never keeps a Secret that is for others.
fn push_entries(raw: &mut Raw, entries: &RawValue) {
    let name = raw.name();
    let needed = ENTRIES.parsed(&name);
    let object = &mut raw.text;
    let Ok(entries) = serde_json::from_str::<BTreeMap<String, &RawValue>>(entries.get()) else {
        // No entries, or another kind: what reads the object decides.
        return object.push_str(entries.get());
    };
    object.push('{');
    let mut is_first = true;
    for (key, value) in entries {
        let is_needed = { needed.as_ref() }.is_some_and(|of| ENTRIES.has(of, &key));
        raw.has_kept |= is_needed;
        if !is_needed && !READ_ENTRIES.contains(&&*key) {
            raw.dropped.push(key);
            continue;
        }
        object.push_str(if is_first { "" } else { "," });
        is_first = false;
        // Keys have no characters that need escapes, or the object is invalid.
        object.extend([
            &*serde_json::to_string(&key).unwrap_or_default(),
            ":",
            value.get(),
        ]);
    }
    object.push('}');
}

/// Writes annotations without the copy of the object that `kubectl apply` keeps there: of a Secret, it has
/// all entries.
fn push_annotations(object: &mut String, annotations: &RawValue) {
    let has_copy = annotations.get().contains(LAST_APPLIED);
    let parsed = has_copy.then(|| serde_json::from_str(annotations.get()).ok());
    let Some(mut parsed): Option<BTreeMap<String, &RawValue>> = parsed.flatten() else {
        return object.push_str(annotations.get());
    };
    parsed.remove(LAST_APPLIED);
    match serde_json::to_string(&parsed) {
        Ok(text) => object.push_str(&text),
        Err(_) => object.push_str("{}"),
    }
}

fn end_object(object: &mut String) {
    if object.is_empty() {
        object.push('{');
    }
    object.push('}');
}

/// The text of a JSON string; empty if it is none.
fn string(value: &RawValue) -> Cow<'_, str> {
    let text = serde_json::from_str(value.get());
    text.map(|Key(text)| text).unwrap_or_default()
}

/// A text, which is only copied if it has escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(text.to_owned().into()))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;
    use crate::watch::entries::Needed;

    fn read(text: &str) -> Raw {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn managed_fields_are_dropped_when_parsing() {
        let raw = read(
            r#"{"kind": "Service", "metadata": {"managedFields": [{"a": 1}], "name": "n",
            "resourceVersion": "5"}, "spec": {"managedFields": 1}}"#,
        );
        assert_eq!(raw.resource_version().as_deref(), Some("5"));
        assert_eq!(
            Value::Object(raw.fields()),
            json!({"metadata": {"name": "n"}, "spec": {"managedFields": 1}})
        );
        assert_eq!(raw.name(), ObjectName::new("", "n"));
    }

    #[test]
    fn what_all_kinds_have_is_read() {
        let raw = read(
            r#"{"metadata": {"namespace": "s", "name": "\u006e", "uid": "u", "generation": 7,
            "deletionTimestamp": "2026-01-01T00:00:00Z"}}"#,
        );
        assert_eq!(raw.name(), ObjectName::new("s", "n"));
        let Head {
            uid,
            generation,
            is_deleted,
            ..
        } = raw.head;
        assert_eq!((&*uid, generation, is_deleted), ("u", 7, true));
        let raw =
            read(r#"{"metadata": {"name": 1, "generation": null, "deletionTimestamp": null}}"#);
        assert_eq!(raw.name(), ObjectName::new("", ""));
        assert!(!raw.head.is_deleted);
        assert_eq!(raw.resource_version(), None);
    }

    /// As in lists and in watches.
    #[test]
    fn a_status_is_kept_as_text() {
        let object = r#"{"metadata": {"name": "n"}, "status": {"b": 1, "a": [null]}, "spec": {}}"#;
        let list = format!(
            r#"{{"kind": "L", "apiVersion": "v1", "metadata": {{}}, "items": [{object}]}}"#
        );
        let list: ObjectList<Raw> = serde_json::from_str(&list).expect("a list");
        let event = format!(r#"{{"type": "ADDED", "object": {object}}}"#);
        let event: WatchEvent<Raw> = serde_json::from_str(&event).expect("an event");
        let WatchEvent::Added(added) = event else {
            panic!("{event:?}");
        };
        for raw in [&list.items[0], &added] {
            let status = raw.status.as_ref().map(|it| it.get());
            assert_eq!(status, Some(r#"{"b": 1, "a": [null]}"#));
            assert!(!raw.fields().contains_key("status"));
        }
    }

    #[test]
    fn only_the_entries_that_are_read_are_kept_of_a_secret_or_a_config_map() {
        let raw = read(
            r#"{"metadata": {"name": "n", "annotations": {"a": "b",
            "kubectl.kubernetes.io/last-applied-configuration": "{\"data\": {\"password\": \"aHVudGVyMg==\"}}"}},
            "type": "Opaque", "data": {"password": "aHVudGVyMg==", "tls.key":
            "YQ==", "ca.crt": "Yg=="}, "stringData": {"token": "hunter2"}, "binaryData": {"x": "aHVudGVyMg=="}}"#,
        );
        assert!(!raw.text.contains("aHVudGVyMg") && !raw.text.contains("hunter2"));
        let expected = json!({
            "metadata": {"name": "n", "annotations": {"a": "b"}}, "type": "Opaque", "data": {"tls.key": "YQ==", "ca.crt": "Yg=="},
            "stringData": {}, "binaryData": {},
        });
        assert_eq!(Value::Object(raw.fields()), expected);
    }

    #[test]
    fn entries_of_a_config_map_are_kept_that_policies_refer_to() {
        let text = r#"{"data": {"a": "1", "b": "2", "ca.crt": "3"}, "binaryData": {"c": "NA=="},
            "metadata": {"namespace": "raw-test", "name": "lists"}}"#;
        let parsed = |kind| PARSES.sync_scope(kind, || read(text));
        let raw = parsed(EntryKind::ConfigMap);
        let [policy, map] = ["p", "lists"].map(|name| ObjectName::new("raw-test", name));
        assert_eq!(raw.fields()["data"], json!({"ca.crt": "3"}));
        assert!(!raw.lacks_entries());
        let map = (EntryKind::ConfigMap, map);
        let needed = ["b", "c"].map(|key| (map.clone(), Needed::Entry(key.to_owned())));
        ENTRIES.set(&policy, needed.into());
        assert!(raw.lacks_entries(), "it was parsed before");
        let of_secret = parsed(EntryKind::Secret);
        assert_eq!(of_secret.fields()["data"], json!({"ca.crt": "3"}));
        assert!(!of_secret.lacks_entries());
        let raw = parsed(EntryKind::ConfigMap);
        assert_eq!(raw.fields()["data"], json!({"b": "2", "ca.crt": "3"}));
        assert_eq!(raw.fields()["binaryData"], json!({"c": "NA=="}));
        assert!(!raw.lacks_entries());
        ENTRIES.set(&policy, std::collections::BTreeSet::new());
    }

    #[test]
    fn entries_of_a_secret_elsewhere_are_kept_by_a_grant_alone() {
        let text =
            r#"{"data": {"acme": "MQ=="}, "metadata": {"namespace": "raw-keys", "name": "all"}}"#;
        let parsed = || PARSES.sync_scope(EntryKind::Secret, || read(text));
        let secret = (EntryKind::Secret, ObjectName::new("raw-keys", "all"));
        let policy = ObjectName::new("raw-shop", "p");
        ENTRIES.set(&policy, [(secret, Needed::AllEntries)].into());
        let raw = parsed();
        assert_eq!(raw.fields()["data"], json!({}));
        assert!(!raw.lacks_entries());
        let grant = json!({
            "metadata": {"namespace": "raw-keys", "name": "g"},
            "spec": {
                "from": [{"group": "gateway-system.io", "kind": "TrafficPolicy", "namespace": "raw-shop"}],
                "to": [{"group": "", "kind": "Secret"}],
            },
        });
        let grant = serde_json::from_value(grant).expect("a grant");
        let name = ObjectName::new("raw-keys", "g");
        ENTRIES.set_grant(&name, Some(&grant));
        assert!(raw.lacks_entries(), "it was parsed before");
        let raw = parsed();
        assert_eq!(raw.fields()["data"], json!({"acme": "MQ=="}));
        assert!(!raw.has_needless_entries());
        ENTRIES.set_grant(&name, None);
        assert!(raw.has_needless_entries(), "it was parsed before");
        assert_eq!(parsed().fields()["data"], json!({}));
        ENTRIES.set(&policy, std::collections::BTreeSet::new());
    }

    #[test]
    fn other_fields_are_kept_as_they_are() {
        for object in [
            json!({}),
            json!({"metadata": {}}),
            json!({"odd": {"a\n\"": "\u{e9}\"\n"}, "metadata": {"name": "n", "labels": {"a": "b"}}}),
            json!({"data": null, "binaryData": [1], "stringData": "x"}),
            json!({"metadata": {"name": "n", "odd\"": [1, {}]}, "spec": {"a": [null, true, 1.5, [], {}]}, "\n": 1}),
        ] {
            let raw = read(&object.to_string());
            assert_eq!(Value::Object(raw.fields()), object);
        }
    }

    /// One of them must not keep all objects of its kind from being read.
    #[test]
    fn an_object_that_serde_json_does_not_parse_is_parsed() {
        let key = "$serde_json::private::RawValue";
        let text = format!(
            r#"{{"metadata": {{"name": "n", "annotations": {{"{key}": "x"}}}}, "spec": {{"{key}": "x"}}}}"#
        );
        assert!(serde_json::from_str::<Value>(&text).is_err());
        assert_eq!(read(&text).fields()["spec"][key], "x");
        for (open, close) in [("[", "]"), (r#"{"a": "#, "}")] {
            let nested = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            let raw = read(&format!(
                r#"{{"spec": {nested}, "metadata": {{"x": {nested}, "name": "n"}}}}"#
            ));
            assert_eq!(raw.name(), ObjectName::new("", "n"));
            assert_eq!(raw.fields()["metadata"]["name"], "n");
        }
    }
}

//! An object from the API server, before its kind is known.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use xds::model::ObjectName;

/// An object. `managedFields`, half of a small object, is skipped while parsing. Any JSON object can be
/// parsed: one that cannot would keep the whole list of its kind from being read.
#[derive(Debug, Clone, Default)]
pub(super) struct Raw {
    /// All fields but the status.
    pub(super) fields: Map<String, Value>,
    /// The status in JSON: of most kinds it is kept, and not read. (In a watch it can be taken as text
    /// since API servers send the type of an event before its object.)
    pub(super) status: Option<Box<RawValue>>,
    /// For `kube`, which reads the resource version in it.
    meta: ObjectMeta,
}

impl Raw {
    pub(super) fn name(&self) -> ObjectName {
        ObjectName::new(self.text("namespace"), self.text("name"))
    }

    /// A metadata field as text; empty if absent.
    pub(super) fn text(&self, field: &str) -> &str {
        let value = self.metadata().and_then(|metadata| metadata.get(field));
        value.and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn metadata(&self) -> Option<&Map<String, Value>> {
        self.fields.get("metadata").and_then(Value::as_object)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut raw = deserializer.deserialize_map(Fields)?;
        let version = raw.text("resourceVersion");
        raw.meta.resource_version = (!version.is_empty()).then(|| version.to_owned());
        Ok(raw)
    }
}

struct Fields;

/// Parses the metadata of an object.
struct Metadata;

impl<'de> Visitor<'de> for Fields {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut raw = Raw::default();
        while let Some(name) = access.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" => access.next_value_seed(Metadata)?,
                "status" => {
                    raw.status = Some(access.next_value()?);
                    continue;
                }
                _ => access.next_value_seed(AnyValue::OF_FIELD)?,
            };
            raw.fields.insert(name, value);
        }
        Ok(raw)
    }
}

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if name == "managedFields" {
                access.next_value::<IgnoredAny>()?;
            } else {
                fields.insert(name, access.next_value_seed(AnyValue::OF_FIELD)?);
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Parses any value, as `Value` does, which however fails for an object whose first key is
/// `$serde_json::private::RawValue`, and for deep nesting. Users may write both.
#[derive(Debug, Clone, Copy)]
struct AnyValue {
    /// Levels that may be below it.
    levels: usize,
}

impl AnyValue {
    const OF_FIELD: Self = Self { levels: LEVELS };

    fn below(self) -> Option<Self> {
        let levels = self.levels.checked_sub(1)?;
        Some(Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        if let Some(item) = self.below() {
            while let Some(value) = access.next_element_seed(item)? {
                items.push(value);
            }
        } else {
            while access.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            match self.below() {
                Some(field) => {
                    fields.insert(name, access.next_value_seed(field)?);
                }
                None => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Levels of a field that are read; what is below is left out. No type has that many, and beyond 128 in
/// all `serde_json` fails.
const LEVELS: usize = 100;

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_dropped_when_parsing() {
        let text = r#"{"kind": "Service", "metadata": {"managedFields": [{"a": 1}], "name": "n",
            "resourceVersion": "5"}, "spec": {"managedFields": 1}}"#;
        let raw: Raw = serde_json::from_str(text).expect("an object");
        assert_eq!(raw.meta().resource_version.as_deref(), Some("5"));
        assert_eq!(
            raw.fields["metadata"],
            json!({"name": "n", "resourceVersion": "5"})
        );
        assert_eq!(raw.fields["spec"], json!({"managedFields": 1}));
        assert_eq!(raw.name(), ObjectName::new("", "n"));
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
            assert!(!raw.fields.contains_key("status"));
        }
    }

    #[test]
    fn other_values_are_parsed_as_serde_json_does() {
        let spec = json!({
            "a": [null, true, false, 0, -1, 1.5, u64::MAX, i64::MIN, "", "é\"\n", {}, []],
            "b": {"c": {"d": [[1], {"e": "f"}]}},
        });
        let text =
            json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": spec}).to_string();
        let raw: Raw = serde_json::from_str(&text).expect("an object");
        assert_eq!(raw.fields["spec"], spec);
        assert_eq!(
            raw.fields["metadata"],
            json!({"name": "n", "labels": {"a": "b"}})
        );
    }

    /// One of them must not keep all objects of its kind from being read.
    #[test]
    fn an_object_that_serde_json_does_not_parse_is_parsed() {
        let key = "$serde_json::private::RawValue";
        let text = format!(
            r#"{{"metadata": {{"name": "n", "annotations": {{"{key}": "x"}}}}, "spec": {{"{key}": "x"}}}}"#
        );
        assert!(serde_json::from_str::<Value>(&text).is_err());
        let raw: Raw = serde_json::from_str(&text).expect("an object");
        assert_eq!(raw.fields["spec"][key], "x");
        for (open, close) in [("[", "]"), (r#"{"a": "#, "}")] {
            let nested = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            let text =
                format!(r#"{{"spec": {nested}, "metadata": {{"x": {nested}, "name": "n"}}}}"#);
            let raw: Raw = serde_json::from_str(&text).expect("an object");
            assert_eq!(raw.name(), ObjectName::new("", "n"));
        }
    }
}

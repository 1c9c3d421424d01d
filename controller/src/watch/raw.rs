//! An object from the API server, before its kind is known.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use xds::model::ObjectName;

/// The fields of an object. `managedFields`, half of a small object, is skipped while parsing.
#[derive(Debug, Clone, Default)]
pub(super) struct Raw {
    pub(super) fields: Map<String, Value>,
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
        let fields = deserializer.deserialize_map(Fields)?;
        let mut raw = Self {
            fields,
            meta: ObjectMeta::default(),
        };
        let version = raw.text("resourceVersion");
        raw.meta.resource_version = (!version.is_empty()).then(|| version.to_owned());
        Ok(raw)
    }
}

struct Fields;

/// Parses the metadata of an object.
struct Metadata;

impl<'de> Visitor<'de> for Fields {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" => access.next_value_seed(Metadata)?,
                _ => access.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(fields)
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
                fields.insert(name, access.next_value()?);
            }
        }
        Ok(Value::Object(fields))
    }
}

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
}

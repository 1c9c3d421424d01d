//! Admits one object from a watch, from its JSON.

use std::fmt;

use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::kinds::{KINDS, Kind};
use super::value::{AdmittedValue, admit_value};
use crate::store::{Object, ObjectRef};

/// Reads one object of a kind from its JSON, without its status, which is passed separately. Gives the
/// result of [`admit_value`], in half of the time for an object without findings. `None` if the kind
/// is not supported.
///
/// # Errors
/// It is no JSON object.
pub fn admit_json(
    group: &str,
    kind: &str,
    object: &str,
    status: Option<&str>,
) -> serde_json::Result<Option<AdmittedValue>> {
    let is_meant = |it: &&Kind| it.group == group && it.name == kind;
    let Some(kind) = KINDS.iter().find(is_meant) else {
        return Ok(None);
    };
    if let Some(object) = (kind.read_json)(object).filter(|object| is_named(kind, object)) {
        return Ok(Some(AdmittedValue {
            reference: Some(ObjectRef {
                group: kind.group.into(),
                kind: kind.name.into(),
                name: object.metadata().name.clone(),
            }),
            object: Some(object),
            fail_closed: None,
            findings: Vec::new(),
        }));
    }
    let mut fields = parse_fields(object)?;
    if let Some(status) = status.filter(|_| kind.reads_status) {
        // Only nesting beyond any status of Kubernetes is not read.
        let status = serde_json::from_str(status).unwrap_or_default();
        fields.insert("status".to_owned(), status);
    }
    Ok(admit_value(kind.group, kind.name, fields))
}

/// Whether an object has a valid name, without any default.
fn is_named(kind: &Kind, object: &Object) -> bool {
    let name = &object.metadata().name;
    let is_in_place = if kind.namespaced {
        super::syntax::label(&name.namespace).is_ok()
    } else {
        name.namespace.is_empty()
    };
    is_in_place && (kind.check_name)(&name.name).is_ok()
}

/// Parses the fields of an object from an API server. Any JSON object can be parsed: one that cannot
/// would keep the whole list of its kind from being read.
///
/// # Errors
/// It is no JSON object.
pub fn parse_fields(object: &str) -> serde_json::Result<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_str(object);
    // It may be a number, or text.
    let value = AnyValue { levels: LEVELS }.deserialize(&mut deserializer)?;
    match value {
        Value::Object(fields) => Ok(fields),
        other => Map::deserialize(other),
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

/// Levels of an object that are read; what is below is left out. No type has that many, and beyond 128 in
/// all `serde_json` fails.
const LEVELS: usize = 100;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::admit::yaml::compose;

    /// Over all cases of admission, as far as an API server may store them.
    #[test]
    fn reading_without_a_value_in_between_has_the_same_result() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admit");
        let (mut compared, mut direct) = (0, 0);
        for file in fs::read_dir(folder).expect("the cases") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("text");
            for document in text.split("\n---") {
                let composed = compose(document).ok().flatten().map(|it| it.value);
                let Some(Value::Object(mut fields)) = composed else {
                    continue;
                };
                let text =
                    |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
                let (version, name) = (text("apiVersion").to_owned(), text("kind").to_owned());
                let group = version.split_once('/').map_or("", |(group, _)| group);
                let Some(kind) = KINDS
                    .iter()
                    .find(|it| (it.group, it.name) == (group, &*name))
                else {
                    continue;
                };
                for unread in ["apiVersion", "kind"] {
                    fields.remove(unread);
                }
                let status = fields.remove("status");
                let Some(Value::Object(metadata)) = fields.get_mut("metadata") else {
                    continue;
                };
                if kind.namespaced {
                    metadata.entry("namespace").or_insert("default".into());
                }
                if has_invalid_labels(kind, &fields) {
                    continue;
                }
                let object = Value::Object(fields.clone()).to_string();
                direct += usize::from((kind.read_json)(&object).is_some());
                let status_text = status.as_ref().map(Value::to_string);
                let read = admit_json(group, &name, &object, status_text.as_deref());
                let read = read.expect("JSON");
                if let Some(status) = status.filter(|_| kind.reads_status) {
                    fields.insert("status".to_owned(), status);
                }
                assert_eq!(read, admit_value(group, &name, fields), "{object}");
                compared += 1;
            }
        }
        assert!(compared > 200 && direct > 30, "{compared}, {direct}");
    }

    /// API servers reject those of any kind, so they are not checked when reading without a value.
    fn has_invalid_labels(kind: &Kind, fields: &Map<String, Value>) -> bool {
        let admitted = admit_value(kind.group, kind.name, fields.clone());
        let findings = admitted.into_iter().flat_map(|it| it.findings);
        let mut fields = findings.filter_map(|it| it.field);
        fields.any(|it| it.starts_with("metadata.labels") || it.starts_with("metadata.annotations"))
    }

    #[test]
    fn a_route_with_filters_is_read_without_a_value_in_between() {
        let object = r#"{"metadata": {"name": "a", "namespace": "b"}, "spec": {"rules": [{"filters": [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-a"]}},
            {"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]}]}}"#;
        let kind = KINDS.iter().find(|kind| kind.name == "HTTPRoute");
        let read = (kind.expect("a kind").read_json)(object);
        assert!(matches!(read, Some(Object::HttpRoute(_))), "{read:?}");
    }

    #[test]
    fn an_object_has_no_room_for_more() {
        let object = r#"{"metadata": {"name": "a", "namespace": "b"}, "spec": {"hostnames": ["a.example.com"]}}"#;
        let read = admit_json("gateway.networking.k8s.io", "HTTPRoute", object, None);
        let read = read.expect("JSON").and_then(|it| it.object);
        let Some(Object::HttpRoute(route)) = read else {
            panic!("{read:?}")
        };
        assert_eq!(route.spec.hostnames.capacity(), 1);
    }

    #[test]
    fn values_are_parsed_as_serde_json_does() {
        let value = json!({
            "a": [null, true, false, 0, -1, 1.5, u64::MAX, i64::MIN, "", "é\"\n", {}, []],
            "b": {"c": {"d": [[1], {"e": "f"}]}},
        });
        let fields = parse_fields(&value.to_string()).expect("an object");
        assert_eq!(Value::Object(fields), value);
    }

    #[test]
    fn what_serde_json_may_not_parse_is_parsed() {
        let key = "$serde_json::private::RawValue";
        let text = format!(r#"{{"spec": {{"{key}": "x"}}}}"#);
        assert_eq!(parse_fields(&text).expect("an object")["spec"][key], "x");
        for (open, close) in [("[", "]"), (r#"{"a": "#, "}")] {
            let nested = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            let text = format!(r#"{{"spec": {nested}, "metadata": {{"name": "n"}}}}"#);
            let fields = parse_fields(&text).expect("an object");
            assert_eq!(fields["metadata"]["name"], "n");
        }
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["", "1", "[]", r#""a""#, "{", r#"{"a": }"#] {
            parse_fields(text).expect_err(text);
            admit_json("", "Service", text, None).expect_err(text);
        }
    }
}

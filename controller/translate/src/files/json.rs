//! Admits one object from a watch, from its JSON.

use std::fmt;

use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::admissions::Admission;
use super::value::{AdmittedValue, admit_value};
use crate::objects::kinds::ObjectKind;
use crate::objects::store::Object;

/// Reads one object of a kind from its JSON, without its status, which is passed separately. Gives the
/// result of [`admit_value`], in half of the time for an object without findings. `None` if the kind
/// is not supported.
///
/// # Errors
/// It is no JSON object.
pub fn admit_json(
    kind: ObjectKind,
    object: &str,
    status: Option<&str>,
) -> serde_json::Result<Option<AdmittedValue>> {
    let Some(admission) = Admission::of_kind(kind) else {
        return Ok(None);
    };
    let read = (admission.read_json)(object).filter(|object| is_named(admission, object));
    if let Some(object) = read {
        return Ok(Some(AdmittedValue {
            reference: Some(object.object_ref()),
            object: Some(object),
            fail_closed: None,
            findings: Vec::new(),
        }));
    }
    let mut fields = parse_fields(object)?;
    if let Some(status) = status.filter(|_| admission.reads_status) {
        // Only nesting beyond any status of Kubernetes is not read.
        let status = serde_json::from_str(status).unwrap_or_default();
        fields.insert("status".to_owned(), status);
    }
    Ok(admit_value(kind, fields))
}

/// Whether an object has a valid name, without any default.
fn is_named(kind: &Admission, object: &Object) -> bool {
    let name = &object.metadata().name;
    let is_in_place = if kind.kind.is_namespaced() {
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
    use crate::files::yaml::compose;

    /// Over all cases of admission, as far as an API server may store them, as they are and with labels,
    /// annotations and a status.
    #[test]
    fn reading_without_a_value_in_between_has_the_same_result() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admit");
        let (mut compared, mut direct, mut statuses) = (0, 0, 0);
        for file in fs::read_dir(folder).expect("the cases") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("text");
            for document in text.split("\n---") {
                let Some((kind, mut fields)) = stored(document) else {
                    continue;
                };
                let status = fields.remove("status");
                compare(kind, fields.clone(), status);
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    metadata.insert("labels".to_owned(), json!({"app": "shop", "a.b/c": ""}));
                    metadata.insert("annotations".to_owned(), json!({"a.b/c": "any text"}));
                }
                let status = json!({"ancestors": [{
                    "ancestorRef": {"name": "edge"}, "controllerName": "example.com/other",
                    "conditions": [{"type": "Accepted", "status": "True"}],
                }]});
                direct += usize::from(compare(kind, fields, Some(status)));
                statuses += usize::from(kind.reads_status);
                compared += 1;
            }
        }
        let counts = (compared, direct, statuses);
        assert!(compared > 200 && direct > 30 && statuses > 5, "{counts:?}");
    }

    /// The kind of a document, and its fields as an API server may store them.
    fn stored(document: &str) -> Option<(&'static Admission, Map<String, Value>)> {
        let Value::Object(mut fields) = compose(document).ok()??.value else {
            return None;
        };
        let version = fields.remove("apiVersion")?;
        let name = fields.remove("kind")?;
        let group = version.as_str()?.split_once('/').map_or("", |it| it.0);
        let kind = Admission::of_kind(ObjectKind::find(group, name.as_str()?)?)?;
        let metadata = fields.get_mut("metadata")?.as_object_mut()?;
        if kind.kind.is_namespaced() {
            metadata.entry("namespace").or_insert("default".into());
        }
        // API servers reject such labels and annotations of any kind, so they are not checked when
        // reading without a value.
        let admitted = admit_value(kind.kind, fields.clone())?;
        let mut wrong = admitted.findings.into_iter().filter_map(|it| it.field);
        let is_stored = !wrong
            .any(|it| it.starts_with("metadata.labels") || it.starts_with("metadata.annotations"));
        is_stored.then_some((kind, fields))
    }

    /// Reads an object in both ways. Returns whether it can be read without a value.
    fn compare(kind: &Admission, mut fields: Map<String, Value>, status: Option<Value>) -> bool {
        let object = Value::Object(fields.clone()).to_string();
        let text = status.as_ref().map(Value::to_string);
        let read = admit_json(kind.kind, &object, text.as_deref()).expect("JSON");
        if let Some(status) = status.filter(|_| kind.reads_status) {
            fields.insert("status".to_owned(), status);
        }
        let expected = admit_value(kind.kind, fields);
        assert_eq!(read, expected, "{object}");
        (kind.read_json)(&object).is_some()
    }

    #[test]
    fn a_route_with_filters_is_read_without_a_value_in_between() {
        let object = r#"{"metadata": {"name": "a", "namespace": "b"}, "spec": {"rules": [{"filters": [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-a"]}},
            {"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]}]}}"#;
        let kind = Admission::of_kind(ObjectKind::HttpRoute);
        let read = (kind.expect("a kind").read_json)(object);
        assert!(matches!(read, Some(Object::HttpRoute(_))), "{read:?}");
    }

    #[test]
    fn an_object_has_no_room_for_more() {
        let object = r#"{"metadata": {"name": "a", "namespace": "b"}, "spec": {"hostnames": ["a.example.com"]}}"#;
        let read = admit_json(ObjectKind::HttpRoute, object, None);
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
            admit_json(ObjectKind::Service, text, None).expect_err(text);
        }
    }
}

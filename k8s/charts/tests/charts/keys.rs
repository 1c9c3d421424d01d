//! Each value sets the right field of the right object.

use std::collections::{BTreeMap, BTreeSet};

use charts::{Helm, Object, Schema};
use serde::Deserialize;
use serde_json::Value;

use crate::cases;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    key: String,
    values: Value,
    /// By kind and name: values by path of the object, or `absent`.
    expect: BTreeMap<String, Expected>,
    /// Values by path, in every object.
    #[serde(default)]
    everywhere: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expected {
    Fields(BTreeMap<String, Value>),
    Absent(String),
}

const FILES: [&str; 8] = [
    "arguments",
    "images",
    "monitoring",
    "names",
    "nodes",
    "pod",
    "scaling",
    "service",
];

fn all() -> Vec<Case> {
    let files = FILES.iter();
    files
        .flat_map(|file| cases(&format!("keys/{file}.yaml")))
        .collect()
}

#[test]
fn values_set_their_fields() {
    let Some(helm) = Helm::find() else { return };
    let version = env!("CARGO_PKG_VERSION");
    let mut wrong = Vec::new();
    for case in all() {
        let key = &case.key;
        let objects = helm.objects("gateway", &case.values.to_string());
        let objects = objects.unwrap_or_else(|refused| panic!("{key}: {refused:?}"));
        let text = |value: &Value| value.to_string().replace("APP_VERSION", version);
        for (title, expected) in &case.expect {
            let object = objects.iter().find(|object| object.title() == *title);
            match (expected, object) {
                (Expected::Absent(word), None) => assert_eq!(word, "absent", "{key}"),
                (Expected::Absent(_), Some(_)) => wrong.push(format!("{key}: there is a {title}")),
                (Expected::Fields(_), None) => wrong.push(format!("{key}: there is no {title}")),
                (Expected::Fields(fields), Some(object)) => {
                    wrong.extend(differences(key, object, fields, text));
                }
            }
        }
        for object in &objects {
            wrong.extend(differences(key, object, &case.everywhere, text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn differences(
    key: &str,
    object: &Object,
    fields: &BTreeMap<String, Value>,
    text: impl Fn(&Value) -> String,
) -> Vec<String> {
    let differing = fields
        .iter()
        .filter(|(path, wanted)| text(object.at(path)) != text(wanted));
    let lines = differing.map(|(path, wanted)| {
        let (title, found) = (object.title(), object.at(path));
        format!("{key}: {title}: {path}\n  is     {found}\n  wanted {wanted}")
    });
    lines.collect()
}

#[test]
fn every_value_has_a_case() {
    let values: BTreeSet<String> = Schema::of("gateway")
        .values()
        .into_iter()
        .map(|it| it.key)
        .collect();
    let tested: BTreeSet<String> = all().into_iter().map(|case| case.key).collect();
    let untested: Vec<_> = values.difference(&tested).collect();
    assert!(untested.is_empty(), "no case sets {untested:?}");
    let unknown: Vec<_> = tested.difference(&values).collect();
    assert!(unknown.is_empty(), "there are no values {unknown:?}");
}

#[derive(Deserialize)]
struct Specified {
    key: String,
    #[serde(rename = "type")]
    kind: String,
    default: Value,
}

#[test]
fn values_have_the_documented_types_and_defaults() {
    let values = Schema::of("gateway").values();
    for Specified { key, kind, default } in cases("specified.yaml") {
        let value = values.iter().find(|value| value.key == key);
        let value = value.unwrap_or_else(|| panic!("there is no value {key}"));
        assert_eq!(value.kind, kind, "{key}");
        assert_eq!(value.default, default, "{key}");
    }
}

use std::panic::AssertUnwindSafe;

use serde_json::{Value, json};

use super::Schema;

fn schema(value: Value) -> Schema {
    serde_json::from_value(value).expect("a schema")
}

fn remarks(schema: &Schema, mut value: Value) -> Vec<String> {
    let remarks = schema.admit(&mut value).into_iter();
    remarks
        .map(|remark| format!("{}: {}", remark.path, remark.text))
        .collect()
}

#[test]
fn defaults_are_applied_inside_present_objects() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "weight": {"type": "integer", "default": 1},
            "hosts": {"type": "array", "items": {
                "type": "object", "properties": {"port": {"type": "integer", "default": 80}},
            }},
            "tls": {"type": "object", "properties": {"mode": {"type": "string", "default": "On"}}},
        },
    }));
    let mut value = json!({"hosts": [{}, {"port": 1}]});
    assert!(schema.admit(&mut value).is_empty());
    assert_eq!(
        value,
        json!({"weight": 1, "hosts": [{"port": 80}, {"port": 1}]})
    );
}

#[test]
fn unknown_fields_are_removed_and_reported() {
    let schema = schema(json!({
        "type": "object",
        "properties": {"protocol": {"type": "string"}},
    }));
    let mut value = json!({"protocl": "HTTP", "zzz": 1});
    let remarks = schema.admit(&mut value);
    assert_eq!(value, json!({}));
    assert_eq!(remarks.len(), 2);
    assert!(
        remarks[0].text.contains("did you mean `protocol`?"),
        "{}",
        remarks[0].text
    );
}

#[test]
fn type_errors_suggest_a_correction() {
    for (kind, value, expected) in [
        (
            "integer",
            json!("80"),
            ": \"80\" is not an integer: remove the quotes",
        ),
        ("integer", json!(1.5), ": 1.5 is not an integer"),
        ("string", json!(80), ": 80 is not text: quote it, as \"80\""),
        (
            "boolean",
            json!("true"),
            ": \"true\" is not true or false: remove the quotes",
        ),
        (
            "array",
            json!({"a": 1}),
            ": a mapping is not a list: put `- ` before each item",
        ),
        (
            "array",
            json!("a"),
            ": \"a\" is not a list: put it in brackets",
        ),
        ("object", json!([]), ": a list is not a mapping"),
    ] {
        assert_eq!(remarks(&schema(json!({"type": kind})), value), [expected]);
    }
}

#[test]
fn validation_rules_support_escaped_names_durations_and_integers() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "in": {"type": "string"},
            "port": {"type": "integer"},
            "base": {"type": "string"},
        },
        "x-kubernetes-validations": [
            {"rule": "self.__in__ == 'a'", "message": "in"},
            {"rule": "self.port + 1 == 81", "message": "port"},
            {"rule": "duration(self.base) < duration('1m')", "message": "base"},
        ],
    }));
    assert!(remarks(&schema, json!({"in": "a", "port": 80, "base": "59s999ms"})).is_empty());
    let broken = remarks(&schema, json!({"in": "b", "port": 81, "base": "1m"}));
    assert_eq!(broken, [": in", ": port", ": base"]);
    let missing = remarks(&schema, json!({"in": "a", "port": 80}));
    assert!(
        missing[0].starts_with(": base (not evaluated"),
        "{missing:?}"
    );
}

#[test]
fn a_definition_with_unsupported_rules_does_not_load() {
    for more in [
        json!({"type": "object", "x-kubernetes-embedded-resource": true}),
        json!({"type": "string", "format": "uuid"}),
    ] {
        assert!(
            serde_json::from_value::<Schema>(more.clone()).is_err(),
            "{more}"
        );
    }
}

#[test]
fn a_definition_with_an_invalid_expression_does_not_compile() {
    for more in [
        json!({"type": "string", "pattern": "["}),
        json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.", "message": "m"}]}),
        json!({"items": {"anyOf": [{"pattern": "["}]}}),
    ] {
        let schema: Schema = serde_json::from_value(more.clone()).expect("a schema");
        let compiled = std::panic::catch_unwind(AssertUnwindSafe(|| schema.compile()));
        assert!(compiled.is_err(), "{more}");
    }
}

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Composed, compose};
use crate::files::path::FieldPath;

fn document(text: &str) -> Composed {
    let composed = compose(text).unwrap_or_else(|note| panic!("{text}: {note:?}"));
    composed.expect("a document")
}

fn value(text: &str) -> Value {
    document(text).value
}

fn refusal(text: &str) -> (u32, String) {
    let note = compose(text)
        .err()
        .unwrap_or_else(|| panic!("{text} is taken"));
    (note.at.line, note.text)
}

#[test]
fn values_have_their_line_and_column() {
    let text = "kind: X\nspec:\n  rules:\n    - name: a\n      port: 80\n    - {name: b}\n";
    let document = document(text);
    assert_eq!(
        document.value,
        json!({"kind": "X", "spec": {"rules": [{"name": "a", "port": 80}, {"name": "b"}]}})
    );
    for (path, line, column) in [
        ("", 1, 1),
        ("spec", 2, 1),
        ("spec.rules[0].port", 5, 7),
        ("spec.rules[1]", 6, 7),
        ("spec.rules[1].name", 6, 8),
        // Missing fields are located at their nearest parent.
        ("spec.rules[1].port", 6, 7),
        ("spec.hostnames[3]", 2, 1),
    ] {
        let at = document.spans.nearest(&FieldPath::parse(path));
        assert_eq!((at.line, at.column), (line, column), "{path}");
    }
}

#[test]
fn anchors_aliases_and_merges() {
    assert_eq!(
        value("a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\nf: {<<: [*x, {g: 4}]}\n"),
        json!({
            "a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}, "e": {"b": 1, "c": 3},
            "f": {"b": 1, "c": 2, "g": 4},
        })
    );
    assert_eq!(
        refusal("a: {<<: 1}"),
        (1, "`<<` takes a mapping or a sequence of mappings".into())
    );
}

#[test]
fn a_billion_laughs_attack_is_rejected() {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(text, "a{level}: &a{level} [{refs}]").expect("memory");
    }
    assert!(
        refusal(&text)
            .1
            .contains("anchors and aliases expand to too much")
    );
    let long = "x".repeat(1 << 20);
    let aliases = vec!["*a"; 100].join(", ");
    assert!(
        refusal(&format!("a: &a {long}\nb: [{aliases}]"))
            .1
            .contains("expand to too much")
    );
}

#[test]
fn unsupported_yaml_is_rejected_with_its_line() {
    for (text, line, what) in [
        ("a: 1\nb: 2\na: 3\n", 3, "the key `a` is defined twice"),
        ("a: {b: 1, b: 2}", 1, "the key `b` is defined twice"),
        ("a:\n  - b\n c: d\n", 3, "not YAML"),
        ("a: [1, 2\n", 2, "not YAML"),
        ("a: \"x\n", 1, "not YAML"),
        ("? [a, b]\n: c\n", 1, "a key must be plain text"),
        ("a: !secret b\n", 1, "the tag `!secret` is not supported"),
        ("a: .nan\n", 1, "`.nan` is not allowed"),
        ("a: *b\n", 1, "not YAML"),
        ("a: &a [*a]\n", 1, "alias"),
    ] {
        let (at, why) = refusal(text);
        assert!(why.contains(what), "{text:?}: {why}");
        assert_eq!(at, line, "{text:?}: {why}");
    }
}

#[test]
fn nesting_depth_is_limited() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let deep = open.repeat(10_000) + &close.repeat(10_000);
        assert!(compose(&deep).is_err());
    }
    let block = (0..200).fold(String::new(), |block, depth| {
        block + &" ".repeat(depth) + "a:\n"
    });
    assert!(refusal(&block).1.contains("nested deeper"));
}

#[test]
fn tags_of_the_core_schema_are_applied() {
    assert_eq!(
        value("a: !!str 80\nb: !!int 80\nc: ! no\n"),
        json!({"a": "80", "b": 80, "c": "no"})
    );
}

#[test]
fn unquoted_yaml_1_1_booleans_are_noted() {
    let composed = document("a: no\nb: \"no\"\nc: [on]\nd: {off: 1}\n");
    let notes: Vec<_> = composed
        .notes
        .iter()
        .map(|note| note.path.to_string())
        .collect();
    assert_eq!(notes, ["a", "c[0]", "d"]);
}

#[test]
fn json_is_yaml() {
    assert_eq!(
        value("{\"a\": [1, null, true, \"b\"]}"),
        json!({"a": [1, null, true, "b"]})
    );
}

#[test]
fn an_empty_stream_has_no_document() {
    assert!(compose("---\n# a comment\n").is_ok_and(|document| document.is_none()));
    assert!(compose("---\nnull\n").is_ok_and(|document| document.is_none()));
}

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The names of the objects, and the metadata, of a list that is received in parts.
fn parse<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<String>, ListMeta), Error> {
    let mut list = ListParser::default();
    let mut names = Vec::new();
    for part in parts {
        list.receive(part);
        while let Some(object) = list.next()? {
            names.push(object.name().name.to_string());
        }
    }
    Ok((names, list.finish()?))
}

fn parse_whole(text: &str) -> Result<(Vec<String>, ListMeta), Error> {
    parse([text.as_bytes()])
}

fn object(name: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": name, "namespace": "a", "labels": {"]": "}", "items": "\\\""}},
        "spec": {"ports": [{"port": 80}, []]}, "status": {"items": ["ä"]},
    })
}

/// Lists as API servers send them: of resources of CRDs with the metadata at the end, of others with
/// the metadata first.
fn lists() -> [String; 2] {
    let objects = [object("one"), object("two"), object("three")];
    let [one, two, three] = objects.map(|it| it.to_string());
    let metadata = json!({"resourceVersion": "7", "continue": "next"});
    [
        format!(
            r#"{{"apiVersion":"v1","items":[{one},{two},{three}],"kind":"L","metadata":{metadata}}}"#
        ) + "\n",
        format!(
            r#" {{ "kind" : "L", "metadata" : {metadata} , "items" : [ {one} , {two} , {three} ] }} "#
        ),
    ]
}

#[test]
fn fields_can_have_any_order() {
    for list in lists() {
        let (names, metadata) = parse_whole(&list).expect("a list");
        assert_eq!(names, ["one", "two", "three"]);
        assert_eq!(metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(metadata.continue_.as_deref(), Some("next"));
    }
}

#[test]
fn a_list_can_be_empty() {
    for items in ["", r#","items":[]"#, r#","items":null"#] {
        let list = format!(r#"{{"metadata":{{"resourceVersion":"7"}}{items}}}"#);
        let (names, metadata) = parse_whole(&list).expect("a list");
        assert!(names.is_empty());
        assert_eq!(metadata.resource_version.as_deref(), Some("7"));
    }
}

#[test]
fn objects_are_there_before_the_end_of_the_list() {
    let [list, _] = lists();
    let (first, _) = list.split_once("two").expect("two objects");
    let mut parser = ListParser::default();
    parser.receive(first.as_bytes());
    let object = parser.next().expect("valid JSON").expect("an object");
    assert_eq!(&*object.name().name, "one");
    assert!(parser.next().expect("valid JSON").is_none());
    assert!(parser.unparsed() < first.len());
}

#[test]
fn a_list_that_ends_too_early_is_an_error() {
    for list in lists() {
        let list = list.trim();
        for end in 0..list.len() {
            let part = list.as_bytes().get(..end).expect("a part");
            assert!(parse([part]).is_err(), "{end}");
        }
    }
}

#[test]
fn what_is_no_list_is_an_error() {
    for text in [
        "[]",
        "no",
        r#"{"items":[{]}"#,
        r#"{"items" 1}"#,
        r#"{"items":[1]}"#,
        "{} {}",
        r#"{"metadata":[]}"#,
    ] {
        assert!(parse_whole(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn parts_can_end_anywhere(mut cuts in prop::collection::vec(0..600_usize, 0..20), which in 0..2_usize) {
        let list = &lists()[which];
        cuts.sort_unstable();
        let mut rest = list.as_bytes();
        let mut parts = Vec::new();
        for cut in cuts {
            let (part, others) = rest.split_at(cut.min(rest.len()) / 4);
            parts.push(part);
            rest = others;
        }
        parts.push(rest);
        let (names, metadata) = parse(parts).expect("a list");
        prop_assert_eq!(names, ["one", "two", "three"]);
        prop_assert_eq!(metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn anything_is_parsed_without_a_panic(parts in prop::collection::vec(r#"[{}\[\]:,"a ]{0,8}"#, 0..8)) {
        let _ = parse(parts.iter().map(|part| part.as_bytes()));
    }
}

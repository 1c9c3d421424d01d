use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The names of the objects, and the metadata, of a list that is received in parts.
fn parse<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<String>, ListMeta), NotAList> {
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

fn parse_whole(text: &str) -> Result<(Vec<String>, ListMeta), NotAList> {
    parse([text.as_bytes()])
}

/// With what a cut can divide: numbers, escaped and other characters, in what is read and what is not.
fn object(name: &str) -> String {
    let fields = r#""a": -1, "b": 1.5e-3, "c": [2E+10, null, true], "d": "\u00e4 \ud83d\ude00 ä 😀 \\\" ]}""#;
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","managedFields":[{{{fields}}}]}},
        "spec":{{{fields}}},"status":{{{fields},"items":[]}}}}"#
    )
}

/// Lists as API servers send them: of resources of CRDs with the metadata at the end, of others with
/// the metadata first.
fn lists() -> [String; 2] {
    let [one, two] = ["one", "two"].map(object);
    let metadata = json!({"resourceVersion": "7", "continue": "next", "remainingItemCount": 10});
    [
        format!(r#"{{"apiVersion":"v1","items":[{one},{two}],"kind":"L","metadata":{metadata}}}"#)
            + "\n",
        format!(
            r#" {{ "kind" : "L", "n":-10, "metadata" : {metadata} , "items" : [ {one} , {two} ] }} "#
        ),
    ]
}

fn assert_is_complete((names, metadata): &(Vec<String>, ListMeta)) {
    assert_eq!(*names, ["one", "two"]);
    assert_eq!(metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(metadata.continue_.as_deref(), Some("next"));
    assert_eq!(metadata.remaining_item_count, Some(10));
}

#[test]
fn fields_can_have_any_order() {
    for list in lists() {
        assert_is_complete(&parse_whole(&list).expect("a list"));
    }
}

#[test]
fn a_part_can_end_anywhere() {
    for list in lists() {
        for cut in 0..list.len() {
            let (first, rest) = list.as_bytes().split_at(cut);
            assert_is_complete(&parse([first, rest]).expect("a list"));
        }
        assert_is_complete(&parse(list.as_bytes().chunks(1)).expect("a list"));
    }
}

#[test]
fn a_list_can_be_empty() {
    for items in ["[]", "[ ]", "null"] {
        let list = format!(r#"{{"items":{items},"metadata":{{"resourceVersion":"7"}}}}"#);
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

/// An empty list would delete every object.
#[test]
fn what_is_no_list_is_an_error() {
    for text in [
        "[]",
        "no",
        "{}",
        r#"{"metadata":{"resourceVersion":"7"}}"#,
        r#"{"items":{},"metadata":{"resourceVersion":"7"}}"#,
        r#"{"items":5}"#,
        r#"{"items":[{]}"#,
        r#"{"items" []}"#,
        r#"{"items":[1]}"#,
        r#"{"items":[{}{}]}"#,
        r#"{"items":[{},]}"#,
        r#"{"items":[,{}]}"#,
        r#"{"items":[],}"#,
        r#"{"items":[] "kind":"L"}"#,
        r#"{"items":[]} {}"#,
        r#"{"items":[],"metadata":[]}"#,
        r#"{"items":[{}{"kind":"Status","code":500}"#,
    ] {
        assert!(parse_whole(text).is_err(), "{text}");
    }
}

#[test]
fn errors_have_no_position() {
    let error = parse_whole(r#"{"items":[{"metadata":}]}"#).expect_err("no list");
    let text = error.to_string();
    assert_eq!(
        text,
        "the API server's response is not a list: expected value"
    );
}

proptest! {
    #[test]
    fn any_sequence_of_tokens_is_parsed_without_a_panic(
        tokens in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", " ", "\"items\"", "\"metadata\"", "\"x\"", "null", "-1", "1", "{}",
                "{\"metadata\":{\"name\":\"a\"}}", "\"", "\\",
            ]),
            0..24,
        ),
        is_list: bool,
    ) {
        let start = if is_list { "{\"items\":[" } else { "" };
        let tokens = std::iter::once(start).chain(tokens);
        let _ = parse(tokens.map(str::as_bytes));
    }
}

use http::{HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use xds::model::HeaderEdit;

use super::HeaderEdits;

fn pair(name: &str, value: &str) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_str(value).expect("a header value");
    (name.parse().expect("a header name"), value)
}

fn edit(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> HeaderEdit {
    let pairs = |list: &[(&str, &str)]| list.iter().map(|(n, v)| pair(n, v)).collect();
    HeaderEdit {
        set: pairs(set),
        add: pairs(add),
        remove: remove
            .iter()
            .map(|name| name.parse().expect("a header name"))
            .collect(),
    }
}

/// The lines of a head after the edits, as applied by the encoder.
fn applied(edits: &HeaderEdits, head: &[(&str, &str)]) -> String {
    let remaining = head
        .iter()
        .filter(|(name, _)| !edits.drops(name.as_bytes()))
        .flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]);
    let lines: String = remaining.collect();
    lines + std::str::from_utf8(edits.appended()).expect("ASCII")
}

#[test]
fn add_appends_set_replaces_and_remove_deletes_in_any_case() {
    let rule = edit(
        &[("X-Header-Set", "set-overwrites-values")],
        &[("X-Header-Add", "add-appends-values")],
        &["X-Header-Remove"],
    );
    let head = [
        ("X-HEADER-SET", "original"),
        ("x-header-add", "original"),
        ("X-Header-REMOVE", "original"),
        ("accept", "*/*"),
    ];
    assert_eq!(
        applied(&HeaderEdits::compose(&[Some(&rule)]), &head),
        "x-header-add: original\r\naccept: */*\r\n\
         x-header-set: set-overwrites-values\r\nx-header-add: add-appends-values\r\n"
    );
}

#[test]
fn backend_filters_apply_last() {
    let rule = edit(&[("a", "rule")], &[("b", "rule"), ("c", "rule")], &[]);
    let backend = edit(&[("b", "backend")], &[("a", "backend")], &["c"]);
    let edits = HeaderEdits::compose(&[Some(&rule), None, Some(&backend)]);
    assert_eq!(
        applied(&edits, &[("a", "0"), ("b", "0"), ("c", "0"), ("d", "0")]),
        "d: 0\r\na: rule\r\nb: backend\r\na: backend\r\n"
    );
}

#[test]
fn edits_are_empty_only_without_any_edit() {
    assert!(HeaderEdits::compose(&[None, Some(&HeaderEdit::default())]).is_empty());
    assert!(!HeaderEdits::compose(&[Some(&edit(&[], &[], &["a"]))]).is_empty());
    assert!(!HeaderEdits::compose(&[Some(&edit(&[], &[("a", "1")], &[]))]).is_empty());
}

#[test]
fn framing_connection_and_host_cannot_be_edited() {
    for name in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy",
        "Proxy-Connection",
        "Proxy-Authorization",
        "content_length",
        "Transfer_Encoding",
        "keep_alive",
    ] {
        for edit in [
            edit(&[(name, "1")], &[], &[]),
            edit(&[], &[(name, "1")], &[]),
            edit(&[], &[], &[name]),
        ] {
            let edits = HeaderEdits::compose(&[Some(&edit)]);
            assert!(edits.is_empty(), "{name}");
        }
    }
}

#[test]
fn names_of_63_bytes_and_more_are_distinguished() {
    let long = "a".repeat(100);
    let edits = HeaderEdits::compose(&[Some(&edit(&[], &[], &[&long]))]);
    assert!(edits.drops(long.to_ascii_uppercase().as_bytes()));
    assert!(!edits.drops("a".repeat(99).as_bytes()));
}

/// Why `appended` needs no escaping: the model's types cannot hold a line break.
#[test]
fn names_and_values_with_line_breaks_are_rejected() {
    for byte in [b'\r', b'\n', 0] {
        let hostile = [b'a', byte, b'b'];
        assert!(HeaderValue::from_bytes(&hostile).is_err());
        assert!(HeaderName::from_bytes(&hostile).is_err());
    }
    assert!(HeaderName::from_bytes(b"a: b").is_err());
}

const NAMES: [&str; 4] = ["a", "B", "cc", "DD"];

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    vec((0..NAMES.len()).prop_map(|at| NAMES[at]), 0..4)
}

fn pairs() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    names().prop_flat_map(|names| {
        let values = vec("[a-z]{0,3}", names.len());
        values.prop_map(move |values| names.iter().copied().zip(values).collect())
    })
}

fn borrowed<'a>(list: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    list.iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

/// The edits of Gateway API, applied one after the other to a plain list.
fn one_by_one(lines: &mut Vec<(String, String)>, edit: &HeaderEdit) {
    let own = |(name, value): &(HeaderName, HeaderValue)| {
        let value = value.to_str().expect("ASCII").to_owned();
        (name.as_str().to_owned(), value)
    };
    for pair in &edit.set {
        lines.retain(|(name, _)| !name.eq_ignore_ascii_case(pair.0.as_str()));
        lines.push(own(pair));
    }
    lines.extend(edit.add.iter().map(own));
    for removed in &edit.remove {
        lines.retain(|(name, _)| !name.eq_ignore_ascii_case(removed.as_str()));
    }
}

#[test]
fn lookalikes_of_edited_names_are_dropped() {
    let edits = edit(&[("x-tenant", "ours")], &[], &["x_gone"]);
    let edits = HeaderEdits::compose(&[Some(&edits)]);
    for (name, dropped) in [
        ("X_Tenant", true),
        ("X-Gone", true),
        ("x-tenants", false),
        ("x.tenant", false),
    ] {
        assert_eq!(edits.drops(name.as_bytes()), dropped, "{name}");
    }
}

proptest! {
    #[test]
    fn composed_edits_equal_single_edits_in_sequence(
        head in pairs(),
        steps in vec((any::<bool>(), pairs(), pairs(), names()), 0..4),
    ) {
        let edits: Vec<Option<HeaderEdit>> = steps
            .iter()
            .map(|(there, set, add, remove)| {
                there.then(|| edit(&borrowed(set), &borrowed(add), remove))
            })
            .collect();
        let mut expected: Vec<(String, String)> = head
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        for edit in edits.iter().flatten() {
            one_by_one(&mut expected, edit);
        }
        let expected: String = expected
            .iter()
            .flat_map(|(name, value)| [name, ": ", value, "\r\n"])
            .collect();
        let edits: Vec<Option<&HeaderEdit>> = edits.iter().map(Option::as_ref).collect();
        let edits = HeaderEdits::compose(&edits);
        prop_assert_eq!(applied(&edits, &borrowed(&head)), expected);
    }
}

#[test]
fn edits_of_local_responses_keep_what_gives_them_their_meaning() {
    let edits = HeaderEdits::compose(&[Some(&edit(
        &[("location", "/theirs"), ("x-set", "new"), ("date", "now")],
        &[("retry-after", "9"), ("x-add", "more")],
        &["www-authenticate", "grpc-status", "x-gone"],
    ))]);
    let edited = |lines: &str| {
        let mut lines = lines.as_bytes().to_vec();
        edits.edit_local(&mut lines);
        String::from_utf8(lines).expect("ASCII")
    };
    assert_eq!(
        edited("location: /ours\r\nx-set: old\r\nx-gone: 1\r\nRetry-After: 1\r\n"),
        "location: /ours\r\nRetry-After: 1\r\nx-set: new\r\nx-add: more\r\n"
    );
    assert_eq!(
        edited("WWW-Authenticate: Bearer\r\ngrpc-status: 14\r\n"),
        "WWW-Authenticate: Bearer\r\ngrpc-status: 14\r\nlocation: /theirs\r\nx-set: new\r\n\
         retry-after: 9\r\nx-add: more\r\n"
    );
    let mut lines = b"x-gone: 1\r\n".to_vec();
    HeaderEdits::default().edit_local(&mut lines);
    assert_eq!(lines, b"x-gone: 1\r\n");
}

/// A client of gRPC takes any other content type for a failure of HTTP, and does not read the status.
#[test]
fn edits_of_local_responses_keep_the_content_type_of_grpc() {
    let set = edit(&[("content-type", "text/html")], &[], &[]);
    let remove = edit(&[], &[], &["content-type"]);
    for edits in [set, remove] {
        let edits = HeaderEdits::compose(&[Some(&edits)]);
        for (line, stays) in [
            ("Content-Type: application/grpc\r\n", true),
            ("content-type: application/grpc+proto\r\n", true),
            ("content-type: text/plain\r\n", false),
        ] {
            let mut lines = line.as_bytes().to_vec();
            edits.edit_local(&mut lines);
            assert_eq!(lines == line.as_bytes(), stays, "{line}");
        }
    }
}

use proptest::prelude::*;
use xds::model::PathMatch;

use super::{EscapedSlash, HostBuffer, PathError, PathOptions, normalise_host, normalise_target};
use crate::http::authority::MAX_HOST_BYTES;

const KEEP: PathOptions = PathOptions {
    merge_slashes: false,
    escaped_slash: EscapedSlash::Keep,
};
const MERGE: PathOptions = PathOptions {
    merge_slashes: true,
    escaped_slash: EscapedSlash::Reject,
};

fn normal(target: &str, options: PathOptions) -> Result<String, PathError> {
    let mut scratch = b"left over".to_vec();
    let target = normalise_target(target.as_bytes(), options, &mut scratch)?;
    let query = target
        .query()
        .map_or(String::new(), |query| format!("?{query}"));
    assert_eq!(target.text, format!("{}{query}", target.path()));
    Ok(target.text.to_owned())
}

fn is_borrowed(target: &str) -> bool {
    let mut scratch = Vec::new();
    let text = normalise_target(target.as_bytes(), KEEP, &mut scratch).map(|t| t.text.as_ptr());
    text == Ok(target.as_ptr())
}

#[test]
fn normal_targets_are_borrowed() {
    for target in [
        "/",
        "*",
        "/a/b",
        "/a//b",
        "/.well-known/x",
        "/a.b/..c/...",
        "/a%20b%2F",
        "/a;b=c/@:!$&'()*+,=",
        "/a?b=../%zz/./\\",
        "/?",
        "/~a-b_c",
    ] {
        assert_eq!(normal(target, KEEP).as_deref(), Ok(target));
        assert!(is_borrowed(target), "{target}");
    }
}

#[test]
fn paths_are_normalised() {
    for (target, expected) in [
        ("/%61%7e%2D", "/a~-"),
        ("/%2f%c3%a9", "/%2F%C3%A9"),
        ("/%252e", "/%252e"),
        ("/.", "/"),
        ("/..", "/"),
        ("/./", "/"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/../../c", "/c"),
        ("/../../c", "/c"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        ("/a//../b", "/a/b"),
        ("/a/..//b", "//b"),
        ("/.//b", "//b"),
        ("/a%2F../b", "/a%2F../b"),
        ("/a/..%2Fb", "/a/..%2Fb"),
        ("/a/..?b/../c", "/?b/../c"),
        ("?a=b", "/?a=b"),
        ("?", "/?"),
    ] {
        assert_eq!(normal(target, KEEP).as_deref(), Ok(expected), "{target}");
    }
}

#[test]
fn slashes_are_merged_and_escaped_slashes_rejected_if_configured() {
    for (target, expected) in [
        ("//", Ok("/")),
        ("/a//b///c", Ok("/a/b/c")),
        ("/a//../b", Ok("/b")),
        ("/.//b", Ok("/b")),
        ("/a?b//c", Ok("/a?b//c")),
        ("/a?b%2F", Ok("/a?b%2F")),
        ("/a%2fb", Err(PathError::EscapedSlash)),
    ] {
        assert_eq!(
            normal(target, MERGE).as_deref(),
            expected.as_ref().map(|s| *s),
            "{target}"
        );
    }
}

#[test]
fn rejects_ambiguous_paths() {
    for (target, expected) in [
        ("", PathError::Form),
        ("a", PathError::Form),
        ("*a", PathError::Form),
        ("/a b", PathError::Byte),
        ("/a\tb", PathError::Byte),
        ("/a\0", PathError::Byte),
        ("/a\r\n", PathError::Byte),
        ("/a\u{7f}", PathError::Byte),
        ("/a#b", PathError::Byte),
        ("/a\\b", PathError::Byte),
        ("/caf\u{e9}", PathError::Byte),
        ("/a?b c", PathError::Byte),
        ("/a?b#c", PathError::Byte),
        ("/a?\u{1}", PathError::Byte),
        ("/a?\u{e9}", PathError::Byte),
        ("/%", PathError::Escape),
        ("/%4", PathError::Escape),
        ("/%4?1", PathError::Escape),
        ("/%zz", PathError::Escape),
        ("/%+1", PathError::Escape),
        ("/%00", PathError::Escape),
    ] {
        assert_eq!(normal(target, KEEP), Err(expected), "{target:?}");
    }
}

#[test]
fn hosts_are_matched_in_lower_case_without_port_and_dot() {
    let mut buffer: HostBuffer = [0; MAX_HOST_BYTES];
    for (authority, expected) in [
        ("", ""),
        ("a.example", "a.example"),
        ("A.Example.:8080", "a.example"),
        ("a:80", "a"),
        ("[::1]", "[::1]"),
        ("[2001:DB8::1]:443", "[2001:db8::1]"),
    ] {
        assert_eq!(
            normalise_host(authority.as_bytes(), &mut buffer),
            expected,
            "{authority}"
        );
    }
}

proptest! {
    #[test]
    fn normalisation_is_idempotent_and_removes_dot_segments(
        target in "/([a./%2eEfF?]|%2e|%2F|%5c){0,24}", merge in any::<bool>(),
    ) {
        let options = PathOptions { merge_slashes: merge, ..KEEP };
        if let Ok(once) = normal(&target, options) {
            prop_assert_eq!(normal(&once, options), Ok(once.clone()));
            prop_assert!(is_borrowed(&once));
            let path = once.split('?').next().unwrap_or_default();
            prop_assert!(path.split('/').all(|segment| segment != "." && segment != ".."));
            prop_assert!(!merge || !path.contains("//"));
        }
    }

    #[test]
    fn the_paths_of_rules_are_normalised_like_those_of_requests(
        path in "/([a/.]|%[0-9a-fA-F]{2}){0,12}",
    ) {
        if let Ok(PathMatch::Exact(rule)) = PathMatch::exact(&path) {
            prop_assert_eq!(normal(&path, KEEP), Ok(rule.into()));
        }
    }
}

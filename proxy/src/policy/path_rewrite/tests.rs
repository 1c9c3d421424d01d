use xds::model::{EscapedSlash, PathOptions, PathRewriteRule, Substitution};

use super::{BadRewrite, PathRewrite, ResultLimits, RewriteScratch, Rewritten, rewrite};
use crate::policy::normalise::normalise_target;

fn rule(pattern: &str, substitution: &str) -> PathRewrite {
    let substitution = Substitution::parse(substitution).expect(substitution);
    PathRewrite::Rule(PathRewriteRule::parse(pattern, substitution).expect(pattern))
}

const OPTIONS: PathOptions = PathOptions {
    merge_slashes: false,
    escaped_slash: EscapedSlash::Keep,
};
const LIMITS: ResultLimits = ResultLimits {
    options: OPTIONS,
    bytes: 8_192,
};

fn within(limits: ResultLimits, rule: &PathRewrite, target: &str) -> Result<String, BadRewrite> {
    let mut normal = Vec::new();
    let target = normalise_target(target.as_bytes(), OPTIONS, &mut normal).expect("a target");
    let (mut scratch, mut out) = (RewriteScratch::default(), Vec::new());
    // With new memory, and with memory that has seen the path.
    rewrite(rule, target, limits, &mut scratch, &mut out)?;
    out.clear();
    rewrite(rule, target, limits, &mut scratch, &mut out)?;
    Ok(String::from_utf8(out).expect("ASCII"))
}

fn to(pattern: &str, substitution: &str, target: &str) -> Result<String, BadRewrite> {
    within(LIMITS, &rule(pattern, substitution), target)
}

#[track_caller]
fn expect(cases: &[(&str, &str, &str, &str)]) {
    for (pattern, substitution, target, expected) in cases {
        let case = format!("{pattern} {substitution} {target}");
        assert_eq!(
            to(pattern, substitution, target).as_deref(),
            Ok(*expected),
            "{case}"
        );
    }
}

#[test]
fn what_people_migrate_works() {
    expect(&[
        // The target of ingress-nginx: `rewrite-target: /$2` for `/api(/|$)(.*)`.
        (
            "^/api(/|$)(.*)",
            r"/\2",
            "/api/v1/items?q=1",
            "/v1/items?q=1",
        ),
        ("^/api(/|$)(.*)", r"/\2", "/api", "/"),
        (
            r"^/(\w+)/(.*)$",
            r"/\2?brand=\1",
            "/acme/shoes?size=9",
            "/shoes?brand=acme&size=9",
        ),
        ("^/v[0-9]+/", "/", "/v12/items", "/items"),
        ("(?i)^/API/", "/api/", "/Api/x", "/api/x"),
        ("/+$", "", "/a//", "/a"),
        ("^(.*)$", r"/prefix\1", "/x", "/prefix/x"),
    ]);
}

/// Rewrites that users of Gateway API and Envoy Gateway have asked for (gateway-api#2177, envoyproxy/gateway#1794).
#[test]
fn what_users_have_asked_for_works() {
    expect(&[
        (
            "^/auth/v1/(.+)$",
            r"/self-service/\1/browser",
            "/auth/v1/login",
            "/self-service/login/browser",
        ),
        (
            "^/auth/v1/(.+)$",
            r"/self-service/\1/browser",
            "/auth/v2/login",
            "/auth/v2/login",
        ),
        ("^/gw/(api)/(.+)$", r"/\2/\1", "/gw/api/get", "/get/api"),
        (
            "^/gw/(api)/(.+)$",
            r"/\2/\1",
            "/gw/api/get?a=b",
            "/get/api?a=b",
        ),
    ]);
}

#[test]
fn all_matches_are_replaced_and_the_first_alternative_wins() {
    // The example of GEP-4360.
    expect(&[("^/api/(.*)$", r"/\1", "/api/v1/users", "/v1/users")]);
    expect(&[
        ("aba", "c", "/abaaba", "/cc"),
        ("aba", "c", "/ababa", "/cba"),
        ("aba", "a", "/ababa", "/aba"),
        ("a([bc])+a", r"\1", "/abca", "/c"),
        ("a([bc])+a", r"\\1", "/abca", "/%5C1"),
        ("(a|ab)", "c", "/ab", "/cb"),
        ("_", "-", "/a_b_c?d_e", "/a-b-c?d_e"),
    ]);
    // An empty match directly after a match is none.
    expect(&[("(.*)", r"/api\1", "/x", "/api/x")]);
    assert_eq!(to("x*", "-", "/axb"), Err(BadRewrite::NoSlash));
}

#[test]
fn groups_that_are_missing_or_did_not_match_are_empty() {
    expect(&[
        ("^/(a)?(b)?c", r"/(\1,\2,\3,\9)", "/bc", "/(,b,,)"),
        ("^/a()b", r"/\1-", "/ab", "/-"),
        ("^/(a|b)*", r"/\1", "/abab", "/b"),
        ("^/x", r"/y\0\0", "/x", "/y/x/x"),
    ]);
}

/// A backend could take `//host` for the authority of a redirect: the rule of ingress-nginx's documentation is one
/// that makes it of `/api//host`.
#[test]
fn a_new_path_does_not_begin_with_two_slashes() {
    expect(&[
        (
            "^/api(/|$)(.*)",
            r"/\2",
            "/api//evil.example/x",
            "/evil.example/x",
        ),
        (
            "^/api(/|$)(.*)",
            r"/\2",
            "/api///evil.example//x?y=//z",
            "/evil.example//x?y=//z",
        ),
        ("^/x", r"/\0\0", "/x", "/x/x"),
        ("^/a", "", "/a//", "/"),
        ("^/a", "///?b", "/a", "/?b"),
        ("b", "c", "//a/b", "/a/c"),
        // Nothing of it is rewritten.
        ("^/api/", "/", "//evil.example/api/", "//evil.example/api/"),
    ]);
    // That is no slash to a client that resolves the path.
    expect(&[("^/api", "", "/api/%2fevil.example", "/%2Fevil.example")]);
}

#[test]
fn without_a_match_the_target_is_unchanged() {
    let mut scratch = RewriteScratch::default();
    for text in ["/a//b/%2F?x=\"y\"", "/", "/?", "*"] {
        let (mut normal, mut out) = (Vec::new(), Vec::new());
        let target = normalise_target(text.as_bytes(), OPTIONS, &mut normal).expect("a target");
        let rule = rule("^/none$", "/");
        let result = rewrite(&rule, target, LIMITS, &mut scratch, &mut out);
        assert_eq!((result, &*out), (Ok(Rewritten::Unchanged), text.as_bytes()));
    }
    // `*` is no path, whatever the pattern matches.
    assert_eq!(to(".*", "/x", "*").as_deref(), Ok("*"));
}

#[test]
fn the_query_of_the_substitution_comes_before_the_clients() {
    expect(&[
        ("^/a$", "/b?x=1", "/a?y=2", "/b?x=1&y=2"),
        ("^/a$", "/b?x=1", "/a", "/b?x=1"),
        ("^/a$", "/b?x=1", "/a?", "/b?x=1"),
        ("^/a$", "/b?", "/a?y=2", "/b?y=2"),
        ("^/a$", "/b?", "/a?", "/b"),
        ("^/a$", "/b", "/a?", "/b?"),
        ("^/(.*)$", r"/?p=\1", "/a&b;c+d=e", "/?p=a%26b%3Bc%2Bd%3De"),
        ("^/(.*)$", r"/\1", "/a&b;c+d=e", "/a&b;c+d=e"),
        // Of several matches the first gives the query.
        ("/([a-c])", r"/x?\1", "/a/b/c", "/x/x/x?a"),
    ]);
}

#[test]
fn results_are_normalised_and_dot_segments_refused() {
    expect(&[
        ("^/a", "/%61%2f", "/a", "/a%2F"),
        ("^/a", "/b/...", "/a", "/b/..."),
        ("^/a", "/b/.c/..d", "/a", "/b/.c/..d"),
    ]);
    for substitution in [
        "/..", "/b/..", "/b/../c", "/.", "/%2e", "/.%2E/x", "/%2e%2e",
    ] {
        assert_eq!(
            to("^/a", substitution, "/a"),
            Err(BadRewrite::DotSegment),
            "{substitution}"
        );
    }
    // One that comes about by removing what was between two dots, or in front of an escape.
    assert_eq!(to("x", "", "/.x./b"), Err(BadRewrite::DotSegment));
    assert_eq!(to("25", "", "/%252E%252E/b"), Err(BadRewrite::DotSegment));
    assert_eq!(to("x", "/", "/a/.x"), Err(BadRewrite::DotSegment));
}

#[test]
fn what_no_client_may_send_no_backend_gets() {
    assert_eq!(to("^/", "", "/a"), Err(BadRewrite::NoSlash));
    assert_eq!(to("^.*$", "", "/a"), Err(BadRewrite::NoSlash));
    assert_eq!(to("^.*$", "?a", "/a"), Err(BadRewrite::NoSlash));
    assert_eq!(to("20", "", "/a%20b"), Err(BadRewrite::Escape));
    assert_eq!(to("20", "00", "/a%20b"), Err(BadRewrite::Escape));
    assert_eq!(
        to("^/a", "http://other.test/", "/a"),
        Err(BadRewrite::NoSlash)
    );
}

#[test]
fn the_options_of_the_gateway_hold_for_results() {
    let options = PathOptions {
        merge_slashes: true,
        escaped_slash: EscapedSlash::Reject,
    };
    let limits = ResultLimits { options, ..LIMITS };
    let merged = within(limits, &rule("^/a", "//b//"), "/a/c");
    assert_eq!(merged.as_deref(), Ok("/b/c"));
    let escaped = within(limits, &rule("^/a", "/%2F"), "/a");
    assert_eq!(escaped, Err(BadRewrite::EscapedSlash));
}

#[test]
fn results_are_as_long_as_a_request_line_may_be() {
    let limits = ResultLimits {
        bytes: 16,
        ..LIMITS
    };
    let fits = within(limits, &rule("^/a", "/0123456789ab"), "/a?x");
    assert_eq!(fits.as_deref(), Ok("/0123456789ab?x"));
    for target in ["/a?xyz", "/axyz"] {
        let long = within(limits, &rule("^/a", "/0123456789abc"), target);
        assert_eq!(long, Err(BadRewrite::TooLong), "{target}");
    }
    // Expansion stops: it does not grow with the product of path and substitution.
    let many = rule("a", &"b".repeat(1_000));
    let target = format!("/{}", "a".repeat(60_000));
    assert_eq!(within(LIMITS, &many, &target), Err(BadRewrite::TooLong));
}

/// Patterns for which finding all matches would take time in the square of the path, and more.
#[test]
fn a_pattern_made_for_a_path_ends_within_its_work() {
    let path = format!("/{}", "a".repeat(60_000));
    for pattern in ["a*b|a", "(a|b)*a(a|b){120}c|a", "(.*)(.*)(.*)b|a"] {
        let limits = ResultLimits {
            bytes: 61_440,
            ..LIMITS
        };
        let result = within(limits, &rule(pattern, "x"), &path);
        assert_eq!(result, Err(BadRewrite::TooCostly), "{pattern}");
    }
    // Ordinary ones do not come close.
    let path = "/segment".repeat(1_000);
    let result = within(LIMITS, &rule("/(seg)", r"/\1"), &path);
    assert_eq!(result, Ok(path));
}

#[test]
fn the_working_memory_of_a_shard_is_bounded() {
    let (mut scratch, mut out) = (RewriteScratch::default(), Vec::new());
    let path = format!("/{}", "ab".repeat(2_000));
    let target = normalise_target(path.as_bytes(), OPTIONS, &mut out).expect("a target");
    let (mut before, mut was_dropped) = (0, false);
    for number in 0..5_000 {
        let rule = rule(&format!("a{number}b*"), "x");
        let mut out = Vec::new();
        let _ = rewrite(&rule, target, LIMITS, &mut scratch, &mut out);
        let bytes = scratch.search_bytes();
        assert!(bytes <= crate::limits::PATH_REWRITE_CACHE_BYTES);
        was_dropped |= bytes < before;
        before = bytes;
    }
    assert!(was_dropped, "the limit was not reached: {before} bytes");
}

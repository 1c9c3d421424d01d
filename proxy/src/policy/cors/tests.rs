use std::time::Duration;

use http::{HeaderName, Method};
use xds::model::{self, Allow, CorsOrigin};

use super::{Cors, Preflight};
use crate::policy::sample::{fields, written};

fn origin(text: &str) -> CorsOrigin {
    match text.split_once('*') {
        None => CorsOrigin::Exact(text.to_owned()),
        Some(("", "")) => CorsOrigin::Any,
        Some((before, after)) => CorsOrigin::Wildcard {
            before: before.to_owned(),
            after: after.to_owned(),
        },
    }
}

fn names(list: &[&str]) -> Allow<HeaderName> {
    match list {
        ["*"] => Allow::Any,
        list => Allow::Listed(
            list.iter()
                .map(|name| name.parse().expect("a name"))
                .collect(),
        ),
    }
}

/// The first route of `HTTPRouteCORS` in the conformance suite.
fn conformance() -> model::Cors {
    model::Cors {
        allow_origins: vec![origin("https://www.foo.com"), origin("https://*.bar.com")],
        allow_credentials: true,
        allow_methods: Allow::Listed(vec![Method::GET, Method::OPTIONS]),
        allow_headers: names(&["x-header-1", "x-header-2"]),
        expose_headers: names(&["x-header-3", "x-header-4"]),
        max_age: Duration::from_hours(1),
    }
}

fn anything(allow_credentials: bool) -> model::Cors {
    model::Cors {
        allow_origins: vec![CorsOrigin::Any],
        allow_credentials,
        allow_methods: Allow::Any,
        allow_headers: Allow::Any,
        expose_headers: Allow::Any,
        max_age: Duration::from_secs(5),
    }
}

fn preflight_lines(cors: &model::Cors, request: &[(&str, &str)]) -> String {
    let (fields, head) = fields(request);
    let preflight = Preflight::of(b"OPTIONS", &fields, &head).expect("a preflight");
    written(|out| Cors::compile(cors).write_preflight_lines(preflight, out))
}

fn allowed(cors: &model::Cors, origin: &str) -> bool {
    let mut is_allowed = false;
    let lines = written(|out| {
        is_allowed = Cors::compile(cors).write_lines(Some(origin.as_bytes()), None, out);
    });
    let expected = format!("access-control-allow-origin: {origin}\r\n");
    let allowed = lines.contains(&expected);
    assert!(allowed || lines == "vary: Origin\r\n", "{origin}: {lines}");
    assert_eq!(is_allowed, allowed, "{origin}");
    allowed
}

#[test]
fn preflight_from_an_allowed_origin_gets_all_allow_headers() {
    for origin in [
        "https://www.foo.com",
        "https://www.bar.com",
        "https://xpto.www.bar.com",
    ] {
        let lines = preflight_lines(
            &conformance(),
            &[
                ("Origin", origin),
                ("access-control-request-method", "GET"),
                ("access-control-request-headers", "x-header-1, x-header-2"),
            ],
        );
        let expected = format!(
            "vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n\
             access-control-allow-origin: {origin}\r\n\
             access-control-allow-credentials: true\r\n\
             access-control-allow-methods: GET, OPTIONS\r\n\
             access-control-allow-headers: x-header-1, x-header-2\r\n\
             access-control-expose-headers: x-header-3, x-header-4\r\n\
             access-control-max-age: 3600\r\n"
        );
        assert_eq!(lines, expected);
    }
}

#[test]
fn preflight_from_another_origin_gets_no_allow_headers() {
    let request = [
        ("origin", "https://foobar.com"),
        ("access-control-request-method", "GET"),
    ];
    let (fields, head) = fields(&request);
    let preflight = Preflight::of(b"OPTIONS", &fields, &head).expect("a preflight");
    let cors = Cors::compile(&conformance());
    assert_eq!(
        written(|out| cors.write_preflight_lines(preflight, out)),
        "vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n"
    );
}

#[test]
fn wildcards_echo_the_requested_values() {
    for credentials in [false, true] {
        let lines = preflight_lines(
            &anything(credentials),
            &[
                ("ORIGIN", "https://other.foo.com"),
                ("Access-Control-Request-Method", "PUT"),
                (
                    "Access-Control-Request-Headers",
                    "x-header-1, authorization",
                ),
            ],
        );
        assert!(lines.contains("access-control-allow-origin: https://other.foo.com\r\n"));
        assert!(lines.contains("access-control-allow-methods: PUT\r\n"));
        assert!(lines.contains("access-control-allow-headers: x-header-1, authorization\r\n"));
        assert_eq!(
            lines.contains("access-control-allow-credentials: true\r\n"),
            credentials
        );
        assert_eq!(
            lines.contains("access-control-expose-headers: *\r\n"),
            !credentials
        );
        assert_eq!(lines.contains('*'), !credentials);
    }
}

#[test]
fn invalid_tokens_are_not_echoed() {
    let lines = preflight_lines(
        &anything(true),
        &[
            ("origin", "https://a.example"),
            ("access-control-request-method", "GET PUT"),
            ("access-control-request-headers", "x-a; <script>"),
        ],
    );
    assert!(!lines.contains("allow-methods"));
    assert!(!lines.contains("allow-headers"));
    let empty = preflight_lines(
        &anything(true),
        &[
            ("origin", "https://a.example"),
            ("access-control-request-method", "GET"),
            ("access-control-request-headers", " , "),
        ],
    );
    assert!(!empty.contains("allow-headers"));
}

#[test]
fn only_options_with_both_headers_is_a_preflight() {
    let complete = [
        ("origin", "https://a"),
        ("access-control-request-method", "GET"),
    ];
    for (method, lines, expected) in [
        ("OPTIONS", &complete[..], true),
        ("GET", &complete[..], false),
        ("options", &complete[..], false),
        ("OPTIONS", &complete[..1], false),
        ("OPTIONS", &complete[1..], false),
    ] {
        let (fields, head) = fields(lines);
        let preflight = Preflight::of(method.as_bytes(), &fields, &head);
        assert_eq!(preflight.is_some(), expected, "{method} {lines:?}");
    }
}

#[test]
fn origins_match_exactly_or_by_whole_host() {
    for (pattern, origin_sent, expected) in [
        ("https://www.foo.com", "https://www.foo.com", true),
        ("https://WWW.foo.com", "https://www.FOO.com", true),
        ("https://www.foo.com", "http://www.foo.com", false),
        ("https://www.foo.com", "https://www.foo.com:8443", false),
        ("https://www.foo.com:443", "https://www.foo.com", true),
        ("http://www.foo.com:80", "http://www.foo.com", true),
        ("https://www.foo.com:80", "https://www.foo.com", false),
        ("https://*.bar.com", "https://a.b.c.bar.com", true),
        ("https://*.bar.com", "https://bar.com", false),
        ("https://*.bar.com", "https://.bar.com", false),
        ("https://*.bar.com", "https://evilbar.com", false),
        ("https://*.bar.com", "https://a.bar.com:8443", false),
        ("https://*.bar.com", "https://evil.example:1.bar.com", false),
        ("https://*.bar.com", "https://a.bar.com.evil.example", false),
        ("https://*.bar.com:8443", "https://a.bar.com:8443", true),
        ("http://*:8080", "http://any.example:8080", true),
        ("http://*:8080", "http://[::1]:8080", true),
        ("http://*:8080", "http://any.example:80", false),
        ("https://*", "https://any.example", true),
        ("https://*", "https://any.example:8443", false),
        ("https://*", "http://any.example", false),
        ("*", "https://foobar.com:12345", true),
        ("*", "null", true),
        ("*", "chrome-extension://abcdef", true),
    ] {
        let mut cors = conformance();
        cors.allow_origins = vec![origin(pattern)];
        let case = format!("{origin_sent} by {pattern}");
        assert_eq!(allowed(&cors, origin_sent), expected, "{case}");
    }
}

#[test]
fn malformed_origins_are_rejected() {
    let long = "a".repeat(60_000);
    for garbage in [
        "",
        "*",
        "https://",
        "://a",
        "a",
        "https://a, https://b",
        "https://a b",
        "https://a/path",
        "https://u@a",
        "https://a\"",
        "https://a\r\nset-cookie: a=b",
        "https:a",
        "Null",
        &long,
    ] {
        assert!(!allowed(&anything(true), garbage), "{garbage}");
    }
}

#[test]
fn cors_headers_of_the_backend_are_replaced() {
    let cors = Cors::compile(&conformance());
    assert_eq!(
        written(|out| cors.write_lines(Some(b"https://www.foo.com"), None, out)),
        "vary: Origin\r\naccess-control-allow-origin: https://www.foo.com\r\n\
         access-control-allow-credentials: true\r\n\
         access-control-expose-headers: x-header-3, x-header-4\r\n"
    );
    assert_eq!(
        written(|out| cors.write_lines(None, None, out)),
        "vary: Origin\r\n"
    );
    assert!(Cors::drops(b"Access-Control-Allow-Origin"));
    assert!(Cors::drops(b"access-control-max-age"));
    assert!(!Cors::drops(b"access-control"));
    assert!(!Cors::drops(b"content-type"));
}

#[test]
fn with_credentials_a_wildcard_exposes_each_header_by_name() {
    let cors = Cors::compile(&anything(true));
    let lines = [
        ("Content-Type", "text/plain"),
        ("Access-Control-Allow-Origin", "*"),
        ("X-A", "1"),
    ];
    let (fields, head) = fields(&lines);
    let response = Some((&fields, head.as_slice()));
    let origin = Some(b"https://a".as_slice());
    assert_eq!(
        written(|out| cors.write_lines(origin, response, out)),
        "vary: Origin\r\naccess-control-allow-origin: https://a\r\n\
         access-control-allow-credentials: true\r\n\
         access-control-expose-headers: Content-Type, X-A\r\n"
    );
}

#[test]
fn empty_lists_add_no_header() {
    let mut cors = conformance();
    cors.allow_methods = Allow::Listed(Vec::new());
    cors.allow_headers = names(&[]);
    cors.expose_headers = names(&[]);
    cors.allow_credentials = false;
    let lines = preflight_lines(
        &cors,
        &[
            ("origin", "https://www.foo.com"),
            ("access-control-request-method", "GET"),
        ],
    );
    assert_eq!(
        lines,
        "vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n\
         access-control-allow-origin: https://www.foo.com\r\naccess-control-max-age: 3600\r\n"
    );
}

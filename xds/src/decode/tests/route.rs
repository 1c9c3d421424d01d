//! Bad rules of routes.

use prost::Message;

use super::problems;
use crate::decode::{resource, substitute};
use crate::model::{Kind, Resource};
use crate::proto::{self, allow, path_edit, path_match, session_persistence, string_match, target};

fn prefix(path: &str) -> proto::HttpMatch {
    let kind = Some(path_match::Kind::Prefix(path.to_owned()));
    proto::HttpMatch {
        path: Some(proto::PathMatch { kind }),
        ..Default::default()
    }
}

/// A valid route with this rule.
fn route(rule: proto::HttpRule) -> proto::Route {
    proto::Route {
        key: "HTTPRoute/app/shop/0/infra/web".to_owned(),
        attachments: vec![proto::Attachment {
            object: "Gateway/infra/web".to_owned(),
            listeners: vec!["http".to_owned(), "https".to_owned()],
            hostnames: vec!["a.example.com".to_owned()],
        }],
        order: Some(proto::Order {
            created: 0,
            object: "app/shop".to_owned(),
            rule: 0,
        }),
        rule: Some(proto::route::Rule::Http(rule)),
        ..Default::default()
    }
}

fn rule() -> proto::HttpRule {
    proto::HttpRule {
        protocol: proto::RequestProtocol::Http.into(),
        matches: vec![prefix("/")],
        ..Default::default()
    }
}

/// A valid route.
pub(super) fn base() -> proto::Route {
    route(rule())
}

fn rule_with_filters(filters: proto::Filters) -> proto::Route {
    route(proto::HttpRule {
        filters: Some(filters),
        ..rule()
    })
}

#[test]
fn the_valid_base_rule_decodes() {
    assert!(resource(Kind::Route, &route(rule()).encode_to_vec()).is_ok());
}

#[test]
fn a_rule_of_one_listener_from_an_earlier_controller_decodes() {
    let message = proto::Route {
        key: "HTTPRoute/app/shop/0/Gateway/infra/web/http".to_owned(),
        listener: "Gateway/infra/web/http".to_owned(),
        hostnames: vec!["a.example.com".to_owned()],
        attachments: Vec::new(),
        ..base()
    };
    let bytes = message.encode_to_vec();
    let Ok(Resource::Route(route)) = resource(Kind::Route, &bytes) else {
        panic!("it is valid");
    };
    let [only] = &*route.attachments else {
        panic!("{route:?}");
    };
    assert_eq!(only.listener.as_str(), "Gateway/infra/web/http");
    assert_eq!(only.hostnames.len(), 1);
    assert_eq!(proto::Route::from(&*route), message, "its form is kept");
    let substitute = substitute(Kind::Route, &message.key, &bytes);
    assert!(substitute.is_some_and(|it| it.key() == message.key));
    let mut other = message;
    other.listener = "Gateway/infra/web/other".to_owned();
    assert_eq!(
        problems(Kind::Route, &other),
        ["listener: is another one than that of the key"]
    );
}

#[test]
fn bad_attachments_are_reported() {
    let mut none = base();
    none.attachments.clear();
    assert_eq!(
        problems(Kind::Route, &none),
        ["attachments: is empty: at least one is needed"]
    );
    assert!(substitute(Kind::Route, &none.key, &none.encode_to_vec()).is_none());
    let mut bad = base();
    bad.attachments[0].listeners.push("a/b".to_owned());
    bad.attachments[0].hostnames.push("*".to_owned());
    let found = problems(Kind::Route, &bad);
    assert!(
        found[0].starts_with("attachments[0].hostnames[1]"),
        "{found:?}"
    );
    bad.attachments[0].hostnames.pop();
    let found = problems(Kind::Route, &bad);
    assert!(
        found[0].starts_with("attachments[0].listeners[2]"),
        "{found:?}"
    );
    // What can be read of them is closed.
    let bytes = bad.encode_to_vec();
    let Some(Resource::Route(closed)) = substitute(Kind::Route, &bad.key, &bytes) else {
        panic!("it is closed");
    };
    assert_eq!(closed.attachments.len(), 2);
}

#[test]
fn an_order_of_another_rule_than_the_key_is_rejected() {
    for (object, number) in [("app/shop", 1), ("app/other", 0)] {
        let mut route = route(rule());
        route.order = Some(proto::Order {
            created: 0,
            object: object.to_owned(),
            rule: number,
        });
        assert!(resource(Kind::Route, &route.encode_to_vec()).is_err());
    }
}

#[test]
fn invalid_matches_are_rejected() {
    let header = |name: &str, value| proto::HeaderMatch {
        name: name.to_owned(),
        value,
    };
    let regex = |text: &str| {
        Some(proto::StringMatch {
            kind: Some(string_match::Kind::Regex(text.to_owned())),
        })
    };
    let bad = proto::HttpMatch {
        path: Some(proto::PathMatch {
            kind: Some(path_match::Kind::Regex("a(".to_owned())),
        }),
        method: Some("GET /".to_owned()),
        headers: vec![header("X-A", regex("a|b")), header("x-a", regex("c"))],
        query: vec![proto::QueryMatch::default()],
    };
    let unset = proto::HttpMatch {
        headers: vec![header("a\nb", regex("["))],
        ..Default::default()
    };
    let message = route(proto::HttpRule {
        matches: vec![prefix("/"), bad, unset, prefix("/a//b")],
        ..rule()
    });
    assert_eq!(
        problems(Kind::Route, &message),
        [
            "http.matches[1].path.regex: the regular expression `a(` does not compile: unclosed \
             group",
            "http.matches[1].method: `GET /` is not a valid method",
            "http.matches[1].query[0].name: is missing",
            "http.matches[1].query[0].value: is missing",
            "http.matches[1].headers: `x-a` is duplicated",
            "http.matches[2].path: is missing",
            "http.matches[2].headers[0].name: `a\\nb` is not a header name",
            "http.matches[2].headers[0].value.regex: the regular expression `[` does not compile: \
             unclosed character class",
            "http.matches[3].path.prefix: the path `/a//b` must start with `/`, contain only characters of a URI path, and no `//`, `/./`, `/../`, `%2f` or `%00`",
        ]
    );
    assert_eq!(
        problems(Kind::Route, &route(proto::HttpRule::default())),
        [
            "http.protocol: is missing",
            "http.matches: is empty: at least one is needed",
        ]
    );
    assert_eq!(
        problems(
            Kind::Route,
            &proto::Route {
                rule: None,
                ..route(rule())
            }
        ),
        ["rule: is missing, or of a kind unknown to this version"]
    );
}

#[test]
fn invalid_backends_retries_and_sessions_are_rejected() {
    let service = proto::ServiceTarget {
        service: "shop".to_owned(),
        port: 70_000,
    };
    let backend = |kind| proto::RouteBackend {
        target: Some(proto::Target {
            kind,
            ..Default::default()
        }),
        ..Default::default()
    };
    let cookie = proto::SessionCookie {
        name: "a b".to_owned(),
        lifetime: proto::SessionLifetime::Permanent.into(),
        path: None,
    };
    let message = route(proto::HttpRule {
        backends: vec![
            backend(Some(target::Kind::Service(service))),
            backend(Some(target::Kind::Invalid(99))),
            backend(None),
            proto::RouteBackend::default(),
        ],
        request_timeout: Some(proto::Timeout { kind: None }),
        retry: Some(proto::Retry {
            attempts: 1,
            codes: vec![503, 99],
            backoff: None,
        }),
        session: Some(proto::SessionPersistence {
            token: Some(session_persistence::Token::Cookie(cookie)),
            ..Default::default()
        }),
        ..rule()
    });
    assert_eq!(
        problems(Kind::Route, &message),
        [
            "http.backends[0].target.service.service: `shop` does not have the form \
             `<Kind>/<namespace>/<name>`",
            "http.backends[0].target.service.port: 70000 is not a port: use 1 to 65535",
            "http.backends[1].target.invalid: 99 is unknown to this version",
            "http.backends[2].target: is missing, or of a kind unknown to this version",
            "http.backends[3].target: is missing",
            "http.request_timeout: is missing, or of a kind unknown to this version",
            "http.retry.codes[1]: 99 is not a status code: use 100 to 999",
            "http.session.cookie.name: `a b` is not a cookie name",
        ]
    );
}

#[test]
fn a_permanent_cookie_needs_an_absolute_timeout() {
    let cookie = proto::SessionCookie {
        name: "session".to_owned(),
        lifetime: proto::SessionLifetime::Permanent.into(),
        path: None,
    };
    let message = route(proto::HttpRule {
        session: Some(proto::SessionPersistence {
            token: Some(session_persistence::Token::Cookie(cookie)),
            ..Default::default()
        }),
        ..rule()
    });
    assert_eq!(
        problems(Kind::Route, &message),
        ["http.session.absolute_timeout: is required for a permanent cookie"]
    );
}

#[test]
fn invalid_filters_are_rejected() {
    let edit = proto::HeaderEdit {
        set: vec![proto::HeaderField {
            name: "x".to_owned(),
            value: b"a\r\nb: c".to_vec(),
        }],
        ..Default::default()
    };
    let redirect = proto::Redirect {
        scheme: Some(9),
        port: Some(0),
        path: Some(proto::PathEdit {
            kind: Some(path_edit::Kind::Full("/a b".to_owned())),
        }),
        status: 304,
        ..Default::default()
    };
    let mirror = proto::Mirror {
        target: None,
        fraction: Some(proto::Fraction {
            numerator: 2,
            denominator: 1,
        }),
    };
    let message = rule_with_filters(proto::Filters {
        request_headers: Some(edit),
        response_headers: None,
        redirect: Some(redirect),
        rewrite: Some(proto::Rewrite::default()),
        mirrors: vec![mirror],
        cors: None,
        external_auth: vec![proto::ExternalAuth {
            target: None,
            body_bytes: Some(0),
            protocol: None,
        }],
    });
    assert_eq!(
        problems(Kind::Route, &message),
        [
            "http.filters.request_headers.set[0].value: is not a valid header value: it contains control characters",
            "http.filters: has both `redirect` and `rewrite`: use one of them",
            "http.filters.redirect.scheme: 9 is unknown to this version",
            "http.filters.redirect.path.full: `/a b` cannot replace a path: start it with `/`, \
             percent-encode characters not allowed in a URI path, and leave out query and \
             fragment",
            "http.filters.redirect.port: 0 is not a port: use 1 to 65535",
            "http.filters.redirect.status: 304 is not a redirect: use 301, 302, 303, 307 or 308",
            "http.filters.mirrors[0].target: is missing",
            "http.filters.mirrors[0].fraction: 2 of 1 is not a fraction: the numerator must not \
             exceed the denominator",
            "http.filters.external_auth[0].target: is missing",
            "http.filters.external_auth[0].body_bytes: 0 is too small: use 1 or more",
            "http.filters.external_auth[0].protocol: is missing, or of a kind unknown to this version",
        ]
    );
}

#[test]
fn invalid_cors_filters_are_rejected() {
    let names = vec!["GET".to_owned(), String::new()];
    let cors = proto::Cors {
        allow_origins: vec!["example.com".to_owned()],
        allow_methods: Some(proto::Allow {
            kind: Some(allow::Kind::Listed(proto::Names { names })),
        }),
        allow_headers: Some(proto::Allow { kind: None }),
        ..Default::default()
    };
    let message = rule_with_filters(proto::Filters {
        cors: Some(cors),
        ..Default::default()
    });
    assert_eq!(
        problems(Kind::Route, &message),
        [
            "http.filters.cors.allow_origins[0]: `example.com` is not an origin: use `*`, or \
             scheme and host, such as `https://example.com:8443` or `https://*.example.com`",
            "http.filters.cors.allow_methods.listed[1]: `` is not a valid method",
            "http.filters.cors.allow_headers: is missing, or of a kind unknown to this version",
            "http.filters.cors.expose_headers: is missing",
            "http.filters.cors.max_age: is missing",
        ]
    );
}

#[test]
fn prefix_replacement_requires_a_prefix_match() {
    let path = Some(proto::PathEdit {
        kind: Some(path_edit::Kind::PrefixMatch("/new".to_owned())),
    });
    let filters = proto::Filters {
        rewrite: Some(proto::Rewrite {
            hostname: None,
            path,
        }),
        ..Default::default()
    };
    let good = rule_with_filters(filters.clone());
    assert!(resource(Kind::Route, &good.encode_to_vec()).is_ok());

    let exact = proto::HttpMatch {
        path: Some(proto::PathMatch {
            kind: Some(path_match::Kind::Exact("/a".to_owned())),
        }),
        ..Default::default()
    };
    let bad = route(proto::HttpRule {
        matches: vec![prefix("/"), exact],
        backends: vec![proto::RouteBackend {
            target: Some(proto::Target {
                kind: Some(target::Kind::Backend("Backend/app/legacy".to_owned())),
                ..Default::default()
            }),
            weight: 1,
            filters: Some(filters),
            session: None,
        }],
        ..rule()
    });
    assert_eq!(
        problems(Kind::Route, &bad),
        ["http.matches: has a path match other than a prefix, but a filter replaces the prefix"]
    );
}

#[test]
fn a_rule_with_too_many_regular_expressions_is_rejected() {
    let header = |number: usize| {
        let regex = format!("{number}[a-z]{{1000}}");
        let kind = Some(string_match::Kind::Regex(regex));
        proto::HeaderMatch {
            name: format!("x-{number}"),
            value: Some(proto::StringMatch { kind }),
        }
    };
    let with_headers = |count: usize| {
        let matches = proto::HttpMatch {
            headers: (0..count).map(header).collect(),
            ..prefix("/")
        };
        route(proto::HttpRule {
            matches: vec![matches],
            ..rule()
        })
    };
    let few = resource(Kind::Route, &with_headers(20).encode_to_vec());
    assert!(few.is_ok(), "{few:?}");
    let problems = problems(Kind::Route, &with_headers(4000));
    let first = problems.first().expect("a problem");
    assert!(first.starts_with("http.matches[0].headers["), "{first}");
    assert!(first.contains("KiB of 2048 KiB"), "{first}");
    assert!(problems.len() > 3800, "{}", problems.len());
}

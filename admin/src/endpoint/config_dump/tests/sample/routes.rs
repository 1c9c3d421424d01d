//! Routes.

use http::{Method, StatusCode};
use xds::model::{
    Allow, Attachment, Attachments, CookiePath, Cors, CorsOrigin, FilterSet, Filters, Fraction,
    HeaderEdit, HeaderMatch, HttpMatch, HttpRule, InvalidBackend, L4Backend, L4Rule, Mirror,
    ObjectName, PathEdit, PathMatch, Pattern, QueryMatch, Redirect, RequestProtocol, Resource,
    Retry, Rewrite, Route, RouteBackend, RouteKey, RouteRule, Scheme, SessionLifetime,
    SessionPersistence, SessionToken, StringMatch, Target, Timeout, Timeouts,
};

use super::listeners::external_auth;
use super::{all, backend_key, count, header, host, line, listener_key, seconds, to_service};

pub(super) fn routes() -> Vec<Resource> {
    let l4 = |name: Option<&str>| L4Rule {
        name: name.map(str::to_owned),
        backends: vec![L4Backend {
            target: to_service(),
            weight: 2,
        }],
    };
    all([
        route("HTTPRoute", 0, "http", RouteRule::Http(forwarding())),
        route("HTTPRoute", 1, "https", RouteRule::Http(redirecting())),
        route("GRPCRoute", 0, "https", RouteRule::Http(plain_grpc())),
        route(
            "TLSRoute",
            0,
            "passthrough",
            RouteRule::Tls(l4(Some("tls"))),
        ),
        route("TCPRoute", 0, "tcp", RouteRule::Tcp(l4(None))),
        route("UDPRoute", 0, "udp", RouteRule::Udp(l4(Some("udp")))),
    ])
}

fn route(kind: &str, number: u16, listener: &str, rule: RouteRule) -> Route {
    let listener = listener_key(listener);
    Route {
        key: RouteKey::new(
            kind,
            &ObjectName::new("shop", "cart"),
            number,
            &ObjectName::new("infra", "edge"),
        ),
        attachments: Attachments::from(Attachment {
            listener,
            hostnames: [host("a.example.com"), host("*.b.example.com")].into(),
        }),
        created: 1_700_000_000,
        rule,
    }
}

fn forwarding() -> HttpRule {
    HttpRule {
        name: Some("forwarding".into()),
        protocol: RequestProtocol::Http,
        matches: matches(),
        filters: Filters::from(FilterSet {
            request_headers: Some(edit()),
            response_headers: Some(edit()),
            redirect: None,
            rewrite: Some(Rewrite {
                hostname: Some(host("inner.example")),
                path: Some(PathEdit::prefix_match("/new").expect("a path")),
            }),
            mirrors: mirrors(),
            cors: Some(listed_cors()),
            external_auth: external_auth(),
        }),
        backends: backends(),
        timeouts: Timeouts {
            request: Timeout::After(seconds(90)),
            backend_request: Timeout::Never,
        },
        retry: Some(Box::new(Retry {
            attempts: 3,
            codes: vec![StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE],
            backoff: Some(seconds(1)),
        })),
        session: Some(Box::new(cookie())),
        invalid: None,
    }
}

fn redirecting() -> HttpRule {
    HttpRule {
        name: None,
        protocol: RequestProtocol::Http,
        matches: Box::default(),
        filters: Filters::from(FilterSet {
            request_headers: None,
            response_headers: None,
            redirect: Some(Redirect {
                scheme: Some(Scheme::Https),
                hostname: Some(host("new.example")),
                path: Some(PathEdit::full("/moved").expect("a path")),
                port: Some(8_443),
                status: StatusCode::PERMANENT_REDIRECT,
            }),
            rewrite: None,
            mirrors: Vec::new(),
            cors: Some(open_cors()),
            external_auth: Vec::new(),
        }),
        backends: Box::default(),
        timeouts: Timeouts {
            request: Timeout::Default,
            backend_request: Timeout::After(seconds(2)),
        },
        retry: Some(Box::new(Retry {
            attempts: 1,
            codes: Vec::new(),
            backoff: None,
        })),
        session: Some(Box::new(SessionPersistence {
            token: SessionToken::Cookie {
                name: "plain".to_owned(),
                path: CookiePath::default(),
                lifetime: SessionLifetime::Session,
            },
            absolute_timeout: None,
            idle_timeout: None,
        })),
        invalid: None,
    }
}

/// A rule with nothing but a redirect of the scheme, for gRPC.
fn plain_grpc() -> HttpRule {
    HttpRule {
        name: None,
        protocol: RequestProtocol::Grpc,
        matches: Box::default(),
        filters: Filters::from(FilterSet {
            request_headers: None,
            response_headers: None,
            redirect: Some(Redirect {
                scheme: Some(Scheme::Http),
                hostname: None,
                path: None,
                port: None,
                status: StatusCode::FOUND,
            }),
            rewrite: None,
            mirrors: Vec::new(),
            cors: None,
            external_auth: Vec::new(),
        }),
        backends: Box::default(),
        timeouts: Timeouts::default(),
        retry: None,
        session: None,
        invalid: None,
    }
}

fn exact(value: &str) -> StringMatch {
    StringMatch::Exact(value.into())
}

fn regex(pattern: &str) -> StringMatch {
    StringMatch::Regex(Pattern::parse(pattern).expect("a pattern"))
}

fn matches() -> Box<[HttpMatch]> {
    let plain = |path| HttpMatch {
        path,
        method: None,
        headers: Box::default(),
        query: Box::default(),
    };
    let first = HttpMatch {
        path: PathMatch::exact("/cart").expect("a path"),
        method: Some(Method::POST),
        headers: [("x-tenant", exact("a")), ("x-api-key", exact("hush-1"))]
            .map(|(name, value)| HeaderMatch {
                name: header(name),
                value,
            })
            .into(),
        query: [("page", regex("[0-9]+")), ("token", exact("hush-2"))]
            .map(|(name, value)| QueryMatch {
                name: name.to_owned(),
                value,
            })
            .into(),
    };
    let pattern = Pattern::parse("/v[0-9]/.*").expect("a pattern");
    Box::new([
        first,
        plain(PathMatch::prefix("/").expect("a path")),
        plain(PathMatch::prefix("/items/").expect("a path")),
        plain(PathMatch::Regex(pattern)),
    ])
}

fn edit() -> HeaderEdit {
    HeaderEdit {
        set: vec![line("authorization", "hush-3"), line("x-plain", "shown")],
        add: vec![line(
            "referer",
            "https://user:hush-4@page.example/a?code=hush-5",
        )],
        remove: vec![header("x-internal")],
    }
}

fn mirrors() -> Vec<Mirror> {
    vec![
        Mirror {
            target: to_service(),
            fraction: Some(Fraction::new(1, count(10)).expect("a fraction")),
        },
        Mirror {
            target: Target::Backend(backend_key()),
            fraction: None,
        },
    ]
}

fn listed_cors() -> Cors {
    let origins = ["https://example.com:8443", "https://*.example.com"];
    Cors {
        allow_origins: origins
            .map(|origin| CorsOrigin::parse(origin).expect("an origin"))
            .into(),
        allow_credentials: true,
        allow_methods: Allow::Listed(vec![Method::PUT, Method::DELETE]),
        allow_headers: Allow::Listed(vec![header("x-tenant")]),
        expose_headers: Allow::Listed(vec![header("x-shown")]),
        max_age: seconds(3_600),
    }
}

fn open_cors() -> Cors {
    Cors {
        allow_origins: vec![CorsOrigin::Any],
        allow_credentials: false,
        allow_methods: Allow::Any,
        allow_headers: Allow::Any,
        expose_headers: Allow::Any,
        max_age: seconds(5),
    }
}

fn cookie() -> SessionPersistence {
    SessionPersistence {
        token: SessionToken::Cookie {
            name: "cart".to_owned(),
            path: CookiePath::parse("/cart").expect("a path"),
            lifetime: SessionLifetime::Permanent,
        },
        absolute_timeout: Some(seconds(7_200)),
        idle_timeout: Some(seconds(600)),
    }
}

fn backends() -> Box<[RouteBackend]> {
    let invalid = [
        InvalidBackend::NotFound,
        InvalidBackend::InvalidKind,
        InvalidBackend::NotPermitted,
        InvalidBackend::UnsupportedProtocol,
    ];
    let invalid = invalid.map(|why| RouteBackend {
        target: Target::Invalid {
            why,
            reference: "Service/shop/gone:80".to_owned(),
        },
        weight: 0,
        filters: Filters::default(),
        session: None,
    });
    let with_filters = RouteBackend {
        target: Target::Backend(backend_key()),
        weight: 3,
        filters: Filters::from(FilterSet {
            request_headers: Some(edit()),
            response_headers: None,
            redirect: None,
            rewrite: Some(Rewrite {
                hostname: None,
                path: Some(PathEdit::full("/whole").expect("a path")),
            }),
            mirrors: Vec::new(),
            cors: None,
            external_auth: Vec::new(),
        }),
        session: Some(Box::new(SessionPersistence {
            token: SessionToken::Header(header("x-session")),
            absolute_timeout: None,
            idle_timeout: None,
        })),
    };
    let to_service = RouteBackend {
        target: to_service(),
        weight: 7,
        filters: Filters::default(),
        session: None,
    };
    [to_service, with_filters]
        .into_iter()
        .chain(invalid)
        .collect()
}

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use xds::model::{
    self, Allow, Cors, FilterSet, Filters, HeaderEdit, Hostname, HttpRule, InvalidBackend, Mirror,
    PathEdit, PathRewriteRule, Redirect, RequestProtocol, Rewrite, RouteBackend, Scheme,
    Substitution, Target, Timeouts,
};

use super::{RewriteTarget, RulePolicy};
use crate::http::h1::encode::{Expectation, UpstreamRequest};
use crate::http::h1::{HeadLimits, HeadScan, Progress, parse_request};
use crate::http::head::RequestHead;
use crate::http::known::KnownHeader;
use crate::policy::forwarded::{Hop, TrustedHops};
use crate::policy::path_edit::RequestPath;
use crate::policy::path_rewrite::PathRewrite;
use crate::policy::request_id::RequestId;
use crate::policy::sample::written;

fn rule(filters: Filters, backends: Vec<Filters>) -> HttpRule {
    let backend = |filters| RouteBackend {
        target: Target::Invalid {
            why: InvalidBackend::NotFound,
            reference: "Service/a/none:80".to_owned(),
        },
        weight: 1,
        filters,
        session: None,
    };
    HttpRule {
        name: None,
        protocol: RequestProtocol::Http,
        matches: Box::default(),
        filters,
        backends: backends.into_iter().map(backend).collect(),
        timeouts: Timeouts::default(),
        retry: None,
        session: None,
        invalid: None,
    }
}

fn redirect() -> Redirect {
    Redirect {
        scheme: None,
        hostname: None,
        path: None,
        port: Some(8443),
        status: StatusCode::FOUND,
    }
}

fn mirror() -> Mirror {
    Mirror {
        target: Target::Invalid {
            why: InvalidBackend::InvalidKind,
            reference: "Service/a/none:80".to_owned(),
        },
        fraction: None,
    }
}

fn cors() -> Cors {
    Cors {
        allow_origins: Vec::new(),
        allow_credentials: false,
        allow_methods: Allow::Any,
        allow_headers: Allow::Any,
        expose_headers: Allow::Any,
        max_age: Duration::from_secs(5),
    }
}

fn setting(value: &'static str) -> HeaderEdit {
    let value = HeaderValue::from_static(value);
    HeaderEdit {
        set: vec![("x-by".parse().expect("a name"), value)],
        ..HeaderEdit::default()
    }
}

#[test]
fn a_rule_without_filters_compiles_to_nothing() {
    let idle = FilterSet {
        request_headers: Some(HeaderEdit::default()),
        ..FilterSet::default()
    };
    let policy = RulePolicy::compile(&rule(idle.into(), vec![Filters::default()]));
    assert!(policy.responses.is_none());
    assert!(policy.of_backend(0).is_none());
    assert!(policy.of_backend(1).is_none());
}

#[test]
fn a_redirect_of_a_rule_responds_before_a_backend_is_selected() {
    let filters = FilterSet {
        redirect: Some(redirect()),
        ..FilterSet::default()
    };
    let policy = RulePolicy::compile(&rule(filters.into(), Vec::new()));
    let answers = policy.responses.expect("a redirect");
    assert!(answers.redirect.is_some() && answers.cors.is_none());
}

#[test]
fn response_edits_of_a_rule_apply_without_a_backend() {
    let filters = FilterSet {
        response_headers: Some(setting("rule")),
        ..FilterSet::default()
    };
    let policy = RulePolicy::compile(&rule(filters.into(), Vec::new()));
    let responses = policy.responses.expect("edits");
    assert_eq!(responses.response_headers.appended(), b"x-by: rule\r\n");
    assert!(!responses.may_respond());
}

#[test]
fn a_cors_filter_takes_precedence_over_edits_of_cors_headers() {
    let value = HeaderValue::from_static("*");
    let edit = HeaderEdit {
        set: vec![(http::header::ACCESS_CONTROL_ALLOW_ORIGIN, value)],
        ..HeaderEdit::default()
    };
    let mut filters = FilterSet {
        response_headers: Some(edit),
        ..FilterSet::default()
    };
    let dropped = |filters: &FilterSet| {
        let policy = RulePolicy::compile(&rule(filters.clone().into(), vec![Filters::default()]));
        let policy = policy.of_backend(0).expect("filters");
        policy
            .response_headers
            .drops(b"access-control-allow-origin")
    };
    assert!(dropped(&filters));
    filters.cors = Some(cors());
    assert!(!dropped(&filters));
}

#[test]
fn a_backends_filters_follow_the_rules() {
    let filters = FilterSet {
        request_headers: Some(setting("rule")),
        rewrite: Some(Rewrite {
            hostname: Some(Hostname::parse("rule").expect("a name")),
            path: None,
        }),
        mirrors: vec![mirror()],
        ..FilterSet::default()
    };
    let own = FilterSet {
        request_headers: Some(setting("backend")),
        redirect: Some(redirect()),
        mirrors: vec![mirror()],
        ..FilterSet::default()
    };
    let policy = RulePolicy::compile(&rule(filters.into(), vec![Filters::default(), own.into()]));
    let appended = |at| policy.of_backend(at).map(|p| p.request_headers.appended());
    assert_eq!(appended(0), Some(&b"x-by: rule\r\n"[..]));
    assert_eq!(appended(1), Some(&b"x-by: backend\r\n"[..]));
    let [plain, own] = [0, 1].map(|at| policy.of_backend(at).expect("filters"));
    assert_eq!((plain.mirrors.len(), own.mirrors.len()), (1, 2));
    assert!(plain.redirect.is_none() && own.redirect.is_some());
    assert_eq!(own.rewrite.as_ref().and_then(|r| r.host()), Some("rule"));
    assert!(policy.responses.is_none());
}

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 8192,
    head_bytes: 32_768,
    fields: 100,
};

fn parsed(text: &str) -> RequestHead {
    let mut head = RequestHead::default();
    let progress = parse_request(
        text.as_bytes(),
        &LIMITS,
        &mut HeadScan::default(),
        &mut head,
    );
    assert_eq!(progress, Ok(Progress::Complete { len: text.len() }));
    head
}

/// A request as a backend receives it, with the filters applied as in the request path.
fn forwarded(filters: FilterSet, text: &str, matched_prefix: usize) -> String {
    let (head, bytes) = (parsed(text), text.as_bytes());
    let policy = RulePolicy::compile(&rule(filters.into(), vec![Filters::default()]));
    let policy = policy.of_backend(0).expect("filters");
    let hop = Hop::new([203, 0, 113, 7].into(), Scheme::Http);
    let header_trust = TrustedHops::Nobody.header_trust(&hop);
    let (edits, authority) = (&policy.request_headers, head.authority.of(bytes));

    let rewrite = policy.rewrite.as_ref().expect("a rewrite");
    let path = RequestPath::new(head.target.of(bytes), matched_prefix);
    let target = written(|out| rewrite.write_target(path, out));
    let append = written(|out| {
        let request = (&head.fields, bytes);
        let address = (Scheme::Http, authority);
        header_trust.write_lines(&hop, address, request, Some(edits), out);
        RequestId::choose(header_trust, &head.fields, bytes, [0, 0]).write_line(Some(edits), out);
        out.extend_from_slice(edits.appended());
    });
    let request = UpstreamRequest {
        head: &head,
        framing: head.framing,
        bytes,
        target: target.as_bytes(),
        host: rewrite.host().map_or(authority, str::as_bytes),
        expectation: Expectation::Origin,
        append: append.as_bytes(),
    };
    written(|out| {
        request.encode(out, |known, name| {
            known == KnownHeader::XRequestId || header_trust.drops(known, name) || edits.drops(name)
        });
    })
}

#[test]
fn a_request_passes_through_every_filter() {
    let mut edit = setting("rule");
    edit.set
        .push((http::header::HOST, HeaderValue::from_static("evil.example")));
    edit.remove.push("x-secret".parse().expect("a name"));
    let filters = FilterSet {
        request_headers: Some(edit),
        rewrite: Some(Rewrite {
            hostname: Some(Hostname::parse("one.example.org").expect("a name")),
            path: Some(PathEdit::PrefixMatch("/".to_owned())),
        }),
        ..FilterSet::default()
    };
    let text = "POST /strip//evil.example/?q=1 HTTP/1.1\r\nHost: example.org\r\n\
                X-By: client\r\nX-SECRET: 1\r\nX-Forwarded-For: 10.0.0.1\r\n\
                X-Forwarded-Prefix: /admin\r\nX_Forwarded_For: 10.0.0.1\r\nX-Real-Ip: 10.0.0.1\r\n\
                Forwarded: for=10.0.0.1\r\nX-Request-Id: spoofed\r\nContent-Length: 3\r\n\
                Accept: */*\r\n\r\n";
    let upstream = forwarded(filters, text, "/strip".len());
    assert_eq!(
        upstream,
        "POST /evil.example/?q=1 HTTP/1.1\r\nHost: one.example.org\r\nAccept: */*\r\n\
         Content-Length: 3\r\nx-forwarded-for: 203.0.113.7\r\nx-forwarded-proto: http\r\n\
         x-forwarded-host: example.org\r\n\
         x-request-id: 00000000-0000-4000-8000-000000000000\r\nx-by: rule\r\n\r\n"
    );
    parsed(&upstream);
}

#[test]
fn a_filter_wins_over_the_rewrite_of_a_route_and_is_ambiguous_beside_that_of_its_rule() {
    let substitution = Substitution::parse("/b").expect("a substitution");
    let pattern = PathRewriteRule::parse("^/a", substitution).expect("a pattern");
    let rewrite = model::PathRewrite::Rule(pattern);
    let filter = |path: Option<PathEdit>| {
        Filters::from(FilterSet {
            rewrite: Some(Rewrite {
                hostname: Hostname::parse("other.test").ok(),
                path,
            }),
            ..FilterSet::default()
        })
    };
    let with_path = || filter(Some(PathEdit::Full("/f".to_owned())));
    let rewrites = |rule: &HttpRule, target| {
        let policy = RulePolicy::compile(rule).with_path_rewrite(rule, &rewrite, target);
        let backends = policy.backends.iter();
        let rewrites = backends.map(|it| it.as_ref().and_then(|it| it.path_rewrite.clone()));
        rewrites.collect::<Vec<_>>()
    };
    let by_policy = || Some(PathRewrite::compile(&rewrite));
    let ambiguous = || Some(PathRewrite::Ambiguous);
    let (route, of_rule) = (RewriteTarget::Route, RewriteTarget::Rule);
    let none = rule(Filters::default(), vec![Filters::default(), filter(None)]);
    for target in [route, of_rule] {
        assert_eq!(rewrites(&none, target), [by_policy(), by_policy()]);
    }
    let one = rule(Filters::default(), vec![Filters::default(), with_path()]);
    assert_eq!(rewrites(&one, route), [by_policy(), None]);
    assert_eq!(rewrites(&one, of_rule), [ambiguous(), ambiguous()]);
    let all = rule(with_path(), vec![Filters::default()]);
    assert_eq!(rewrites(&all, route), [None]);
    assert_eq!(rewrites(&all, of_rule), [ambiguous()]);
    let invalid =
        RulePolicy::compile(&none).with_path_rewrite(&none, &model::PathRewrite::Invalid, route);
    let first = invalid
        .of_backend(0)
        .and_then(|it| it.path_rewrite.as_ref());
    assert_eq!(first, Some(&PathRewrite::Invalid));
}

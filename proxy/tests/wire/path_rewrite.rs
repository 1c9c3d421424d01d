//! Rewrites of paths by a policy: what the backend gets, and what it never gets.

use super::admin_trace::{events, message, watches};
use super::metrics::waits_for_count;
use crate::support::{
    Driver, GatewayBuilder, Message, Origin, Pair, client, gateway, on_both_drivers, on_every_pair,
    origin,
};

fn rewrite(pattern: &str, substitution: &str) -> String {
    format!("pathRewrite: {{pattern: '{pattern}', substitution: '{substitution}'}}")
}

const ROUTE: &str = "HTTPRoute/route-0";

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// The same with the protocols of a pair.
fn through(pair: Pair, origin: &Origin) -> GatewayBuilder {
    pair.backend(pair.gateway(), "origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

#[track_caller]
fn expect_bad_rewrite(answer: &Message) {
    assert_eq!(answer.status(), 500, "{answer}");
    assert_eq!(
        answer.text(),
        "the path of this request cannot be rewritten\n"
    );
}

on_every_pair! {
    fn a_backend_gets_the_new_path(pair) {
        let origin = origin();
        for (target, (pattern, substitution), cases) in [
            (ROUTE, ("^/api(/|$)(.*)", r"/\2"), &[
                ("/api/v1/items?q=1", "/v1/items?q=1"),
                ("/api", "/"),
                ("/apis/x", "/apis/x"),
                ("/api/a%2fb//c", "/a%2Fb//c"),
                ("/api/x/../y", "/y"),
                // Else a host that the backend may redirect to.
                ("/api//evil.example/x?y=//z", "/evil.example/x?y=//z"),
            ][..]),
            ("HTTPRoute/route-0/rule", (r"^/(\w+)/(.*)$", r"/\2?brand=\1"), &[
                ("/acme/shoes?size=9", "/shoes?brand=acme&size=9"),
                ("/acme/?", "/?brand=acme"),
                ("/acme", "/acme"),
            ]),
            (ROUTE, ("^/a$", "/{a}|[b]^<c>"), &[("/a", "/%7Ba%7D%7C%5Bb%5D%5E%3Cc%3E")]),
            (ROUTE, ("_", "-"), &[("/a_b_c?d_e", "/a-b-c?d_e")]),
            (ROUTE, ("^/(a)?(b)?c", r"/x\1-\2-\3"), &[("/bc", "/x-b-")]),
            // As `gateway check` warns, this is no group.
            (ROUTE, ("^/(.*)$", "/$1"), &[("/a", "/$1")]),
        ] {
            let policy = rewrite(pattern, substitution);
            let gateway = through(pair, &origin).policy_of(target, &policy).start();
            let mut client = pair.client(&gateway);
            for (path, expected) in cases {
                client.gets(path).expects(200);
                let requests = origin.requests();
                assert_eq!(requests.last().expect("it came").target(), *expected, "{pattern} {path}");
            }
        }
    }

    fn a_path_that_becomes_none_gets_500_and_the_connection_goes_on(pair) {
        let origin = origin();
        let with = |pattern, substitution| {
            through(pair, &origin).policy_of(ROUTE, &rewrite(pattern, substitution)).start()
        };
        for (pattern, substitution, path) in [
            ("^/bad", "bad", "/bad"),
            ("^/bad", "/../x", "/bad"),
            ("^/bad", "/%2e%2E", "/bad"),
            ("x", "", "/bad/.x./b"),
            ("25", "", "/bad/%252E%252E"),
            ("20", "", "/bad%20"),
            ("bad", &"long".repeat(250), &"/bad".repeat(20)),
        ] {
            let gateway = with(pattern, substitution);
            let mut client = pair.client(&gateway);
            expect_bad_rewrite(&client.gets(path).expects(500));
            client.gets("/good").expects(200);
        }
        assert!(origin.requests().iter().all(|it| it.target() == "/good"));
    }
}

on_both_drivers! {
    fn a_path_as_long_as_a_request_line_may_be_is_rewritten(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver).policy_of(ROUTE, &rewrite("/(seg)", r"/\1")).start();
        let path = "/seg".repeat(2_000);
        gateway.client().gets(&path).expects(200);
        assert_eq!(origin.only_request().target(), path);
        let gateway = gateway_to(&origin, driver).policy_of(ROUTE, &rewrite("^/", "/and-much-more-than-before/")).start();
        let path = format!("/{}", "s".repeat(8_170));
        expect_bad_rewrite(&gateway.client().gets(&path).expects(500));
        assert_eq!(origin.requests().len(), 1);
    }

    fn the_path_options_of_the_gateway_hold_for_new_paths(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy("pathOptions: {mergeSlashes: true, escapedSlash: Reject}")
            .policy_of(ROUTE, &rewrite("^/a", "//b//"))
            .start();
        gateway.client().gets("/a/c").expects(200);
        assert_eq!(origin.only_request().target(), "/b/c");
        let gateway = gateway_to(&origin, driver)
            .policy("pathOptions: {escapedSlash: Reject}")
            .policy_of(ROUTE, &rewrite("^/a", "/%2F"))
            .start();
        expect_bad_rewrite(&gateway.client().gets("/a").expects(500));
    }

    fn the_nearer_policy_wins_and_filters_win_over_the_routes(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: near, matches: [{path: {value: /near}}], backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /filter}}], \
                   filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /f}}}], \
                   backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /host}}], \
                   filters: [{type: URLRewrite, urlRewrite: {hostname: other.test}}], backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /moved}}], \
                   filters: [{type: RequestRedirect, requestRedirect: {hostname: new.test}}]}")
            .policy_of(ROUTE, &rewrite("^/[a-z]+", "/route"))
            .policy_of("HTTPRoute/route-0/near", &rewrite("^/near", "/rule"))
            .start();
        let mut client = gateway.client();
        for (path, expected) in [("/near/a", "/rule/a"), ("/filter", "/f"), ("/host", "/route")] {
            client.gets(path).expects(200);
            assert_eq!(origin.requests().last().expect("it came").target(), expected);
        }
        assert_eq!(origin.requests()[2].value("host"), Some("other.test"));
        // A redirect is about the path of the client.
        let moved = client.gets("/moved/x").expects(302);
        let location = format!("http://new.test:{}/moved/x", gateway.address().port());
        assert_eq!(moved.value("location"), Some(&*location));
    }

    fn a_policy_of_a_rule_with_a_filter_answers_500(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: both, filters: [{type: URLRewrite, urlRewrite: \
                   {path: {type: ReplaceFullPath, replaceFullPath: /f}}}], backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0/both", &rewrite("a", "b"))
            .start();
        expect_bad_rewrite(&gateway.client().gets("/").expects(500));
        assert!(origin.requests().is_empty());
    }

    fn an_invalid_rewrite_answers_500_until_a_version_is_valid(driver) {
        let origin = origin();
        let with = |pattern: &str| gateway_to(&origin, driver).policy_of(ROUTE, &rewrite(pattern, "/b"));
        for invalid in ["(?=a)", "(a{200}){200}"] {
            let gateway = with(invalid).start();
            expect_bad_rewrite(&gateway.client().gets("/a").expects(500));
        }
        let typo = "pathRewrites: {pattern: a, substitution: b}";
        let gateway = gateway_to(&origin, driver).policy_of(ROUTE, typo).start();
        expect_bad_rewrite(&gateway.client().gets("/a").expects(500));
        assert!(origin.requests().is_empty());

        gateway.reconfigure(&with("^/a"));
        gateway.waits_for_applied(2);
        gateway.client().gets("/a").expects(200);
        // A mistake in a later version: the previous one stays.
        gateway.reconfigure(&with("^/a("));
        gateway.waits_for_log("`(` has no `)`");
        gateway.client().gets("/a").expects(200);
        let targets: Vec<String> = origin.requests().iter().map(|it| it.target().to_owned()).collect();
        assert_eq!(targets, ["/b", "/b"]);
    }

    fn a_mirror_gets_what_the_backend_gets(driver) {
        let (main, copy) = (origin(), origin());
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("copy", &[copy.address()])
            .rule("{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}], backendRefs: [{@main}]}")
            .policy_of(ROUTE, &rewrite("^/a/(.*)$", r"/b/\1"))
            .start();
        gateway.client().gets("/a/x?y").expects(200);
        copy.waits_for_complete(1);
        assert_eq!(main.only_request().target(), "/b/x?y");
        assert_eq!(copy.only_request().target(), "/b/x?y");
    }

    fn traces_show_the_path_before_and_after(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .inspected()
            .policy("accessLog: {format: json}")
            .policy_of(ROUTE, &rewrite("^/a/(.*)$", r"/\1"))
            .start();
        let traced = |path: &str, status: u16| {
            let mut watcher = watches(&gateway, "?timeout=20s");
            gateway.client().gets(path).expects(status);
            serde_json::to_string(&events(&mut watcher)).expect("JSON")
        };
        let text = traced("/a/x?secret=1", 200);
        assert!(text.contains("\"kind\":\"pathRewrite\"") && text.contains("/a/x became /x\""), "{text}");
        assert!(traced("/b", 200).contains("the pattern does not match /b"));
        let text = traced("/a/..x/a%20", 200);
        assert!(text.contains("became /..x/a%20"), "{text}");
        for (result, requests) in [("rewritten", 2.0), ("unchanged", 1.0), ("refused", 0.0)] {
            waits_for_count(&gateway, "gateway_path_rewrites_total", result, requests);
        }
    }

    fn a_refused_rewrite_has_a_reason_in_log_metrics_and_trace(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .inspected()
            .policy("accessLog: {format: json}")
            .policy_of(ROUTE, &rewrite("^/a", "b"))
            .start();
        let mut watcher = watches(&gateway, "?timeout=20s");
        expect_bad_rewrite(&gateway.client().gets("/a").expects(500));
        let traced = events(&mut watcher);
        assert_eq!(message(&traced, "requestFinished")["reason"], "bad_rewrite: no_slash");
        let text = serde_json::to_string(&traced).expect("JSON");
        assert!(text.contains("/a cannot be rewritten: the new path does not begin with a slash"), "{text}");
        let line = gateway.waits_for_access_log("bad_rewrite");
        assert!(line.contains("\"/a\""), "{line}");
        gateway.client().gets("/b").expects(200);
        for (result, requests) in [("refused", 1.0), ("unchanged", 1.0), ("rewritten", 0.0)] {
            waits_for_count(&gateway, "gateway_path_rewrites_total", result, requests);
        }
        let metrics = client(gateway.server("metrics")).gets("/metrics").reads();
        assert!(metrics.text().contains("reason=\"bad_rewrite\""), "{}", metrics.text());
    }
}

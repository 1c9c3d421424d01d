//! Page servers that hang or are slow: neither the error that waits for a page, nor other requests, nor the server
//! itself suffer by that.

use std::time::{Duration, Instant};

use super::admin::json;
use super::admin_trace::{events, watches};
use super::inference::{ROUTE, pool_of};
use super::page_servers::{gateway_with, page, served};
use crate::support::pki::authority;
use crate::support::{
    Client, Gate, PickerBehavior, Reply, gateway, ok, on_both_drivers, origin, picker, refused,
    status, tls,
};

on_both_drivers! {
    /// The page would be cut off at the route's timeout.
    fn a_page_of_a_server_takes_no_longer_than_the_timeout_of_the_route(driver) {
        let app = origin().replies(status(502));
        let pages = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("origin", &[app.address()])
            .rule("{timeouts: {request: 200ms}, backendRefs: [{@origin}]}")
            .policy(&served("Any"))
            .start();
        let (mut client, begun) = (gateway.client(), Instant::now());
        assert_eq!(client.gets("/").expects(502).text(), "502 Bad Gateway\n");
        assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
        assert_eq!(pages.requests().len(), 1);
    }

    /// So is one for an error of the gateway itself, but for the timeout's: that has passed, and the client is told so
    /// on a page.
    fn a_page_of_a_server_for_an_error_of_the_gateway_ends_with_the_timeout_of_the_route(driver) {
        let (_socket, nobody) = refused();
        let (app, pages) = (origin().replies(Reply::at_once().stalls()), origin().replies(Reply::at_once().stalls()));
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("gone", &[nobody])
            .backend("origin", &[app.address()])
            .rule("{timeouts: {request: 200ms}, backendRefs: [{@gone}]}")
            .rule("{matches: [{path: {value: /slow}}], timeouts: {request: 200ms}, backendRefs: [{@origin}]}")
            .policy(&served("Any"))
            .start();
        let (mut client, begun) = (gateway.client(), Instant::now());
        let answer = client.gets("/").expects(503);
        assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"), "{answer}");
        assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
        assert_eq!(pages.requests().len(), 1);
        pages.now_replies(page(200, "a page"));
        assert_eq!(client.gets("/slow").expects(504).text(), "a page");
    }

    /// The server of one tenant cannot take the pages of all.
    fn a_page_server_that_hangs_leaves_places_for_others(driver) {
        let (hanging, other) = (origin().replies(Reply::at_once().stalls()), origin().replies(page(200, "a page")));
        let of_other = "backendRef: {group: gateway-system.io, kind: Backend, name: other}";
        let gateway = gateway_with(&hanging, driver)
            .backend("other", &[other.address()])
            .rule("{name: other, matches: [{path: {value: /b}}]}")
            .policy_of("HTTPRoute/route-0/other", &format!("errorPages: [{{statuses: [400-599], source: Any, {of_other}}}]"))
            .shards(1)
            .start();
        let mut client = gateway.client();
        let mut waiting: Vec<Client> = (0..100).map(|_| gateway.client()).collect();
        for client in &mut waiting {
            client.gets("/a");
        }
        // It had no place, or the server has run out of time.
        waiting.pop().expect("one of them").expects(500);
        assert_eq!(client.gets("/b").expects(500).text(), "a page");
        assert!(hanging.open_connections() <= 32, "half of the places are for others");
        for client in &mut waiting {
            client.expects(500);
        }
    }

    /// When the timeout of the upload passes meanwhile, the gateway closes that direction itself, which must not look
    /// as if the client had left.
    fn an_upload_that_stalls_while_a_page_is_asked_for_leaves_the_client_its_page(driver) {
        let app = origin().replies(Reply::at_once().sends("HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nold"));
        let (pages, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[app.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@origin}]}")
            .policy(&served("Any"))
            .limits("bodyIdleTimeout: 200ms")
            .start();
        for mut client in [gateway.client(), gateway.tls_client(&tls(&ca, "a.test"))] {
            let (gate, asked) = (Gate::default(), pages.requests().len());
            let late = Reply::at_once().waits_for(&gate);
            pages.now_replies(late.sends("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na page"));
            client.sends("POST /app HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nhalf");
            pages.waits_for_requests(asked + 1);
            // Longer than the upload's timeout, and the interval in which clients are watched.
            client.expects_silence_for(Duration::from_millis(600));
            gate.open();
            assert_eq!(client.expects(503).text(), "a page");
        }
    }

    /// A picker has the whole body before a pod gets any of it: an upload that stalls ends there.
    fn an_upload_that_stalls_on_its_way_to_a_picker_gets_the_page_of_its_error(driver) {
        let (pages, pod) = (origin().replies(page(200, "a page")), origin());
        let (member, ca) = (pod.address(), authority("ca"));
        let picker = picker(PickerBehavior::Picks(vec![member]));
        let gateway = pool_of(driver, (&[member], "http"), picker.address(), "FailClose", "appProtocol: http2")
            .backend("pages", &[pages.address()])
            .https("web", None, &[&ca.server(&["a.test"])])
            .rule(ROUTE)
            .rule_of("web", ROUTE)
            .policy(&served("Any"))
            .limits("bodyIdleTimeout: 200ms")
            .start();
        for mut client in [gateway.client(), gateway.tls_client(&tls(&ca, "a.test"))] {
            client.sends("POST /app HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nhalf");
            assert_eq!(client.expects(408).text(), "a page");
        }
        assert_eq!((pages.requests().len(), pod.requests().len()), (2, 0));
    }

    /// A flood of requests that are refused is none at the page server; a page that is here costs nobody else anything.
    fn no_server_is_asked_about_a_request_that_exceeds_a_rate_limit(driver) {
        let pages = origin().replies(page(200, "a page"));
        let limited = "rateLimit: {rules: [{name: each, key: [{header: X-Key}], requests: 1, per: Day}]}";
        let gateway = gateway_with(&pages, driver)
            .policy_of("HTTPRoute/route-0", limited)
            .policy_of("HTTPRoute/route-0/rule", "accessLog: {format: json}")
            .start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/a").expects(500).text(), "a page");
        let mut watcher = watches(&gateway, "");
        for _ in 0..10 {
            let answer = client.gets("/a").expects(429);
            assert_eq!(answer.text(), "too many requests\n");
            assert!(answer.has("retry-after"), "{answer}");
        }
        assert_eq!(pages.requests().len(), 1);
        let says = |it: &serde_json::Value| {
            it["message"]["detail"].as_str().is_some_and(|it| it.contains("no server is asked about a request that"))
        };
        assert!(events(&mut watcher).iter().any(says));
        let body = "errorPages: [{statuses: ['429'], bodies: [{contentType: text/html, body: slower}]}]";
        let gateway = gateway_with(&pages, driver)
            .policy_of("HTTPRoute/route-0", limited)
            .policy_of("HTTPRoute/route-0/rule", body)
            .start();
        let mut client = gateway.client();
        client.gets("/a").expects(500);
        assert_eq!(client.gets("/a").expects(429).text(), "slower");
    }

    /// As of a rate limit: it is there because there is too much.
    fn no_server_is_asked_about_a_request_that_is_too_many_for_its_backend(driver) {
        let gate = Gate::default();
        let app = origin().replies(Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n"));
        let pages = origin().replies(page(200, "a page"));
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("origin", &[app.address()])
            .rule("{backendRefs: [{@origin}]}")
            .policy_of("Backend/origin", "limits: {upstreamConnections: 1, upstreamPending: 1}")
            .policy("accessLog: {format: json}")
            .policy(&served("Any"))
            .shards(1)
            .start();
        let [mut first, mut second, mut third] = [(); 3].map(|()| gateway.client());
        first.gets("/");
        app.waits_for_requests(1);
        second.gets("/").expects_silence();
        let refused = third.gets("/").expects(503);
        assert_eq!(refused.text(), "too many requests are waiting for the upstream\n");
        gateway.waits_for_access_log("\"reason\":\"upstream_full\"");
        gate.open();
        first.expects(204);
        second.expects(204);
        assert!(pages.requests().is_empty());
    }

    fn no_server_is_asked_about_a_retry_that_the_budget_does_not_allow(driver) {
        let (_socket, nobody) = refused();
        let pages = origin().replies(page(200, "a page"));
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("nobody", &[nobody])
            .rule("{retry: {attempts: 1, backoff: 10ms}, backendRefs: [{@nobody}]}")
            .backend_traffic("nobody", "retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 1, interval: 1h}}")
            .policy("accessLog: {format: json}")
            .policy(&served("Any"))
            .start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(503).text(), "a page");
        let refused = client.gets("/").expects(503);
        assert_eq!(refused.text(), "the upstream failed, and its retry budget is exhausted\n");
        gateway.waits_for_access_log("\"reason\":\"retries_over_budget\"");
        assert_eq!(pages.requests().len(), 1);
    }

    /// It may take longer for what clients ask it.
    fn a_server_that_is_too_slow_for_pages_is_not_ejected(driver) {
        let server = origin()
            .replies_to("/", Reply::at_once().stalls())
            .replies_to("/app", ok("served"));
        let gateway = gateway_with(&server, driver)
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@pages}]}")
            .policy_of("Backend/pages", "ejection: {consecutiveFailures: 1, maxPercent: 100}")
            .shards(1)
            .start();
        let mut client = gateway.client();
        for _ in 0..2 {
            let answer = client.gets("/a").expects(500);
            assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"), "{answer}");
            let dump = json(&gateway, "/config_dump").to_string();
            assert!(dump.contains("\"consecutiveFailures\":"), "{dump}");
            assert!(!dump.contains("\"ejectedShards\":1"), "{dump}");
            assert_eq!(client.gets("/app").expects(200).text(), "served");
        }
    }
}

//! Pages of policies in the place of the contents of errors: of the gateway, and of backends.

use super::admin_trace::{events, watches};
use super::inference::{ROUTE, pool_of};
use super::metrics::waits_for_count;
use crate::support::{
    Client, Driver, GatewayBuilder, Message, Origin, PickerBehavior, ResponseBehavior, gateway,
    on_both_drivers, on_every_pair, origin, picker, raw, refused,
};

/// Pages in three types.
fn pages(statuses: &str, source: &str) -> String {
    format!(
        "errorPages:\n  - statuses: ['{statuses}']\n    source: {source}\n    bodies:\n    \
         - {{contentType: text/html, body: '<h1>{{status}}</h1> at {{host}}'}}\n    \
         - {{contentType: application/json, body: '{{\"status\": {{status}}}}'}}\n    \
         - {{contentType: text/plain, body: 'error {{status}}'}}"
    )
}

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

fn asks(client: &mut Client, method: &str, path: &str, lines: &str) -> Message {
    client.sends(format!(
        "{method} {path} HTTP/1.1\r\nHost: A.test\r\n{lines}\r\n"
    ));
    client.reads_reply_to(method)
}

/// An error with all that a response may have.
const ERROR: &str = "HTTP/1.1 503 Busy\r\nContent-Type: text/css\r\nContent-Encoding: gzip\r\nContent-Language: de\r\n\
                     Content-Security-Policy: default-src 'none'\r\nETag: \"a\"\r\nLast-Modified: Mon, 30 Nov 2026 12:00:00 GMT\r\n\
                     Repr-Digest: sha-256=:a:\r\nAccept-Ranges: bytes\r\nRetry-After: 7\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
                     WWW-Authenticate: Basic\r\nVary: Origin\r\nX-Own: 1\r\nContent-Length: 7\r\n\r\nold old";

on_every_pair! {
    fn errors_of_the_gateway_get_a_page_by_accept(pair) {
        let gateway = pair.gateway().rule("{name: rule, matches: [{path: {value: /a}}]}")
            .policy(&pages("400-599", "Gateway"))
            .start();
        let mut client = pair.client(&gateway);
        // Without a valid backend, and without a rule.
        for (path, status) in [("/a", 500), ("/b", 404)] {
            for (accept, media_type, body) in [
                ("", "text/html", format!("<h1>{status}</h1> at a.test")),
                ("Accept: */*\r\n", "text/html", format!("<h1>{status}</h1> at a.test")),
                ("Accept: application/json\r\n", "application/json", format!("{{\"status\": {status}}}")),
                ("Accept: text/plain;q=0.9, application/json;q=0.5\r\n", "text/plain", format!("error {status}")),
            ] {
                for method in ["GET", "HEAD", "DELETE"] {
                    let answer = asks(&mut client, method, path, accept);
                    assert_eq!(answer.status(), status, "{method} {accept}: {answer}");
                    assert_eq!(answer.value("content-type"), Some(media_type), "{accept}: {answer}");
                    assert_eq!(answer.value("vary"), Some("Accept"));
                    assert_eq!(answer.value("content-length"), Some(&*body.len().to_string()));
                    assert_eq!(answer.text(), if method == "HEAD" { "" } else { &*body });
                }
            }
        }
    }

    /// Each range would be compared with each body.
    fn only_the_first_ranges_of_accept_choose_a_page(pair) {
        let gateway = pair.gateway().rule("{name: rule}").policy(&pages("500", "Gateway")).start();
        let mut client = pair.client(&gateway);
        for (ranges, media_type) in [(63, "application/json"), (64, "text/html"), (1_000, "text/html")] {
            let accept = format!("Accept: {}application/json\r\n", "a/b,".repeat(ranges));
            let answer = asks(&mut client, "GET", "/", &accept);
            assert_eq!((answer.status(), answer.value("content-type")), (500, Some(media_type)), "{ranges}");
        }
    }

    fn errors_of_a_backend_keep_status_and_fields_but_those_of_the_content(pair) {
        let origin = origin().replies(raw(ERROR));
        let gateway = pair.gateway_to(&origin).policy(&pages("503", "Backend")).start();
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            let answer = asks(&mut client, "GET", "/", "Accept: application/json\r\n");
            assert_eq!(answer.status(), 503, "{answer}");
            assert_eq!(answer.text(), "{\"status\": 503}");
            assert_eq!(answer.values("content-type"), ["application/json"]);
            assert_eq!(answer.values("content-length"), ["15"]);
            for name in ["content-encoding", "content-language", "content-security-policy", "etag", "last-modified", "repr-digest", "accept-ranges"] {
                assert!(!answer.has(name), "{name}: {answer}");
            }
            for (name, value) in [("retry-after", "7"), ("www-authenticate", "Basic"), ("x-own", "1")] {
                assert_eq!(answer.value(name), Some(value), "{answer}");
            }
            assert_eq!(answer.values("set-cookie"), ["a=b", "c=d"]);
            let mut varies = answer.values("vary");
            varies.sort_unstable();
            assert_eq!(varies.join(", "), "Accept, Origin");
        }
        assert_eq!(origin.requests().len(), 2);
    }

    fn head_of_a_backends_error_has_the_fields_of_get(pair) {
        let origin = origin().replies(raw("HTTP/1.1 404 Not Found\r\nContent-Type: text/css\r\nContent-Length: 7\r\n\r\n"));
        let gateway = pair.gateway_to(&origin).policy(&pages("404", "Any")).start();
        let mut client = pair.client(&gateway);
        let answer = asks(&mut client, "HEAD", "/", "");
        assert_eq!(answer.status(), 404, "{answer}");
        assert_eq!(answer.value("content-type"), Some("text/html"));
        assert_eq!(answer.value("content-length"), Some("22"));
        assert_eq!(answer.text(), "");
        let answer = asks(&mut client, "HEAD", "/", "");
        assert_eq!(answer.status(), 404, "the connection goes on");
    }

    fn grpc_is_untouched(pair) {
        let gateway = pair.gateway().rule("{name: rule}").policy(&pages("400-599", "Any")).start();
        let mut client = pair.client(&gateway);
        client.sends("POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
                      TE: trailers\r\nContent-Length: 0\r\n\r\n");
        let answer = client.reads();
        assert_eq!((answer.status(), answer.value("grpc-status")), (200, Some("13")), "{answer}");
        assert_eq!((answer.values("content-type"), &*answer.text()), (vec!["application/grpc"], ""));
    }
}

on_both_drivers! {
    fn other_responses_pass_unchanged(driver) {
        let origin = origin().replies(raw(ERROR));
        for statuses in ["504", "400-499"] {
            let gateway = gateway_to(&origin, driver).policy(&pages(statuses, "Any")).start();
            let answer = gateway.client().gets("/").expects(503);
            assert_eq!((&*answer.text(), answer.value("content-encoding")), ("old old", Some("gzip")), "{answer}");
        }
        let gateway = gateway_to(&origin, driver).policy(&pages("400-599", "Gateway")).start();
        assert_eq!(gateway.client().gets("/").expects(503).text(), "old old");
    }

    /// Envoy Gateway's way to an error page turns a 403 into a 302.
    fn an_error_stays_the_error_that_it_is(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy_of("HTTPRoute/route-0", "authorization: {deny: [{when: \"request.path == '/closed'\"}]}")
            .policy(&pages("403", "Gateway"))
            .policy("accessLog: {format: json}")
            .start();
        let mut client = gateway.client();
        let answer = client.gets("/closed").expects(403);
        assert_eq!(answer.text(), "<h1>403</h1> at example.test");
        assert!(!answer.has("location"), "{answer}");
        gateway.waits_for_access_log("\"reason\":\"forbidden\"");
        client.gets("/").expects(200);
    }

    fn a_failed_backend_gets_a_page_and_its_reason_stays(driver) {
        let (_socket, address) = refused();
        let gateway = gateway(driver)
            .backend("gone", &[address])
            .rule("{backendRefs: [{@gone}]}")
            .policy(&pages("502-504", "Gateway"))
            .policy("accessLog: {format: json}")
            .inspected()
            .start();
        let mut watcher = watches(&gateway, "");
        assert_eq!(gateway.client().gets("/").expects(503).text(), "<h1>503</h1> at example.test");
        gateway.waits_for_access_log("\"reason\":\"connect_failed\"");
        waits_for_count(&gateway, "gateway_error_pages_total", "source=\"gateway\"", 1.0);
        let events = events(&mut watcher);
        let detail = "has a page for the gateway's 503";
        assert!(events.iter().any(|it| it["message"]["detail"].as_str().is_some_and(|it| it.contains(detail))), "{events:?}");
    }

    fn an_answer_of_a_policy_and_a_redirect_have_no_page(driver) {
        let redirect = "{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}";
        let gateway = gateway(driver)
            .rule("{name: answered}")
            .rule(&format!("{{matches: [{{path: {{value: /moved}}}}], filters: [{redirect}]}}"))
            .policy(&pages("400-599", "Any"))
            .policy_of("HTTPRoute/route-0/answered", "respond: {status: 503, body: mine}")
            .start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(503).text(), "mine");
        client.gets("/moved").expects(301);
    }

    fn errors_before_a_listener_is_known_stay_plain(driver) {
        let gateway = gateway(driver).rule("{name: rule}").policy(&pages("400-599", "Any")).start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        let answer = client.reads();
        assert_eq!((answer.status(), answer.value("content-type")), (400, Some("text/plain; charset=utf-8")), "{answer}");
    }

    fn the_pages_of_a_nearer_target_replace_those_of_a_wider_one(driver) {
        let gateway = gateway(driver)
            .rule("{name: rule, matches: [{path: {value: /a}}]}")
            .policy(&pages("404", "Gateway"))
            .policy_of("HTTPRoute/route-0", "errorPages: [{statuses: ['500'], bodies: [{contentType: text/html, body: own}]}]")
            .start();
        let mut client = gateway.client();
        let answer = client.gets("/a").expects(500);
        assert_eq!((&*answer.text(), answer.has("vary")), ("own", false), "{answer}");
        assert_eq!(client.gets("/b").expects(404).text(), "<h1>404</h1> at example.test");
        let overriding = pages("500", "Gateway");
        let gateway = gateway_with_overrides(driver, &overriding).start();
        assert_eq!(gateway.client().gets("/a").expects(500).text(), "<h1>500</h1> at example.test");
    }

    /// The picker sees status and fields of the error; the content that it would edit is replaced.
    fn an_error_with_a_page_goes_through_the_picker_without_its_content(driver) {
        for reviews in [ResponseBehavior::Shouts, ResponseBehavior::Returns, ResponseBehavior::Holds] {
            let pod = origin().replies(raw("HTTP/1.1 503 Busy\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nold"));
            let member = pod.address();
            let picker = picker(PickerBehavior::Picks(vec![member]));
            picker.now_reviews(reviews);
            let page = "errorPages: [{statuses: ['503'], source: Any, bodies: [{contentType: text/html, body: sorry}]}]";
            let gateway = pool_of(driver, (&[member], "http"), picker.address(), "FailClose", "appProtocol: http2")
                .policy(page)
                .rule(ROUTE)
                .start();
            let mut client = gateway.client();
            for _ in 0..2 {
                let answer = client.gets("/").expects(503);
                assert_eq!((&*answer.text(), answer.values("content-type")), ("sorry", vec!["text/html"]), "{answer}");
            }
            assert_eq!(pod.connections(), 1);
        }
    }

    /// A content that is on its way is read, and the connection to the backend used again.
    fn a_short_old_content_leaves_its_connection_in_use(driver) {
        for framing in ["Content-Length: 60000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nea60\r\n"] {
            let end = if framing.contains("chunked") { "\r\n0\r\n\r\n" } else { "" };
            let body = "x".repeat(30_000);
            let reply = raw(format!("HTTP/1.1 500 Error\r\n{framing}")).sends(&body).sends(body + end);
            let origin = origin().replies(reply);
            let gateway = gateway_to(&origin, driver).policy(&pages("500", "Backend")).shards(1).start();
            let mut client = gateway.client();
            for _ in 0..3 {
                assert_eq!(client.gets("/").expects(500).text(), "<h1>500</h1> at example.test");
            }
            assert_eq!((origin.connections(), origin.requests().len()), (1, 3), "{framing}");
        }
    }

    /// A backend that keeps the rest of its content back costs its connection, and the client's next request is served.
    fn an_old_content_that_does_not_arrive_ends_its_connection(driver) {
        let part = raw("HTTP/1.1 500 Error\r\nContent-Length: 60000\r\n\r\nstart").stalls();
        let origin = origin().replies(part);
        let gateway = gateway_to(&origin, driver).policy(&pages("500", "Backend")).start();
        let mut client = gateway.client();
        for _ in 0..2 {
            assert_eq!(client.gets("/").expects(500).text(), "<h1>500</h1> at example.test");
        }
        assert_eq!(origin.connections(), 2);
    }

    /// Longer than what arrives with its head: the connection to the backend is not used again, and nothing of
    /// the old content gets to a client.
    fn a_long_old_content_ends_its_connection(driver) {
        let body = "x".repeat(500_000);
        let origin = origin().replies(raw(format!("HTTP/1.1 500 Error\r\nContent-Length: 500000\r\n\r\n{body}")));
        let gateway = gateway_to(&origin, driver).policy(&pages("500", "Backend")).start();
        let mut client = gateway.client();
        for _ in 0..3 {
            assert_eq!(client.gets("/").expects(500).text(), "<h1>500</h1> at example.test");
        }
        assert_eq!(origin.connections(), 3);
    }

    fn a_page_with_a_mistake_is_left_out_and_the_rest_stays(driver) {
        let origin = origin();
        for page in [
            "{statuses: ['403'], bodies: [{contentType: html, body: a}]}",
            // Statuses are texts.
            "{statuses: [403], bodies: [{contentType: text/html, body: a}]}",
        ] {
            let policy = format!(
                "authorization: {{deny: [{{when: \"request.path == '/closed'\"}}]}}\n  errorPages: [{page}]"
            );
            let gateway = gateway_to(&origin, driver).policy(&policy).start();
            let mut client = gateway.client();
            client.gets("/").expects(200);
            assert_eq!(client.gets("/closed").expects(403).text(), "this request is not allowed\n", "{page}");
        }
    }
}

fn gateway_with_overrides(driver: Driver, overriding: &str) -> GatewayBuilder {
    gateway(driver)
        .rule("{name: rule, matches: [{path: {value: /a}}]}")
        .policy(&format!("precedence: Overrides\n  {overriding}"))
        .policy_of(
            "HTTPRoute/route-0",
            "errorPages: [{statuses: ['500'], bodies: [{contentType: text/html, body: own}]}]",
        )
}

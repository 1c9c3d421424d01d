//! Pages of servers, by the contract of ingress-nginx's error pages: what a server is asked, what of its response
//! clients get, and that a server that fails or hangs disturbs nobody.

use std::time::Duration;

use super::admin_trace::{events, watches};
use super::metrics::{count, waits_for_count};
use crate::support::pki::authority;
use crate::support::{
    Client, Driver, Gate, GatewayBuilder, Message, Origin, Reply, gateway, ok, on_both_drivers,
    on_every_pair, origin, raw, refused, status, tls,
};

/// All errors of this source have pages of the backend `pages`.
pub(super) fn served(source: &str) -> String {
    let server = "backendRef: {group: gateway-system.io, kind: Backend, name: pages}";
    format!("errorPages: [{{statuses: [400-599], source: {source}, {server}}}]")
}

/// A gateway with a page server, and a rule without a backend.
pub(super) fn gateway_with(pages: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("pages", &[pages.address()])
        .rule("{name: rule, matches: [{path: {value: /a}}]}")
        .policy(&served("Gateway"))
        .policy("accessLog: {format: json}")
        .inspected()
}

/// A page as ingress-nginx's default backend has one, whose status is that of the error.
pub(super) fn page(status: u16, body: &str) -> Reply {
    let length = body.len();
    raw(format!(
        "HTTP/1.1 {status} Some\r\nContent-Type: text/html\r\nContent-Language: de\r\nContent-Encoding: x-own\r\n\
         Content-Security-Policy: default-src 'none'\r\nSet-Cookie: a=b\r\nRetry-After: 9\r\nX-Page: 1\r\n\
         Cache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// A request with all that may identify a client.
fn asks(client: &mut Client, method: &str, path: &str, lines: &str) -> Message {
    client.sends(format!(
        "{method} {path} HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: browser\r\nAccept: text/html\r\n\
         Accept-Language: de\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
         Tracestate: a=b\r\n{SECRETS}{lines}\r\n"
    ));
    client.reads_reply_to(method)
}

const SECRETS: &str = "Authorization: Bearer secret\r\nCookie: session=secret\r\nX-Own: secret\r\nReferer: /secret\r\n\
                       Origin: https://secret.test\r\nX-Code: 200\r\nRange: bytes=0-1\r\nIf-None-Match: \"a\"\r\n";

/// What a page server is asked about an error of this status, at this path of the rule's route.
#[track_caller]
fn expect_contract(asked: &Message, status: u16, path: &str) {
    assert_eq!((asked.method(), asked.target()), ("GET", "/"), "{asked}");
    assert_eq!(asked.value("host"), Some("shop.test"), "{asked}");
    for (name, value) in [
        ("x-code", &*status.to_string()),
        ("x-format", "text/html"),
        ("x-original-uri", path),
        ("x-namespace", "default"),
        ("x-ingress-name", "route-0"),
        ("accept", "text/html"),
        ("accept-language", "de"),
        (
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        ("tracestate", "a=b"),
    ] {
        assert_eq!(asked.values(name), [value], "{name}: {asked}");
    }
    assert_eq!(
        asked.value("x-request-id").map(str::len),
        Some(36),
        "{asked}"
    );
    let text = asked.to_string().to_ascii_lowercase();
    for part in [
        "secret",
        "browser",
        "cookie",
        "authorization",
        "forwarded",
        "range",
        "if-none-match",
    ] {
        assert!(!text.contains(part), "{part}: {asked}");
    }
}

on_every_pair! {
    fn a_page_server_is_asked_by_the_contract_and_its_page_is_sent(pair) {
        let pages = origin().replies(page(500, "<h1>sorry</h1>"));
        let gateway = pair.backend(pair.gateway(), "pages", &[pages.address()])
            .rule("{name: rule, matches: [{path: {value: /a}}]}")
            .policy(&served("Gateway"))
            .start();
        let mut client = pair.client(&gateway);
        for (method, lines, body) in [
            ("GET", "", "<h1>sorry</h1>"),
            ("HEAD", "", ""),
            ("POST", "Content-Length: 0\r\n", "<h1>sorry</h1>"),
        ] {
            let answer = asks(&mut client, method, "/a/b?c=d", lines);
            assert_eq!((answer.status(), &*answer.text()), (500, body), "{method}: {answer}");
            assert_eq!(answer.values("content-type"), ["text/html"], "{answer}");
            assert_eq!(answer.values("content-language"), ["de"], "{answer}");
            assert_eq!(answer.values("content-encoding"), ["x-own"], "{answer}");
            assert_eq!(answer.values("content-length"), ["14"], "{answer}");
            assert_eq!(answer.values("vary"), ["Accept, Accept-Language"], "{answer}");
            for name in ["content-security-policy", "set-cookie", "retry-after", "x-page", "cache-control"] {
                assert!(!answer.has(name), "{name}: {answer}");
            }
        }
        let asked = pages.requests();
        assert_eq!(asked.len(), 3);
        for asked in &asked {
            expect_contract(asked, 500, "/a/b?c=d");
        }
    }

    fn errors_of_a_backend_keep_status_and_fields_with_the_page_of_a_server(pair) {
        let old = "HTTP/1.1 503 Busy\r\nContent-Type: text/css\r\nETag: \"a\"\r\nRetry-After: 7\r\nSet-Cookie: c=d\r\n\
                   Content-Length: 7\r\n\r\nold old";
        let (app, pages) = (origin().replies(raw(old)), origin().replies(page(200, "later")));
        let gateway = pair.backend(pair.gateway_to(&app), "pages", &[pages.address()])
            .policy(&served("Backend"))
            .start();
        let mut client = pair.client(&gateway);
        for method in ["GET", "HEAD", "GET"] {
            let answer = asks(&mut client, method, "/", "");
            let body = if method == "HEAD" { "" } else { "later" };
            assert_eq!((answer.status(), &*answer.text()), (503, body), "{answer}");
            assert_eq!(answer.values("content-type"), ["text/html"], "{answer}");
            assert_eq!(answer.values("content-length"), ["5"], "{answer}");
            assert_eq!(answer.values("retry-after"), ["7"], "{answer}");
            assert_eq!(answer.values("set-cookie"), ["c=d"], "{answer}");
            assert!(!answer.has("etag"), "{answer}");
        }
        for asked in pages.requests() {
            expect_contract(&asked, 503, "/");
            assert_eq!(asked.value("x-service-name"), Some("origin"));
        }
    }

    /// Each status by each type, with the page of the server's own choice.
    fn every_status_gets_its_page_in_the_type_that_the_client_prefers(pair) {
        let statuses = [400, 401, 403, 404, 405, 410, 413, 418, 429, 451, 500, 501, 502, 503, 504, 599];
        let app = statuses.iter().fold(origin(), |app, code| {
            app.replies_to(&format!("/{code}"), raw(format!(
                "HTTP/1.1 {code} Own\r\nContent-Length: 3\r\nAllow: GET\r\nWWW-Authenticate: Basic\r\n\r\nold"
            )))
        });
        let body = |name: &str| format!("{{contentType: {name}, body: '{{status}} as {name}'}}");
        let bodies = ["text/html", "application/json", "text/plain"].map(body).join(", ");
        let gateway = pair.gateway_to(&app)
            .policy(&format!("errorPages: [{{statuses: [400-599], source: Any, bodies: [{bodies}]}}]"))
            .start();
        let mut client = pair.client(&gateway);
        for code in statuses {
            for (accept, media_type) in [
                ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
                ("application/json", "application/json"),
                ("text/plain;q=0.5, text/*;q=0.4", "text/plain"),
                ("image/png", "text/html"),
            ] {
                for method in ["GET", "HEAD"] {
                    client.sends(format!("{method} /{code} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"));
                    let answer = client.reads_reply_to(method);
                    let body = format!("{code} as {media_type}");
                    assert_eq!(answer.status(), code, "{answer}");
                    assert_eq!(answer.values("content-type"), [media_type], "{accept}: {answer}");
                    assert_eq!(answer.value("content-length"), Some(&*body.len().to_string()));
                    assert_eq!(answer.text(), if method == "HEAD" { "" } else { &*body });
                    assert_eq!(answer.value("www-authenticate"), Some("Basic"), "{answer}");
                }
            }
        }
    }
}

on_both_drivers! {
    fn a_page_server_that_fails_leaves_the_text_of_the_gateway(driver) {
        let (_socket, nobody) = refused();
        let large = "x".repeat(256 * 1024 + 1);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for reply in [
            None,
            Some(status(404)),
            Some(raw("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")),
            Some(raw("HTTP/1.1 206 Part\r\nContent-Length: 1\r\n\r\na")),
            Some(raw("HTTP/1.1 garbage\r\n\r\n")),
            Some(raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").closes()),
            Some(raw(chunked.to_owned() + "4\r\nhalf\r\n").closes()),
            Some(raw("").closes()),
            Some(ok(&large)),
        ] {
            let pages = origin();
            let address = reply.map_or(nobody, |reply| {
                pages.now_replies(reply);
                pages.address()
            });
            let gateway = gateway(driver)
                .backend("pages", &[address])
                .rule("{name: rule, matches: [{path: {value: /a}}]}")
                .policy(&served("Gateway"))
                .policy("accessLog: {format: json}")
                .inspected()
                .start();
            let answer = gateway.client().gets("/a").expects(500);
            assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"), "{answer}");
            let reason = gateway.waits_for_access_log("\"reason\":\"no_valid_backend\"");
            assert!(reason.contains("\"status\":500"), "{reason}");
            waits_for_count(&gateway, "gateway_error_page_requests_total", "result=\"failed\"", 1.0);
        }
    }

    fn the_longest_page_of_a_server_is_sent(driver) {
        let longest = "x".repeat(256 * 1024);
        let pages = origin().replies(ok(&longest));
        let gateway = gateway_with(&pages, driver).start();
        assert_eq!(gateway.client().gets("/a").expects(500).text().len(), longest.len());
    }

    fn a_backends_error_whose_page_server_fails_gets_a_text_and_not_its_old_content(driver) {
        let app = origin().replies(raw("HTTP/1.1 502 Own\r\nX-Own: 1\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nstack"));
        let (_socket, nobody) = refused();
        let gateway = gateway(driver)
            .backend("pages", &[nobody])
            .backend("origin", &[app.address()])
            .rule("{name: rule, backendRefs: [{@origin}]}")
            .policy(&served("Any"))
            .start();
        let answer = gateway.client().gets("/").expects(502);
        assert_eq!((&*answer.text(), answer.value("x-own")), ("502 Bad Gateway\n", Some("1")), "{answer}");
        assert_eq!(answer.values("content-type"), ["text/plain; charset=utf-8"], "{answer}");
    }

    /// The pages of a Gateway are also for requests that no rule matches, about which there is less to say. The query
    /// may have a token for a route that is not known.
    fn a_page_server_is_asked_where_no_route_matches(driver) {
        let pages = origin().replies(page(200, "where?"));
        let gateway = gateway_with(&pages, driver).start();
        assert_eq!(gateway.client().gets("/else?token=secret").expects(404).text(), "where?");
        let asked = pages.only_request();
        assert_eq!((asked.value("x-code"), asked.value("x-original-uri")), (Some("404"), Some("/else")), "{asked}");
        for name in ["x-namespace", "x-ingress-name", "x-service-name", "x-service-port", "x-format"] {
            assert!(!asked.has(name), "{name}: {asked}");
        }
    }

    /// Such as one that a gateway whose page server is the gateway itself would ask forever.
    fn a_request_for_a_page_has_no_page_of_a_server(driver) {
        let pages = origin().replies(page(200, "a page"));
        let gateway = gateway_with(&pages, driver).start();
        let mut client = gateway.client();
        client.sends("GET /a HTTP/1.1\r\nHost: a\r\nX-Code: 503\r\nX-Original-URI: /b\r\n\r\n");
        assert_eq!(client.expects(500).value("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(pages.requests().len(), 0);
        assert!(count(&gateway, "gateway_error_page_requests_total", "result=\"nested\"") > 0.0);
        // Nor does a client get at the content of a backend like that.
        let app = origin().replies(raw("HTTP/1.1 500 Own\r\nContent-Length: 5\r\n\r\nstack"));
        let gateway = gateway_with(&pages, driver)
            .backend("origin", &[app.address()])
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0", &served("Any"))
            .start();
        let mut client = gateway.client();
        client.sends("GET /app HTTP/1.1\r\nHost: a\r\nX-Code: 503\r\nX-Original-URI: /b\r\n\r\n");
        assert_eq!(client.expects(500).text(), "500 Internal Server Error\n");
    }

    /// A status that the server was asked for says nothing about its health.
    fn a_page_server_is_not_ejected_for_the_status_that_it_is_asked_for(driver) {
        let pages = origin().replies(page(503, "later"));
        let (_socket, nobody) = refused();
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("gone", &[nobody])
            .rule("{backendRefs: [{@gone}]}")
            .policy(&served("Gateway"))
            .policy_of("Backend/pages", "ejection: {consecutiveFailures: 2, maxPercent: 100}")
            .start();
        let mut client = gateway.client();
        for _ in 0..10 {
            assert_eq!(client.gets("/").expects(503).text(), "later");
        }
        assert_eq!(pages.connections(), 1, "its connection is kept");
    }

    fn a_trace_names_the_server_and_why_it_has_no_page(driver) {
        let pages = origin();
        let gateway = gateway_with(&pages, driver).start();
        for (reply, expected) in [
            (page(200, "a"), "has a page of Backend/default/pages for the gateway's 500"),
            (status(404), "neither one of success nor that of the error"),
        ] {
            pages.now_replies(reply);
            let mut watcher = watches(&gateway, "");
            gateway.client().gets("/a").expects(500);
            let events = events(&mut watcher);
            let says = |it: &serde_json::Value| it["message"]["detail"].as_str().is_some_and(|it| it.contains(expected));
            assert!(events.iter().any(says), "{events:?}");
        }
    }

    /// While the server hangs, errors beyond the limit have their text at once, others wait for no longer than a
    /// second, and other requests are served; killed and back, it is asked again.
    fn a_page_server_that_hangs_or_is_killed_disturbs_nobody(driver) {
        let gate = Gate::default();
        let (pages, app) = (origin().replies(Reply::at_once().waits_for(&gate)), origin());
        let gateway = gateway_with(&pages, driver)
            .backend("origin", &[app.address()])
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@origin}]}")
            .shards(1)
            .start();
        let mut others = gateway.client();
        let mut clients: Vec<Client> = (0..100).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/a");
        }
        others.gets("/app").expects(200);
        assert!(pages.open_connections() <= 32, "at most 32 are asked of it at once");
        for client in &mut clients {
            let answer = client.expects(500);
            assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"), "{answer}");
            others.gets("/app").expects(200);
        }
        let result = |name| count(&gateway, "gateway_error_page_requests_total", name);
        assert!((result("result=\"failed\"") + result("result=\"too_many\"") - 100.0).abs() < 0.5);
        assert!(result("result=\"failed\"") > 0.5);
        pages.stop();
        for client in &mut clients {
            assert_eq!(client.gets("/a").expects(500).value("content-type"), Some("text/plain; charset=utf-8"));
        }
        others.gets("/app").expects(200);
    }

    /// Nothing waits for the page of a client that has left, and the server is not to blame.
    fn a_client_that_leaves_meanwhile_ends_the_request_for_its_page(driver) {
        let gate = Gate::default();
        let pages = origin().replies(Reply::at_once().waits_for(&gate));
        let gateway = gateway_with(&pages, driver)
            .policy_of("Backend/pages", "ejection: {consecutiveFailures: 1, maxPercent: 100}")
            .start();
        let mut client = gateway.client();
        client.gets("/a");
        pages.waits_for_requests(1);
        client.resets();
        let line = gateway.waits_for_access_log("\"reason\":\"no_valid_backend\"");
        assert!(line.contains("\"bytesOut\":0") || line.contains("\"bytes_out\":0"), "{line}");
        gate.open();
        pages.now_replies(page(200, "a page"));
        assert_eq!(gateway.client().gets("/a").expects(500).text(), "a page");
    }

    /// The upload goes on, or has not begun, while the page is asked for.
    fn a_request_whose_body_is_still_sent_gets_the_page_of_a_server(driver) {
        let pages = origin().replies(page(200, "a page"));
        let gateway = gateway_with(&pages, driver).start();
        let mut client = gateway.client();
        client.sends("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n");
        let answer = client.reads();
        assert_eq!((answer.status(), &*answer.text()), (500, "a page"), "no 100 Continue: {answer}");
        let mut client = gateway.client();
        client.sends("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf");
        assert_eq!(client.expects(500).text(), "a page");
    }

    /// Nothing is read any more from a client whose body was too slow, so that it must not look as if it had left.
    fn a_body_that_is_too_slow_gets_the_page_of_a_server(driver) {
        let (pages, app) = (origin(), origin());
        let ca = authority("ca");
        let gateway = gateway_with(&pages, driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[app.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@origin}]}")
            .limits("bodyIdleTimeout: 300ms")
            .start();
        for mut client in [gateway.client(), gateway.tls_client(&tls(&ca, "a.test"))] {
            let (gate, asked) = (Gate::default(), pages.requests().len());
            let late = Reply::at_once().waits_for(&gate);
            pages.now_replies(late.sends("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na page"));
            client.sends("POST /app HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nhalf");
            pages.waits_for_requests(asked + 1);
            // Longer than the interval in which clients are watched.
            client.expects_silence_for(Duration::from_millis(300));
            gate.open();
            assert_eq!(client.expects(408).text(), "a page");
        }
    }

    /// The filter comes after the page, and replaces what that says.
    fn header_filters_apply_to_pages(driver) {
        let app = origin().replies(status(404));
        let pages = origin().replies(page(404, "a page"));
        let set = "{type: ResponseHeaderModifier, responseHeaderModifier: \
                   {set: [{name: Content-Type, value: text/own}], remove: [Content-Language], add: [{name: X-Added, value: '1'}]}}";
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("origin", &[app.address()])
            .rule(&format!("{{filters: [{set}], backendRefs: [{{@origin}}]}}"))
            .policy(&served("Any"))
            .start();
        let answer = gateway.client().gets("/").expects(404);
        assert_eq!((&*answer.text(), answer.values("content-type")), ("a page", vec!["text/own"]), "{answer}");
        assert_eq!((answer.has("content-language"), answer.values("x-added")), (false, vec!["1"]), "{answer}");
    }

    /// The server of a nearer policy, and one that appears with a change of the configuration.
    fn a_change_of_the_page_server_is_in_effect_at_once(driver) {
        let (one, other) = (origin().replies(page(200, "one")), origin().replies(page(200, "other")));
        let of = |pages: &Origin| gateway_with(pages, driver);
        let gateway = of(&one).start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/a").expects(500).text(), "one");
        assert_eq!(client.gets("/else").expects(404).text(), "one");
        gateway.reconfigure(&of(&other));
        gateway.waits_for_applied(2);
        assert_eq!(client.gets("/a").expects(500).text(), "other");
        assert_eq!(client.gets("/else").expects(404).text(), "other");
    }
}

//! Answers and pages in every form of a request, and what never gets a page.

use super::external_auth::allow;
use super::h2_websocket::websocket;
use super::metrics::count;
use crate::support::frames::{
    END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, block, frame, request,
};
use crate::support::pki::authority;
use crate::support::{
    Driver, GatewayBuilder, Origin, Reply, gateway, ok, on_both_drivers, on_every_pair, origin,
    raw, refused, status,
};

const STATUSES: [u16; 8] = [200, 204, 304, 404, 410, 500, 503, 599];

/// A rule for each status, which answers with it.
fn answering(gateway: GatewayBuilder) -> GatewayBuilder {
    STATUSES.iter().fold(gateway, |gateway, status| {
        let body = match status {
            204 | 304 => "",
            _ => ", body: 'is {status}'",
        };
        gateway
            .rule(&format!(
                "{{name: s{status}, matches: [{{path: {{value: /{status}}}}}]}}"
            ))
            .policy_of(
                &format!("HTTPRoute/route-0/s{status}"),
                &format!("respond: {{status: {status}{body}}}"),
            )
    })
}

fn body_of(status: u16) -> String {
    match status {
        204 | 304 => String::new(),
        _ => format!("is {status}"),
    }
}

const PAGES: &str = "errorPages: [{statuses: [400-599], source: Any, bodies: [{contentType: text/html, body: a page}]}]";

/// A gateway to an origin, with pages for all errors.
fn with_pages(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver).routes_to(origin).policy(PAGES).inspected()
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

on_every_pair! {
    /// Also one that nobody knows.
    fn every_method_gets_the_answer(pair) {
        let gateway = answering(pair.gateway()).start();
        let mut client = pair.client(&gateway);
        for status in STATUSES {
            for method in ["PUT", "QUERY", "PROPFIND", "BREW"] {
                client.sends(format!("{method} /{status} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"));
                let answer = client.reads_reply_to(method);
                assert_eq!((answer.status(), answer.text()), (status, body_of(status)), "{method}: {answer}");
            }
        }
    }

    /// Its content is that of gRPC, whatever its status.
    fn a_backends_error_to_a_grpc_call_has_no_page(pair) {
        let error = "HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nold";
        let app = origin()
            .replies(raw(error))
            .replies_to("/grpc", raw(error.replace("text/plain", "application/grpc")));
        let gateway = pair.gateway_to(&app).policy(PAGES).start();
        let mut client = pair.client(&gateway);
        client.sends("POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
                      TE: trailers\r\nContent-Length: 0\r\n\r\n");
        let answer = client.expects(503);
        assert_eq!((&*answer.text(), answer.values("content-type")), ("old", vec!["text/plain"]), "{answer}");
        let answer = client.gets("/grpc").expects(503);
        assert_eq!((&*answer.text(), answer.values("content-type")), ("old", vec!["application/grpc"]), "{answer}");
        assert_eq!(client.gets("/").expects(503).text(), "a page");
    }

    /// Only the last response of several attempts is the error that the client gets.
    fn a_response_that_is_retried_has_no_page(pair) {
        let app = origin();
        let busy = |which: &str| raw(format!("HTTP/1.1 503 Busy\r\nX-Which: {which}\r\nContent-Length: 3\r\n\r\nold"));
        let gateway = pair.backend(pair.gateway(), "origin", &[app.address()])
            .rule("{retry: {attempts: 1, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .policy(PAGES)
            .inspected()
            .start();
        let mut client = pair.client(&gateway);
        app.next_replies([busy("first"), ok("served")]);
        assert_eq!(client.gets("/").expects(200).text(), "served");
        assert!(count(&gateway, "gateway_error_pages_total", "") < 0.5);
        app.next_replies([busy("first"), busy("second")]);
        let answer = client.gets("/").expects(503);
        assert_eq!((&*answer.text(), answer.values("x-which")), ("a page", vec!["second"]), "{answer}");
        assert_eq!(app.requests().len(), 4);
    }
}

on_both_drivers! {
    fn an_http_1_0_client_gets_every_answer(driver) {
        let gateway = answering(gateway(driver)).start();
        for status in STATUSES {
            for (line, closes) in [("", true), ("Connection: keep-alive\r\n", false)] {
                let mut client = gateway.client();
                client.sends(format!("GET /{status} HTTP/1.0\r\nHost: a\r\n{line}\r\n"));
                let answer = client.reads();
                assert_eq!((answer.status(), answer.text()), (status, body_of(status)), "{answer}");
                assert!(!answer.has("transfer-encoding"), "{answer}");
                if closes {
                    client.expects_close();
                } else {
                    client.gets("/410").expects(410);
                }
            }
        }
    }

    /// A server may ignore the wish for another protocol (RFC 9110 section 7.8).
    fn a_request_for_an_upgrade_gets_the_answer_and_the_connection_goes_on(driver) {
        let gateway = answering(gateway(driver)).start();
        let mut client = gateway.client();
        for status in STATUSES {
            client.sends(format!("GET /{status} HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n"));
            let answer = client.reads();
            assert_eq!((answer.status(), answer.text()), (status, body_of(status)), "{answer}");
            assert!(!answer.has("upgrade"), "{answer}");
        }
    }

    /// Its head is all, also while the client still sends messages.
    fn a_grpc_call_that_streams_gets_a_status_at_once_and_no_message(driver) {
        let gateway = answering(gateway(driver)).start();
        for status in STATUSES {
            let mut peer = Peer::client(gateway.address());
            let path = format!("/{status}");
            let mut fields = request("POST");
            fields[2].1 = &path;
            fields.extend([("content-type", "application/grpc"), ("te", "trailers")]);
            peer.sends(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
            let head = peer.next_of(HEADERS);
            assert_eq!((head.status(), head.flags & END_STREAM), (Some(200), END_STREAM), "{status}");
            // The rest of the call is not wanted, which is no error (RFC 9113 section 8.1).
            assert_eq!(peer.next_of(RST_STREAM).code(), Some(0), "{status}");
        }
    }

    fn what_is_upgraded_is_not_an_error_and_a_refused_handshake_is(driver) {
        let switch = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let app = origin().replies(Reply::at_once().sends(switch).echoes());
        let gateway = with_pages(&app, driver).start();
        let mut client = gateway.client();
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n"));
        assert_eq!(client.reads_head().status(), 101);
        let text = "HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nold";
        assert_eq!(client.sends(text).reads_bytes(text.len()), text.as_bytes());
        let mut peer = Peer::client(gateway.address());
        assert_eq!(peer.sends(websocket(1)).next_of(HEADERS).status(), Some(200));
        assert!(count(&gateway, "gateway_error_pages_total", "") < 0.5);
        app.now_replies(status(403));
        let mut client = gateway.client();
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n"));
        assert_eq!(client.expects(403).text(), "a page");
    }

    fn a_preflight_has_no_page(driver) {
        let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test']}}";
        let gateway = gateway(driver)
            .rule(&format!("{{filters: [{cors}]}}"))
            .policy(PAGES)
            .start();
        let mut client = gateway.client();
        for from in ["https://a.test", "https://evil.test"] {
            client.sends(format!(
                "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: {from}\r\nAccess-Control-Request-Method: GET\r\n\r\n"
            ));
            let answer = client.reads_reply_to("OPTIONS");
            assert!(answer.status() < 300 && answer.text().is_empty(), "{answer}");
        }
        // The request itself has none of its backends, and a page that the browser may show.
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\n\r\n");
        let answer = client.expects(500);
        assert_eq!((&*answer.text(), answer.value("access-control-allow-origin")), ("a page", Some("https://a.test")));
    }

    /// What such a server responds is its own; that it cannot be asked is an error of the gateway.
    fn an_authorization_servers_own_answer_has_no_page_and_its_failure_has(driver) {
        let (app, auth) = (origin(), origin());
        let (_socket, nobody) = refused();
        let server = |name: &str| {
            format!("{{type: ExternalAuth, externalAuth: {{protocol: HTTP, backendRef: {{@{name}}}, http: {{}}}}}}")
        };
        let gateway = gateway(driver)
            .backend("app", &[app.address()])
            .backend("auth", &[auth.address()])
            .backend("nobody", &[nobody])
            .rule(&format!("{{filters: [{}], backendRefs: [{{@app}}]}}", server("auth")))
            .rule(&format!("{{matches: [{{path: {{value: /down}}}}], filters: [{}], backendRefs: [{{@app}}]}}", server("nobody")))
            .policy(PAGES)
            .policy("accessLog: {format: json}")
            .start();
        let mut client = gateway.client();
        for code in [401, 402, 403] {
            auth.now_replies(raw(format!("HTTP/1.1 {code} No\r\nContent-Type: text/css\r\nContent-Length: 5\r\n\r\ntheir")));
            let answer = client.gets("/").expects(code);
            assert_eq!((&*answer.text(), answer.values("content-type")), ("their", vec!["text/css"]), "{answer}");
        }
        auth.now_replies(allow(""));
        client.gets("/").expects(200);
        assert_eq!(client.gets("/down").expects(403).text(), "a page");
        gateway.waits_for_access_log("\"reason\":\"external_auth_failed\"");
    }

    fn a_head_that_is_too_long_and_a_handshake_that_fails_have_no_page(driver) {
        let ca = authority("ca");
        let app = origin();
        let gateway = with_pages(&app, driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .start();
        let mut client = gateway.client();
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "a".repeat(100_000)));
        let answer = client.expects(431);
        assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"), "{answer}");
        assert_ne!(answer.text(), "a page");
        let mut client = crate::support::client(gateway.https_address());
        client.sends("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        // Not TLS: it is told so in plain text.
        let answer = client.expects(400);
        assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"), "{answer}");
        assert_ne!(answer.text(), "a page");
        assert!(app.requests().is_empty());
    }
}

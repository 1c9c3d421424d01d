//! An unsolicited response is never used, however soon its connection would be reused (RFC 9112
//! section 9.2).

use crate::support::pki::authority;
use crate::support::{
    ByteCounter, ClientCertificates, Driver, Gate, Gateway, GatewayBuilder, Origin, Reply, gateway,
    ok, on_both_drivers, origin, pattern, same_bytes, tls_origin,
};

const STRAY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray";

const DENIAL: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

const ROUNDS: usize = 100;

/// Responses without a body, or with a declared length.
const RESPONSES: [(&str, &str); 7] = [
    ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n"),
    (
        "HEAD",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    (
        "GET",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 43\r\n\r\n",
    ),
    ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
    (
        "GET",
        "HTTP/1.1 204 No Content\r\nContent-Length: 43\r\n\r\n",
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
];

/// Bytes that an origin sends after them.
const LEFTOVERS: [&str; 5] = [
    STRAY,
    "HTTP/1.1 103 Early Hints\r\nLink: </stray>\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "0\r\n\r\n",
    "\r\n",
];

fn ok_response(text: &str) -> String {
    let length = text.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}")
}

/// Two clients in turn get their own responses from an origin that sends a second one as soon as
/// the first has been forwarded.
fn assert_clients_get_their_own_responses(origin: &Origin, gateway: &Gateway) {
    let gates: Vec<Gate> = (0..ROUNDS).map(|_| Gate::default()).collect();
    let strays = ByteCounter::default();
    origin.next_replies(gates.iter().enumerate().map(|(round, gate)| {
        let own = Reply::at_once().sends(ok_response(&round.to_string()));
        own.waits_for(gate).sends(STRAY).arrives(&strays).stalls()
    }));
    let mut clients = [gateway.client(), gateway.client()];
    for (round, gate) in gates.iter().enumerate() {
        let answer = clients[round % 2].gets("/").expects(200);
        assert_eq!(answer.text(), round.to_string());
        gate.open();
        strays.waits_for(round as u64 + 1);
    }
    assert_eq!(origin.connections(), ROUNDS);
}

/// A connection is passed on to a waiting request only without the bytes after its response.
fn assert_stray_response_is_dropped(origin: &Origin, gateway: &Gateway) {
    // No multiple of a TLS record, so that the stray response is in the last record of the body and
    // has arrived when the connection is looked at. Later bytes cannot be distinguished from a
    // response.
    let (gate, body) = (Gate::default(), pattern(500_000));
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let long = Reply::at_once().sends(head).waits_for(&gate);
    origin.next_replies([long.sends([&body[..], STRAY.as_bytes()].concat()).stalls()]);
    origin.now_replies(ok("own"));
    let (mut first, mut second) = (gateway.client(), gateway.client());
    let head = first.gets("/").reads_head();
    second.gets("/").expects_silence();
    gate.open();
    same_bytes(&first.reads_body_of(head).body, &body);
    assert_eq!(second.expects(200).text(), "own");
    assert_eq!(origin.connections(), 2);
}

/// A gateway with a rule that calls an HTTP authorization server before it forwards.
fn gateway_with_authorization(driver: Driver, auth: &Origin, app: &Origin) -> GatewayBuilder {
    let filter =
        "{type: ExternalAuth, externalAuth: {protocol: HTTP, http: {}, backendRef: {@auth}}}";
    gateway(driver)
        .backend("app", &[app.address()])
        .backend("auth", &[auth.address()])
        .rule(&format!("{{filters: [{filter}], backendRefs: [{{@app}}]}}"))
}

/// A request whose content is another request.
fn nested_request(method: &str) -> String {
    let content = "GET /inner HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let length = content.len();
    format!("{method} /outer HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n{content}")
}

/// An origin that does not read the content of some requests, and so parses it as a request.
fn origin_ignoring_content() -> Origin {
    origin()
        .replies_to("/outer", Reply::at_once().sends(ok_response("outer")))
        .replies_to("/inner", Reply::at_once().sends(STRAY))
        .replies(ok("own"))
}

on_both_drivers! {
    fn a_second_response_is_not_used_for_another_request(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        assert_clients_get_their_own_responses(&origin, &gateway);
    }

    fn a_second_response_over_tls_is_not_used_for_another_request(driver) {
        let ca = authority("ca");
        let origin = tls_origin(&ca.server(&["a.test"]), ClientCertificates::Nobody);
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .routes_to(&origin)
            .backend_tls("origin", VALIDATION)
            .start();
        assert_clients_get_their_own_responses(&origin, &gateway);
    }

    fn a_second_response_is_not_passed_on_with_its_connection(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("upstreamConnections: 1").start();
        assert_stray_response_is_dropped(&origin, &gateway);
    }

    fn a_second_response_over_tls_is_not_passed_on_with_its_connection(driver) {
        let ca = authority("ca");
        let origin = tls_origin(&ca.server(&["a.test"]), ClientCertificates::Nobody);
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .routes_to(&origin)
            .backend_tls("origin", VALIDATION)
            .limits("upstreamConnections: 1")
            .start();
        assert_stray_response_is_dropped(&origin, &gateway);
    }

    fn bytes_after_a_response_reach_no_other_request(driver) {
        for (method, head) in RESPONSES {
            let (origin, strays) = (origin(), ByteCounter::default());
            let gates: Vec<Gate> = LEFTOVERS.iter().map(|_| Gate::default()).collect();
            // Each is sent once with its response, and once later.
            origin.next_replies(LEFTOVERS.iter().zip(&gates).flat_map(|(stray, gate)| {
                let at_once = Reply::at_once().sends([head, stray].concat());
                let later = Reply::at_once().sends(head).waits_for(gate).sends(stray);
                [at_once.stalls(), later.arrives(&strays).stalls()]
            }));
            let gateway = gateway(driver).routes_to(&origin).start();
            let mut clients = [gateway.client(), gateway.client()];
            for round in 0..2 * LEFTOVERS.len() {
                // Both see both forms.
                let client = &mut clients[round / 2 % 2];
                client.sends(format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
                let answer = client.reads_reply_to(method);
                assert!(head.contains(&format!(" {} ", answer.status())), "{head:?}: {answer}");
                assert!(!answer.text().contains("stray") && !answer.has("link"), "{head:?}: {answer}");
                if round % 2 == 1 {
                    gates[round / 2].open();
                    strays.waits_for(round as u64 / 2 + 1);
                }
            }
            assert_eq!(origin.connections(), 2 * LEFTOVERS.len(), "{head:?}");
        }
    }

    fn responses_to_smuggled_requests_of_an_origin_reach_no_other_request(driver) {
        for method in ["GET", "DELETE"] {
            let origin = origin_ignoring_content();
            let gateway = gateway(driver).routes_to(&origin).start();
            let (mut first, mut second) = (gateway.client(), gateway.client());
            for _ in 0..ROUNDS / 2 {
                assert_eq!(first.sends(nested_request(method)).expects(200).text(), "outer");
                assert_eq!(second.gets("/").expects(200).text(), "own");
            }
            let requests = origin.requests();
            assert!(requests.iter().any(|request| request.target() == "/inner"));
        }
    }

    fn responses_to_smuggled_requests_of_a_mirror_reach_no_other_request(driver) {
        let (main, copy) = (origin(), origin_ignoring_content());
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("copy", &[copy.address()])
            .rule(
                "{matches: [{path: {value: /outer}}], backendRefs: [{@main}], \
                 filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}]}",
            )
            .rule("{backendRefs: [{@copy}]}")
            .start();
        let (mut first, mut second) = (gateway.client(), gateway.client());
        for round in 1..=ROUNDS / 4 {
            assert_eq!(first.sends(nested_request("GET")).expects(200).text(), "ok");
            copy.waits_for_requests(2 * round);
            assert_eq!(second.gets("/").expects(200).text(), "own");
        }
    }

    fn a_late_second_response_of_an_authorization_server_is_ignored(driver) {
        let (app, auth) = (origin(), origin());
        let gates: Vec<Gate> = (0..ROUNDS).map(|_| Gate::default()).collect();
        let strays = ByteCounter::default();
        auth.next_replies(gates.iter().map(|gate| {
            let denies = Reply::at_once().sends(DENIAL).waits_for(gate);
            denies.sends(STRAY).arrives(&strays).stalls()
        }));
        let gateway = gateway_with_authorization(driver, &auth, &app).start();
        let mut clients = [gateway.client(), gateway.client()];
        for (round, gate) in gates.iter().enumerate() {
            clients[round % 2].gets("/").expects(401);
            gate.open();
            strays.waits_for(round as u64 + 1);
        }
        assert_eq!(auth.connections(), ROUNDS);
        assert!(app.requests().is_empty());
    }

    fn a_second_response_of_an_authorization_server_is_not_passed_on(driver) {
        let (app, auth) = (origin(), origin());
        let gate = Gate::default();
        let twice = Reply::at_once().waits_for(&gate).sends([DENIAL, STRAY].concat()).stalls();
        auth.next_replies([twice]);
        auth.now_replies(Reply::at_once().sends(DENIAL));
        let gateway = gateway_with_authorization(driver, &auth, &app).limits("upstreamConnections: 1").start();
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.gets("/");
        auth.waits_for_requests(1);
        second.gets("/").expects_silence();
        gate.open();
        first.expects(401);
        second.expects(401);
        assert_eq!(auth.connections(), 2);
        assert!(app.requests().is_empty());
    }

    fn content_after_a_denial_without_a_body_is_ignored(driver) {
        for (method, denial) in [
            ("HEAD", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 43\r\n\r\n"),
            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 43\r\n\r\n"),
            ("GET", "HTTP/1.1 204 No Content\r\nX-Denied: 1\r\n\r\n"),
        ] {
            let (app, auth) = (origin(), origin());
            auth.now_replies(Reply::at_once().sends([denial, STRAY].concat()));
            let gateway = gateway_with_authorization(driver, &auth, &app).start();
            let (mut first, mut second) = (gateway.client(), gateway.client());
            for _ in 0..ROUNDS / 4 {
                for client in [&mut first, &mut second] {
                    client.sends(format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
                    let status = client.reads_reply_to(method).status();
                    assert_ne!(status, 200, "{method} {denial}");
                }
            }
            assert!(app.requests().is_empty(), "{method} {denial}");
        }
    }

    fn responses_to_smuggled_requests_of_an_authorization_server_are_ignored(driver) {
        let (app, auth) = (origin(), origin());
        // It does not read bodies, and allows `/inner`.
        auth.now_replies(Reply::at_once().sends(DENIAL));
        let auth = auth.replies_to("/inner", Reply::at_once().sends(ok_response("")));
        let filter = "{type: ExternalAuth, externalAuth: {protocol: HTTP, http: {}, backendRef: {@auth}, \
                      forwardBody: {maxSize: 1000}}}";
        let gateway = gateway(driver)
            .backend("app", &[app.address()])
            .backend("auth", &[auth.address()])
            .rule(&format!("{{filters: [{filter}], backendRefs: [{{@app}}]}}"))
            .start();
        let (mut first, mut second) = (gateway.client(), gateway.client());
        for _ in 0..ROUNDS / 4 {
            first.sends(nested_request("GET")).expects(401);
            second.gets("/").expects(401);
        }
        assert!(app.requests().is_empty());
    }
}

const VALIDATION: &str =
    "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";

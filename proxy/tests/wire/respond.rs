//! Answers of policies: which requests get them, and what each protocol gets.

use super::admin_trace::{events, watches};
use super::jwt::{asks, bearer, claims, policy};
use super::metrics::{waits_for_count, waits_for_sum};
use crate::support::frames::{HEADERS, PREFACE, Peer, RST_STREAM, SETTINGS, frame, get};
use crate::support::{
    Driver, GatewayBuilder, Origin, Reply, Signer, client, gateway, on_both_drivers, on_every_pair,
    origin, refused,
};

/// A gateway whose rule is without backends.
fn without_backends(driver: Driver) -> GatewayBuilder {
    gateway(driver).rule("{name: rule}")
}

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// A ConfigMap with a page.
fn page(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: pages}}\ndata: {{page.html: '{text}'}}"
    )
}

const FROM_PAGE: &str =
    "respond: {status: 503, contentType: text/html, bodyFrom: {name: pages, key: page.html}}";
const ROUTE: &str = "HTTPRoute/route-0";
const ENFORCED: &str = "precedence: Overrides\n  ";
/// Those whose address ends so are excepted.
const OFFICE: &str = "except: \"cidr('203.0.113.0/24').contains(client.address)\"";

fn from(address: &str) -> Vec<String> {
    vec![format!("X-Forwarded-For: {address}")]
}

fn request(method: &str, path: &str, lines: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: Shop.Example.com:80\r\n{lines}\r\n")
}

fn body_of(pieces: usize) -> String {
    let pieces: Vec<String> = (0..pieces).map(|at| format!("{at:07} ")).collect();
    pieces.concat()
}

const STATUSES: [u16; 14] = [
    200, 201, 204, 205, 299, 302, 304, 400, 404, 418, 429, 500, 503, 599,
];

on_every_pair! {
    /// Envoy Gateway's direct responses of rules without valid backends are 500.
    fn every_status_and_method_is_answered_without_a_backend(pair) {
        let name = |status: u16| format!("s{status}");
        let gateway = STATUSES.iter().fold(pair.gateway().inspected(), |gateway, status| {
            let path = format!("{{path: {{value: /{status}}}}}");
            gateway.rule(&format!("{{name: {}, matches: [{path}]}}", name(*status)))
        });
        let gateway = STATUSES.iter().fold(gateway, |gateway, status| {
            let body = match status {
                204 | 205 | 304 => "",
                _ => ", body: '{\"at\": \"{host}\", \"is\": {status}}', contentType: application/json",
            };
            let fields = format!("respond: {{status: {status}{body}, headers: [{{name: X-Own, value: a}}], retryAfter: 1500ms}}");
            gateway.policy_of(&format!("{ROUTE}/{}", name(*status)), &fields)
        });
        let gateway = gateway.start();
        let mut client = pair.client(&gateway);
        for status in STATUSES {
            for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "PATCH"] {
                let sent = request(method, &format!("/{status}/a?b"), "Content-Length: 2\r\n");
                let sent = match method {
                    "GET" | "HEAD" | "DELETE" => sent.replace("Content-Length: 2\r\n", ""),
                    _ => sent + "ab",
                };
                client.sends(sent);
                let answer = client.reads_reply_to(method);
                assert_eq!(answer.status(), status, "{method}: {answer}");
                assert_eq!(answer.value("x-own"), Some("a"), "{method}: {answer}");
                assert_eq!(answer.value("retry-after"), Some("2"));
                assert!(answer.has("date") && !answer.says_close(), "{method}: {answer}");
                let body = format!("{{\"at\": \"shop.example.com\", \"is\": {status}}}");
                let body = match status {
                    204 | 205 | 304 => "",
                    _ => &*body,
                };
                let expected = if method == "HEAD" { "" } else { body };
                assert_eq!(answer.text(), expected, "{method}: {answer}");
                if !body.is_empty() {
                    assert_eq!(answer.value("content-type"), Some("application/json"));
                    let length = body.len().to_string();
                    assert_eq!(answer.value("content-length"), Some(&*length), "{method}: {answer}");
                }
            }
        }
    }

    fn grpc_gets_a_status_that_corresponds_and_no_body(pair) {
        let statuses = [(200, "12"), (302, "12"), (401, "16"), (404, "12"), (410, "2"), (429, "14"), (500, "13"), (503, "14"), (504, "4")];
        for (status, grpc) in statuses {
            let gateway = pair.gateway().rule("{name: rule}")
                .policy(&format!("respond: {{status: {status}, contentType: text/html, body: page, retryAfter: 9s, headers: [{{name: X-Own, value: a}}]}}"))
                .start();
            let mut client = pair.client(&gateway);
            client.sends("POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
                          TE: trailers\r\nContent-Length: 0\r\n\r\n");
            let answer = client.reads();
            assert_eq!(answer.status(), 200, "{status}: {answer}");
            assert_eq!(answer.value("grpc-status"), Some(grpc), "{status}: {answer}");
            assert_eq!(answer.values("content-type"), ["application/grpc"]);
            assert_eq!((answer.value("retry-after"), answer.value("x-own")), (Some("9"), Some("a")));
            assert_eq!(answer.text(), "");
        }
    }

    fn a_long_body_is_sent_whole_and_the_connection_goes_on(pair) {
        let body = body_of(32 * 1024);
        let gateway = pair.gateway().rule("{name: rule}").document(&page(&body)).policy(FROM_PAGE).start();
        let mut client = pair.client(&gateway);
        for _ in 0..3 {
            let answer = client.gets("/").expects(503);
            assert_eq!(answer.value("content-length"), Some("262144"));
            assert!(answer.text() == body, "another body");
            client.sends(request("HEAD", "/", ""));
            let head = client.reads_reply_to("HEAD");
            assert_eq!(head.value("content-length"), Some("262144"));
        }
    }

    fn the_cors_fields_of_the_rule_are_added(pair) {
        let origin = origin();
        let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test']}}";
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(&format!("{{filters: [{cors}], backendRefs: [{{@origin}}]}}"))
            .policy("respond: {status: 503, body: soon, headers: [{name: Access-Control-Allow-Origin, value: '*'}]}")
            .start();
        let mut client = pair.client(&gateway);
        client.sends(request("OPTIONS", "/", "Origin: https://a.test\r\nAccess-Control-Request-Method: GET\r\n"));
        let preflight = client.reads_reply_to("OPTIONS");
        assert!([200, 204].contains(&preflight.status()), "{preflight}");
        client.sends(request("GET", "/", "Origin: https://a.test\r\n"));
        let answer = client.expects(503);
        assert_eq!(answer.values("access-control-allow-origin"), ["https://a.test"], "{answer}");
        assert!(origin.requests().is_empty());
    }

    /// Nothing that follows the head is taken for another request.
    fn the_body_of_a_request_is_not_waited_for(pair) {
        let gateway = pair.gateway().rule("{name: rule}").policy("respond: {status: 503, body: soon}").start();
        let mut client = pair.client(&gateway);
        // A whole body: the connection goes on.
        client.posts("/", "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n").expects(503);
        client.gets("/").expects(503);
        // One that is still on its way: the answer does not wait, and no byte of it is a request.
        client.sends(request("POST", "/", "Content-Length: 1000000\r\nExpect: 100-continue\r\n"));
        let answer = client.reads();
        assert_eq!((answer.status(), &*answer.text()), (503, "soon"), "{answer}");
        let mut other = pair.client(&gateway);
        other.sends(request("POST", "/", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n");
        assert_eq!(other.reads().status(), 503);
    }
}

on_both_drivers! {
    /// As where a client leaves the response of a backend: the answer is no failure, but did not arrive.
    fn an_answer_whose_client_leaves_is_logged_as_left(driver) {
        let large = "x".repeat(100_000);
        let gateway = without_backends(driver)
            .document(&page(&large))
            .policy(FROM_PAGE)
            .policy("accessLog: {format: json}")
            .inspected()
            .start();
        let mut peer = Peer::silent(gateway.address());
        // Without a window for the body.
        peer.sends(PREFACE).sends(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).sends(get(1));
        peer.next_of(HEADERS);
        peer.sends(frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
        let line = gateway.waits_for_access_log("\"reason\":\"client_gone\"");
        assert!(line.contains("\"status\":503") && !line.contains("\"reason\":\"respond\""), "{line}");
        gateway.client().gets("/").expects(503);
        gateway.waits_for_access_log("\"reason\":\"respond\"");
    }

    /// With the identity provider down, and for clients that have no token.
    fn maintenance_needs_no_identity_provider(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let (_socket, down) = refused();
        let provider = format!(
            "jwt: {{providers: [{{name: idp, issuer: i, jwks: {{remote: {{url: 'http://{down}/keys'}}}}}}]}}"
        );
        let token = bearer(&signer.signs("key", &claims()));
        let gateway = gateway_to(&origin, driver).policy_of(ROUTE, &provider).policy("trustedHops: 1");
        let maintenance = format!("{ENFORCED}respond: {{status: 503, body: maintenance, retryAfter: 5m, {OFFICE}}}");
        let gateway = gateway.policy(&maintenance).start();
        let mut client = gateway.client();
        for lines in [Vec::new(), token.clone()] {
            let answer = asks(&mut client, "/", &lines);
            assert_eq!((answer.status(), &*answer.text()), (503, "maintenance"), "{answer}");
            assert!(!answer.has("www-authenticate"), "{answer}");
        }
        // The office meets what holds without maintenance.
        let answer = asks(&mut client, "/", &from("203.0.113.5"));
        assert_eq!(answer.status(), 401, "{answer}");
        let lines = [token, from("203.0.113.5")].concat();
        let answer = asks(&mut client, "/", &lines);
        assert_ne!(answer.text(), "maintenance", "{answer}");
        assert!(origin.requests().is_empty());
    }

    /// It is asked before the rule is known, and with that its answer.
    fn a_listeners_authorization_server_that_is_down_or_hangs_comes_before_maintenance(driver) {
        let (_socket, down) = refused();
        let (hangs, origin) = (origin().replies(Reply::at_once().stalls()), origin());
        let server = "{group: gateway-system.io, kind: Backend, name: auth}";
        let filter = format!("{{type: ExternalAuth, externalAuth: {{protocol: HTTP, backendRef: {server}, http: {{}}}}}}");
        for address in [down, hangs.address()] {
            let gateway = gateway(driver)
                .backend("auth", &[address])
                .backend("origin", &[origin.address()])
                .listener_with("asking", &format!("protocol: HTTP, filters: {{requests: [{filter}]}}"))
                .rule_of("asking", "{backendRefs: [{@origin}]}")
                .rule(&format!("{{filters: [{}], backendRefs: [{{@origin}}]}}", filter.replace(server, "{@auth}")))
                .policy(&format!("{ENFORCED}respond: {{status: 503, body: maintenance}}"))
                .start();
            // That of a rule is not asked.
            assert_eq!(gateway.client().gets("/").expects(503).text(), "maintenance");
            let mut client = client(gateway.address_of(1));
            assert_eq!(client.gets("/").expects(403).text(), "external authorization failed\n");
        }
        assert!(origin.requests().is_empty());
    }

    fn an_answer_that_does_not_override_comes_after_authorization(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver)
            .policy_of(ROUTE, &policy("Strict", &signer, ""))
            .policy_of(ROUTE, "authorization: {deny: [{when: \"request.path == '/closed'\"}]}")
            .policy("respond: {status: 410, except: claims.sub == 'alice'}")
            .start();
        let mut client = gateway.client();
        let of = |name: &str| {
            let mut claims = claims();
            claims["sub"] = name.into();
            bearer(&signer.signs("key", &claims))
        };
        assert_eq!(asks(&mut client, "/", &[]).status(), 401);
        assert_eq!(asks(&mut client, "/closed", &of("bob")).status(), 403);
        assert_eq!(asks(&mut client, "/", &of("bob")).status(), 410);
        assert_eq!(asks(&mut client, "/", &of("alice")).status(), 200);
        assert_eq!(origin.requests().len(), 1);
    }

    fn networks_and_rate_limits_come_before_an_overriding_answer(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy("trustedHops: 1")
            .policy(&format!("{ENFORCED}respond: {{status: 503, body: maintenance, {OFFICE}}}"))
            .policy_of(ROUTE, "networks: {deny: [192.0.2.0/24]}\n  rateLimit: {rules: [{name: each, key: [{clientAddress: {}}], requests: 2, per: Day}]}")
            .inspected()
            .start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &from("192.0.2.1")).status(), 403);
        let answered = |expected| waits_for_count(&gateway, "gateway_respond_results_total", "result=\"answered\"", expected);
        answered(0.0);
        // Each request counts once, whether it is answered or goes on.
        for (address, passed) in [("198.51.100.1", 503), ("203.0.113.5", 200)] {
            for status in [passed, passed, 429] {
                assert_eq!(asks(&mut client, "/", &from(address)).status(), status, "{address}");
            }
        }
        answered(2.0);
    }

    fn the_answer_of_a_nearer_target_replaces_that_of_a_wider_one(driver) {
        let gateway = without_backends(driver)
            .rule("{name: other, matches: [{path: {value: /other}}]}")
            .policy("respond: {status: 503, body: gateway}")
            .policy_of("Gateway/gw/http", "respond: {status: 503, body: listener}")
            .policy_of(&format!("{ROUTE}/other"), "respond: {status: 410, body: rule}")
            .start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(503).text(), "listener");
        assert_eq!(client.gets("/other").expects(410).text(), "rule");
    }

    fn an_overriding_answer_leaves_to_others_what_it_excepts(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy("trustedHops: 1")
            .policy(&format!("{ENFORCED}respond: {{status: 503, body: gateway, {OFFICE}}}"))
            .policy_of("Gateway/gw/http", &format!("{ENFORCED}respond: {{status: 502, body: listener, except: \"request.path == '/in'\"}}"))
            .policy_of(ROUTE, "respond: {status: 410, body: route, except: \"'x-pass' in request.headers\"}")
            .start();
        let mut client = gateway.client();
        let mut answer = |path, lines: &[String]| {
            let answer = asks(&mut client, path, lines);
            (answer.status(), answer.text())
        };
        let gateway_says = (503, "gateway".to_owned());
        assert_eq!(answer("/in", &from("198.51.100.1")), gateway_says);
        let office = from("203.0.113.1");
        assert_eq!(answer("/", &office), (502, "listener".to_owned()));
        assert_eq!(answer("/in", &office), (410, "route".to_owned()));
        let passes = [office, vec!["X-Pass: 1".to_owned()]].concat();
        assert_eq!(answer("/in", &passes).0, 200);
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_redirect_of_the_rule_comes_before_an_overriding_answer(driver) {
        let signer = Signer::p256();
        let redirect = "{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}";
        let gateway = gateway(driver)
            .rule(&format!("{{filters: [{redirect}]}}"))
            .policy_of(ROUTE, &policy("Strict", &signer, ""))
            .policy(&format!("{ENFORCED}respond: {{status: 503}}"))
            .inspected()
            .start();
        let mut watcher = watches(&gateway, "");
        let answer = asks(&mut gateway.client(), "/a", &[]);
        assert_eq!((answer.status(), answer.value("location")), (301, Some("https://a.test/a")), "{answer}");
        let traced = serde_json::to_string(&events(&mut watcher)).expect("JSON");
        assert!(!traced.contains("answers with 503"), "{traced}");
        waits_for_count(&gateway, "gateway_respond_results_total", "result=\"answered\"", 0.0);
    }

    /// Whoever comes from port 80 has no credentials to show there.
    fn a_redirect_of_the_rule_comes_before_credentials(driver) {
        let signer = Signer::p256();
        let redirect = "{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}";
        for precedence in ["", ENFORCED] {
            let gateway = gateway(driver)
                .rule(&format!("{{filters: [{redirect}]}}"))
                .policy(&format!("{precedence}networks: {{deny: [203.0.113.0/24]}}\n  trustedHops: 1\n  {}", policy("Strict", &signer, "")))
                .start();
            let mut client = gateway.client();
            assert_eq!(asks(&mut client, "/a", &[]).status(), 301, "{precedence}");
            assert_eq!(asks(&mut client, "/a", &from("203.0.113.1")).status(), 403, "{precedence}");
        }
    }

    /// Whoever owns a part of the Gateway cannot let anybody past what the Gateway asks for.
    fn an_overriding_answer_within_the_gateway_comes_after_the_credentials_of_the_gateway(driver) {
        let signer = Signer::p256();
        let gateway = gateway(driver)
            .rule("{matches: [{path: {value: /a}}]}")
            .policy(&format!("{ENFORCED}{}", policy("Strict", &signer, "")))
            .policy_of("Gateway/gw/http", &format!("{ENFORCED}respond: {{status: 410, body: listener, except: \"'x-pass' in request.headers\"}}"))
            .policy_of(ROUTE, "respond: {status: 403, body: route}")
            .start();
        let mut client = gateway.client();
        let token = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/a", &[]).status(), 401);
        assert_eq!(asks(&mut client, "/a", &token).text(), "listener");
        assert_eq!(asks(&mut client, "/a", &[token, vec!["X-Pass: 1".to_owned()]].concat()).text(), "route");
    }

    fn a_request_without_a_rule_is_404_during_maintenance(driver) {
        let gateway = gateway(driver)
            .rule("{matches: [{path: {value: /a}}]}")
            .policy(&format!("{ENFORCED}respond: {{status: 503, body: maintenance}}"))
            .start();
        let mut client = gateway.client();
        client.gets("/b").expects(404);
        client.gets("/a").expects(503);
    }

    /// The claim is missing where nobody is authenticated.
    fn an_exception_that_cannot_be_evaluated_excepts_nothing(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy("respond: {status: 503, except: claims.sub == 'alice'}")
            .inspected()
            .start();
        let mut watcher = watches(&gateway, "");
        gateway.client().gets("/").expects(503);
        waits_for_count(&gateway, "gateway_respond_results_total", "except_not_evaluated", 1.0);
        let events = events(&mut watcher);
        let detail = decision(&events);
        assert!(detail.contains("answers with 503: its exception cannot be evaluated"), "{detail}");
        assert!(origin.requests().is_empty());
    }

    fn a_body_that_cannot_be_read_is_replaced_by_a_text_and_one_that_was_read_stays(driver) {
        let with = |page: Option<&str>| {
            let gateway = without_backends(driver).policy(FROM_PAGE);
            match page {
                Some(page) => gateway.document(page),
                None => gateway,
            }
        };
        let gateway = with(None).start();
        let mut client = gateway.client();
        let answer = client.gets("/").expects(503);
        assert_eq!(answer.text(), "the gateway answers this itself\n");
        assert_eq!(answer.value("content-type"), Some("text/plain; charset=utf-8"));
        for (version, text) in [(2, "first"), (3, "second")] {
            gateway.reconfigure(&with(Some(&page(text))));
            gateway.waits_for_applied(version);
            let answer = client.gets("/").expects(503);
            assert_eq!(answer.text(), text);
            assert_eq!(answer.value("content-type"), Some("text/html"));
        }
        gateway.reconfigure(&with(None));
        gateway.waits_for_log("its previous version stays in effect, with 6 bytes");
        assert_eq!(client.gets("/").expects(503).text(), "second");
    }

    fn an_invalid_answer_is_503_and_reaches_no_backend(driver) {
        let origin = origin();
        for fields in ["respond: {status: 206}", "respond: {}", "responds: {status: 200}"] {
            let gateway = gateway_to(&origin, driver).policy(fields).start();
            let answer = gateway.client().gets("/").expects(503);
            assert_eq!(answer.text(), "a policy that protects this is invalid\n", "{fields}");
        }
        assert!(origin.requests().is_empty());
    }

    fn log_trace_and_metrics_tell_who_answered(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy("trustedHops: 1")
            .policy("accessLog: {format: json}")
            .policy(&format!("{ENFORCED}respond: {{status: 503, body: '{{request_id}}', {OFFICE}}}"))
            .inspected()
            .start();
        let mut client = gateway.client();
        let mut watcher = watches(&gateway, "");
        let id = asks(&mut client, "/", &[]).text();
        let answered = events(&mut watcher);
        assert_eq!(
            decision(&answered),
            "TrafficPolicy/default/policy-2 answers with 503: the request is no exception"
        );
        let line = gateway.waits_for_access_log("\"reason\":\"respond\"");
        assert!(line.contains("\"status\":503") && line.contains(&id), "{line}");
        assert!(id.len() == 36 && line.contains("\"bytes_out\":36"), "{line}");
        let mut watcher = watches(&gateway, "");
        asks(&mut client, "/", &from("203.0.113.1"));
        let excepted = events(&mut watcher);
        assert_eq!(
            decision(&excepted),
            "TrafficPolicy/default/policy-2: the request is an exception, and goes on"
        );
        waits_for_count(&gateway, "gateway_respond_results_total", "result=\"answered\"", 1.0);
        waits_for_count(&gateway, "gateway_respond_results_total", "result=\"excepted\"", 1.0);
        waits_for_sum(&gateway, "gateway_requests_total", &["reason=\"respond\"", "status=\"503\""], 1.0);
    }

    /// The others on its shard are served meanwhile.
    fn a_client_that_leaves_during_the_answer_disturbs_nobody(driver) {
        let body = body_of(32 * 1024);
        let gateway = without_backends(driver)
            .document(&page(&body))
            .policy(FROM_PAGE)
            .policy("accessLog: {format: json}")
            .start();
        for _ in 0..8 {
            let mut client = gateway.client();
            // Pipelined, so that no socket buffer has room for all answers.
            client.sends(request("GET", "/", "").repeat(64));
            client.reads_head();
            client.resets();
        }
        let mut other = gateway.client();
        for _ in 0..2 {
            assert!(other.gets("/").expects(503).text() == body);
        }
    }

    /// Pipelined, so that no socket buffer has room for all answers.
    fn a_client_that_stops_reading_is_cut_off(driver) {
        let body = body_of(32 * 1024);
        let gateway = without_backends(driver)
            .document(&page(&body))
            .policy(FROM_PAGE)
            .policy("accessLog: {format: json}")
            .limits("writeIdleTimeout: 300ms")
            .start();
        let before = gateway.open_files();
        let mut client = gateway.client();
        client.sends(request("GET", "/", "").repeat(64));
        gateway.waits_for_access_log("\"bytes_out\":262144");
        gateway.waits_for_open_files_at_most(before);
        assert!(gateway.client().gets("/").expects(503).text() == body);
    }
}

/// What the trace says about the answer.
#[track_caller]
fn decision(events: &[serde_json::Value]) -> &str {
    let mut messages = events.iter().map(|event| &event["message"]);
    let found =
        messages.find(|message| message["type"] == "policy" && message["kind"] == "respond");
    let found = found.unwrap_or_else(|| panic!("no decision in {events:?}"));
    found["detail"].as_str().expect("a text")
}

//! `/debug/trace`: the life of a request as it happens, without effect on other requests.

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::admin::{asks, json};
use super::jwt;
use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, Peer, block, frame, request};
use crate::support::{Client, Gateway, Signer, gateway, on_both_drivers, origin, refused, status};

/// Enough that their events fill the buffers between the gateway and a reader: sockets of 4 MiB,
/// and a thousand events.
const REQUESTS: usize = BATCHES * BATCH;
const BATCHES: usize = 20;
/// Sent at a time, so that a busy machine does not make it a long test.
const BATCH: usize = 20;

/// Starts a trace, which is armed when this returns.
pub(super) fn watches(gateway: &Gateway, query: &str) -> Client {
    armed(gateway.client_of("admin"), query)
}

fn armed(mut client: Client, query: &str) -> Client {
    client.sends(format!(
        "GET /debug/trace{query} HTTP/1.0\r\nHost: localhost\r\n\r\n"
    ));
    let head = client.reads_head();
    assert_eq!(head.status(), 200, "{head}");
    assert_eq!(head.value("content-type"), Some("text/event-stream"));
    let ready = b": ready\n\n";
    assert_eq!(client.reads_bytes(ready.len()), ready);
    client
}

/// A connection to the admin server with a small receive buffer.
fn with_little_room(gateway: &Gateway) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(64 << 10).expect("a size");
    let address = gateway.server("admin").into();
    socket.connect(&address).expect("the server accepts");
    Client::over(socket.into())
}

/// The events up to the end of the stream.
pub(super) fn events(watcher: &mut Client) -> Vec<Value> {
    let text = watcher.reads_to_the_end();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|json| serde_json::from_str(json).expect("JSON"))
        .collect()
}

pub(super) fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["message"]["type"].as_str())
        .collect()
}

pub(super) fn message<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    let mut messages = events.iter().map(|event| &event["message"]);
    let found = messages.find(|message| message["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {events:?}"))
}

on_both_drivers! {
    fn a_request_is_traced_from_start_to_end(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {value: /a}, method: POST}], backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /a}, headers: [{name: X-Team, value: red}]}], backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /a}}], backendRefs: [{@origin}], \
                   filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Server]}}]}")
            .rule("{backendRefs: [{@origin}]}")
            .inspected().start();
        let mut watcher = watches(&gateway, "");
        gateway.client()
            .sends("GET /a?token=hush HTTP/1.1\r\nHost: a.test\r\nAuthorization: hush\r\nX-Team: blue\r\n\
                    Sec-WebSocket-Protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.hush\r\n\r\n")
            .expects(200);
        let events = events(&mut watcher);
        assert_eq!(types(&events), [
            "requestStarted", "requestSnapshot", "listenerSelection", "routeSelection",
            "policySelection", "policy", "backendSelection", "backendCallStart",
            "responseSnapshot", "backendCallResult", "requestFinished",
        ]);
        let text = format!("{events:?}");
        assert!(!text.contains("hush") && text.contains("blue") && text.contains("v4.channel"), "{text}");
        let selection = message(&events, "routeSelection");
        assert_eq!(selection["selected"], "HTTPRoute/default/route-0/2");
        let reasons = selection["candidates"].as_array().expect("a list").iter();
        let reasons: Vec<_> = reasons.map(|it| it["reason"].as_str().or(it["outcome"].as_str())).collect();
        for reason in ["the method is not POST", "the header x-team has another value"] {
            assert!(reasons.contains(&Some(reason)), "{selection}");
        }
        let finished = message(&events, "requestFinished");
        assert_eq!(finished["status"], 200);
        assert_eq!(finished["endpoint"], origin.address().to_string());
        let ids: std::collections::HashSet<_> = events.iter().map(|it| it["requestId"].as_str()).collect();
        assert_eq!(ids.len(), 1, "one request, one id: {events:?}");
        assert_eq!(origin.only_request().value("x-request-id"), ids.into_iter().next().flatten());
    }

    fn each_effective_policy_is_traced_once(driver) {
        let origin = origin();
        let rewrite = "{type: URLRewrite, urlRewrite: {hostname: b.test}}";
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(&format!("{{matches: [{{path: {{value: /a}}}}], backendRefs: [{{@origin}}], filters: [{rewrite}], \
                   retry: {{attempts: 1}}, timeouts: {{request: 10s}}}}"))
            .rule(&format!("{{matches: [{{path: {{value: /b}}}}], filters: [{rewrite}], backendRefs: [{{@origin, weight: 0}}]}}"))
            .limits("requestBodyBytes: 4096")
            .policy("accessLog: {filter: {statusAtLeast: 500}}")
            .inspected().start();
        let traced = |path: &str, status: u16| {
            let mut watcher = watches(&gateway, "");
            gateway.client().gets(path).expects(status);
            let events = events(&mut watcher);
            let selected = message(&events, "policySelection")["policies"].clone();
            let policies = events.iter().map(|it| &it["message"]).filter(|it| it["type"] == "policy");
            let mut done: Vec<_> = policies.map(|it| [&it["kind"], &it["outcome"]].map(|it| it.as_str().expect("text").to_owned())).collect();
            let mut kinds: Vec<_> = done.iter().map(|[kind, _]| kind.clone()).collect();
            let mut selected: Vec<_> = selected.as_array().expect("a list").iter().map(|it| it.as_str().expect("text").to_owned()).collect();
            kinds.sort_unstable();
            selected.sort_unstable();
            assert_eq!(kinds, selected, "{events:?}");
            done.sort_unstable();
            done.iter().map(|did| did.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(traced("/a", 200), [
            "accessLog skipped", "limits applied", "requestTimeout applied", "retry skipped", "rewrite applied",
        ]);
        assert_eq!(traced("/b", 500), ["accessLog applied", "limits applied", "rewrite skipped"]);
    }

    fn the_outcome_of_cors_is_traced(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}], filters: [{type: CORS, cors: {allowOrigins: ['https://a.test']}}]}")
            .inspected().start();
        let traced = |method: &str, lines: &str, status: u16| {
            let mut watcher = watches(&gateway, "");
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            gateway.client().sends(request).expects(status);
            let events = events(&mut watcher);
            let policies = events.iter().map(|it| &it["message"]);
            let cors: Vec<_> = policies.filter(|it| it["kind"] == "cors").collect();
            assert_eq!(cors.len(), 1, "{events:?}");
            ["outcome", "detail"].map(|it| cors[0][it].as_str().unwrap_or_default().to_owned()).join(": ")
        };
        let preflight = "Access-Control-Request-Method: PUT\r\n";
        let (ours, theirs) = ("Origin: https://a.test\r\n", "Origin: https://b.test\r\n");
        for (method, lines, status, expected) in [
            ("GET", "", 200, "skipped: the request has no origin"),
            ("GET", ours, 200, "applied: allowed its origin to read the response"),
            ("GET", theirs, 200, "skipped: its origin is not allowed"),
            ("OPTIONS", &*format!("{ours}{preflight}"), 200, "applied: answered the preflight"),
            ("OPTIONS", &*format!("{theirs}{preflight}"), 200, "applied: answered the preflight: its origin is not allowed"),
        ] {
            assert_eq!(traced(method, lines, status), expected, "{method} {lines:?}");
        }
    }

    fn attempts_and_retries_are_traced_with_scores(driver) {
        let (_held, refused) = refused();
        let origin = origin().replies_once(status(503));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address(), refused])
            .rule("{retry: {attempts: 5, codes: [503], backoff: 1ms}, backendRefs: [{@origin}]}")
            .inspected().start();
        let mut watcher = watches(&gateway, "");
        gateway.client().gets("/").expects(200);
        let events = events(&mut watcher);
        let finished = message(&events, "requestFinished");
        let retries = finished["retries"].as_u64().expect("a number");
        assert!(retries >= 1, "{events:?}");
        let retry_events = types(&events).iter().filter(|it| **it == "retry").count();
        assert_eq!(retry_events as u64, retries, "{events:?}");
        let selection = message(&events, "backendSelection");
        let endpoints = selection["endpoints"].as_array().expect("a list");
        assert_eq!(endpoints.len(), 2);
        assert!(endpoints.iter().all(|it| it["score"].as_f64().is_some_and(|score| score > 0.0)));
    }

    fn a_failure_is_traced_with_its_reason(driver) {
        let gateway = gateway(driver).rule("{matches: [{path: {value: /a}}]}").inspected().start();
        let mut watcher = watches(&gateway, "");
        gateway.client().gets("/b").expects(404);
        let traced = events(&mut watcher);
        assert_eq!(message(&traced, "requestFinished")["reason"], "no_route");
        assert!(message(&traced, "routeSelection").get("selected").is_none());
        let mut watcher = watches(&gateway, "");
        gateway.client().gets("/a").expects(500);
        assert_eq!(message(&events(&mut watcher), "requestFinished")["reason"], "no_valid_backend");
    }

    fn a_rejected_head_is_traced_with_its_known_parts(driver) {
        let gateway = gateway(driver).rule("{}").inspected().start();
        let large = format!("GET /large HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(80 << 10));
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(20 << 10));
        for (head, status, reason, known) in [
            ("GET /b?token=hush HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed_head", ["GET", "/b?token=", "a b"]),
            ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501, "method_unknown", ["TRACE", "/", "a"]),
            ("\u{16}\u{3}\u{1}\r\n\r\n", 400, "malformed_head", ["", "", ""]),
            (&large, 431, "head_too_large", ["GET", "/large", "a"]),
            (&long, 414, "target_too_long", ["GET", "/xxx", ""]),
        ] {
            let mut watcher = watches(&gateway, "");
            gateway.client().sends(head).expects(status);
            let traced = events(&mut watcher);
            assert_eq!(types(&traced), ["requestStarted", "requestSnapshot", "requestFinished"]);
            let snapshot = message(&traced, "requestSnapshot");
            let [method, path, host] = known;
            assert_eq!((&snapshot["method"], &snapshot["host"]), (&method.into(), &host.into()));
            let traced_path = snapshot["path"].as_str().expect("text");
            assert!(traced_path.starts_with(path) && !traced_path.contains("hush"), "{traced_path}");
            let finished = message(&traced, "requestFinished");
            assert_eq!(finished["status"], status);
            assert!(finished["reason"].as_str().is_some_and(|it| it.starts_with(reason)), "{finished}");
        }
    }

    fn a_rejected_http_2_head_is_traced(driver) {
        let gateway = gateway(driver).rule("{}").inspected().start();
        let mut watcher = watches(&gateway, "?match=TRACE%20a.test/");
        let mut peer = Peer::client(gateway.address());
        let head = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&request("TRACE")));
        assert_eq!(peer.sends(head).next_of(HEADERS).status(), Some(501));
        let traced = events(&mut watcher);
        assert_eq!(types(&traced), ["requestStarted", "requestSnapshot", "requestFinished"]);
        assert_eq!(message(&traced, "requestSnapshot")["protocol"], "HTTP/2");
        assert_eq!(message(&traced, "requestFinished")["status"], 501);
    }

    fn a_connection_without_a_head_is_not_traced(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut watcher = watches(&gateway, "");
        gateway.client().finishes().expects_close();
        gateway.client().gets("/").expects(200);
        let traced = events(&mut watcher);
        assert_eq!(message(&traced, "requestFinished")["status"], 200, "{traced:?}");
    }

    fn a_backend_that_does_not_resolve_is_named(driver) {
        let gateway = gateway(driver)
            .rule("{backendRefs: [{name: nosuch, port: 80}]}")
            .inspected().start();
        let mut watcher = watches(&gateway, "");
        gateway.client().gets("/").expects(500);
        let traced = events(&mut watcher);
        let selection = traced.iter().find(|it| it["message"]["type"] == "backendSelection").expect("one");
        assert_eq!(selection["severity"], "error");
        assert_eq!(selection["message"]["backend"], "Service/default/nosuch:80");
        assert_eq!(selection["message"]["unresolved"], "BackendNotFound");
        assert!(selection["message"].get("selected").is_none(), "{selection}");
        let dump = json(&gateway, "/config_dump");
        let target = &dump["routes"][0]["backends"][0]["target"];
        assert_eq!(target["reference"], "Service/default/nosuch:80", "{target}");
    }

    fn a_trace_is_filtered_by_match_or_request_id(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut by_path = watches(&gateway, "?match=GET%20example.test/wanted");
        let mut by_id = watches(&gateway, "?requestId=wanted-id");
        let mut client = gateway.client();
        client.gets("/other").expects(200);
        client.sends("GET /x HTTP/1.1\r\nHost: b.test\r\nX-Request-Id: wanted-id\r\n\r\n").expects(200);
        client.gets("/wanted/it").expects(200);
        let by_path = events(&mut by_path);
        assert_eq!(message(&by_path, "requestSnapshot")["path"], "/wanted/it");
        let by_id = events(&mut by_id);
        assert_eq!(message(&by_id, "requestSnapshot")["path"], "/x");
        assert!(by_id.iter().all(|event| event["requestId"] == "wanted-id"), "{by_id:?}");
    }

    fn several_requests_are_traced_for_several_watchers(driver) {
        let origin = origin();
        let gateway = gateway(driver).shards(2).routes_to(&origin).inspected().start();
        let mut watchers = [watches(&gateway, "?count=3"), watches(&gateway, "?count=3")];
        for _ in 0..3 {
            gateway.client().gets("/").expects(200);
        }
        for watcher in &mut watchers {
            let events = events(watcher);
            let ends = types(&events).iter().filter(|it| **it == "requestFinished").count();
            assert_eq!(ends, 3, "{events:?}");
        }
    }

    fn a_timeout_ends_the_stream(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut watcher = watches(&gateway, "?timeout=100ms");
        assert_eq!(events(&mut watcher).len(), 0);
    }

    fn an_unread_trace_blocks_no_request_and_counts_lost_events(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut watcher = watches(&gateway, "");
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Fill: {}\r\n\r\n", "x".repeat(24 << 10));
        let mut client = gateway.client();
        client.sends(&request).expects(200);
        let events_per_request = events(&mut watcher).len();
        // More than sockets and the stream's queue can hold.
        let mut unread = armed(with_little_room(&gateway), &format!("?count={REQUESTS}"));
        for _ in 0..BATCHES {
            client.sends(request.repeat(BATCH));
            for _ in 0..BATCH {
                client.expects(200);
            }
        }
        assert_eq!(asks(&gateway, "readiness", "GET", "/healthz/ready").status(), 200);
        let mut traced = events(&mut unread);
        let last = traced.pop().expect("events");
        assert_eq!(last["message"]["type"], "eventsLost", "{last}");
        let lost = last["message"]["count"].as_u64().expect("a number");
        assert!(lost > 0);
        assert_eq!(traced.len() as u64 + lost, (events_per_request * REQUESTS) as u64, "each event is sent or counted");
    }

    fn token_verification_is_traced_without_the_token(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway(driver).backend("origin", &[origin.address()])
            .rule("{name: rule, backendRefs: [{@origin}]}")
            .policy(&jwt::policy("Strict", &signer, ", from: {header: {name: X-Who}}"))
            .inspected().start();
        let mut client = gateway.client();
        let token = signer.signs("key", &jwt::claims());
        let mut damaged = token.clone();
        damaged.truncate(token.len() - 8);
        damaged.push_str("AAAAAAAA");
        for (lines, status, allowed, detail) in [
            (vec![], 401, false, "no_token"),
            (vec![format!("X-Who: {token}")], 200, true, "by a token that was verified"),
            (vec![format!("X-Who: {token}")], 200, true, "by a token that was verified before"),
            (vec![format!("X-Who: {damaged}")], 401, false, "wrong_signature"),
        ] {
            let mut watcher = watches(&gateway, "");
            assert_eq!(jwt::asks(&mut client, "/", &lines).status(), status);
            let events = events(&mut watcher);
            let result = message(&events, "authorizationResult");
            let decision = (&result["by"], &result["allowed"], &result["detail"]);
            assert_eq!(decision, (&"jwt TrafficPolicy/default/policy-0".into(), &allowed.into(), &detail.into()), "{events:?}");
            let policies = &message(&events, "policySelection")["policies"];
            assert!(policies.as_array().is_some_and(|it| it.contains(&"jwt".into())), "{policies}");
            let text = format!("{events:?}");
            assert!(!text.contains("eyJ"), "a token is shown: {text}");
        }
    }
}

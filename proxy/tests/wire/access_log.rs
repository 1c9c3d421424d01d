//! The access log follows its policy, whatever the policy's target.

use std::time::Duration;

use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, Peer, block, frame};
use crate::support::pki::authority;
use crate::support::{Driver, Gate, Gateway, Reply, gateway, on_both_drivers, origin, status, tls};

const LEVELS: [&str; 4] = [
    "Gateway/gw",
    "Gateway/gw/http",
    "HTTPRoute/route-0",
    "HTTPRoute/route-0/rule",
];

/// Requests `/asked` under the policy and `/last` on a listener that logs everything. Returns the
/// lines of `/asked`.
fn lines(driver: Driver, target: &str, log: &str, answer: u16) -> Vec<String> {
    let origin = origin().replies_to("/asked", status(answer));
    let gateway = gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
        .policy_of(target, &format!("accessLog: {{{log}}}"))
        .listener("loud")
        .rule_of("loud", "{backendRefs: [{@origin}]}")
        .policy_of("Gateway/gw/loud", "accessLog: {sample: 1}")
        .start();
    gateway.client().gets("/asked").expects(answer);
    request_last_line(&gateway);
    let log = gateway.waits_for_access_log("path=/last");
    log.lines()
        .filter(|line| line.contains("/asked"))
        .map(str::to_owned)
        .collect()
}

/// Lines are written in the order in which requests end: once this one is there, no earlier one is
/// missing.
fn request_last_line(gateway: &Gateway) {
    crate::support::client(gateway.address_of(1))
        .gets("/last")
        .expects(200);
}

on_both_drivers! {
    fn json_has_every_field(driver) {
        for target in LEVELS {
            let lines = lines(driver, target, "format: json", 200);
            assert_eq!(lines.len(), 1, "{lines:?}");
            let line: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
            for (field, value) in [
                ("gateway", "default/gw"),
                ("listener", "Gateway/default/gw/http"),
                ("backend", "Backend/default/origin"),
                ("client", "127.0.0.1"),
                ("method", "GET"),
                ("host", "example.test"),
                ("path", "/asked"),
                ("protocol", "HTTP/1.1"),
            ] {
                assert_eq!(line[field], value, "{field} in {line}");
            }
            assert_eq!(line["status"], 200);
            assert!(line["duration_ms"].is_number() && line["upstream_ms"].is_number());
        }
    }

    fn text_lines_hold_method_path_and_status(driver) {
        for target in LEVELS {
            let lines = lines(driver, target, "format: text", 404);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains(" method=GET host=example.test path=/asked "), "{lines:?}");
            assert!(lines[0].contains(" status=404 "), "{lines:?}");
        }
    }

    fn a_disabled_log_writes_nothing(driver) {
        for target in LEVELS {
            assert_eq!(lines(driver, target, "disabled: true", 200), [""; 0]);
        }
    }

    fn a_sample_of_zero_writes_nothing(driver) {
        for target in LEVELS {
            assert_eq!(lines(driver, target, "sample: 0", 200), [""; 0]);
        }
    }

    fn a_sample_rate_is_the_share_of_logged_requests(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .policy("accessLog: {sample: 0.5}")
            .listener("loud")
            .rule_of("loud", "{backendRefs: [{@origin}]}")
            .policy_of("Gateway/gw/loud", "accessLog: {sample: 1}")
            .start();
        let mut client = gateway.client();
        for _ in 0..200 {
            client.gets("/asked").expects(200);
        }
        request_last_line(&gateway);
        let log = gateway.waits_for_access_log("path=/last");
        let share = log.lines().filter(|line| line.contains("/asked")).count();
        // Six standard deviations of a fair coin on either side.
        assert!((58..=142).contains(&share), "{share} of 200");
    }

    fn requests_are_filtered_by_status(driver) {
        for target in LEVELS {
            let filter = "filter: {statusAtLeast: 404}";
            assert_eq!(lines(driver, target, filter, 200), [""; 0]);
            assert_eq!(lines(driver, target, filter, 404).len(), 1);
        }
    }

    fn requests_are_filtered_by_duration(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let origin = origin().replies_to("/slow", slow);
        let gateway = gateway(driver)
            .routes_to(&origin)
            .policy("accessLog: {filter: {durationAtLeast: 3s}}")
            .start();
        let mut client = gateway.client();
        client.gets("/quick").expects(200);
        client.gets("/slow").expects_silence_for(Duration::from_millis(3_100));
        gate.open();
        client.expects(200);
        let log = gateway.waits_for_access_log("path=/slow");
        assert!(!log.contains("/quick"), "{log}");
    }

    fn a_rejected_head_is_logged(driver) {
        for target in &LEVELS[..2] {
            let gateway = gateway(driver)
                .rule("{}")
                .policy_of(target, "accessLog: {format: json}")
                .limits("headTimeout: 100ms")
                .start();
            let silent = gateway.client();
            for (head, status) in [
                ("GET /host HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
                ("TRACE /method HTTP/1.1\r\nHost: a\r\n\r\n", 501),
                ("GET /slow HTTP/1.0\r\n", 408),
            ] {
                gateway.client().sends(head).expects(status);
            }
            gateway.client().gets("/last").expects(500);
            let log = gateway.waits_for_access_log("\"path\":\"/last\"");
            let lines: Vec<serde_json::Value> =
                log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let logged = lines.iter().filter(|it| it["gateway"].is_string()).map(|it| {
                let text = |name: &str| it[name].as_str().unwrap_or_default();
                (text("method"), text("host"), text("path"), text("protocol"), it["status"].as_u64(), text("reason"))
            });
            assert_eq!(logged.collect::<Vec<_>>(), [
                ("GET", "a b", "/host", "HTTP/1.1", Some(400), "malformed_head"),
                ("TRACE", "a", "/method", "HTTP/1.1", Some(501), "method_unknown"),
                ("GET", "", "/slow", "HTTP/1.0", Some(408), "head_timeout"),
                ("GET", "example.test", "/last", "HTTP/1.1", Some(500), "no_valid_backend"),
            ]);
            drop(silent);
        }
    }

    fn a_rejected_head_is_not_logged_if_the_log_is_off(driver) {
        let gateway = gateway(driver)
            .rule("{}")
            .policy_of("Gateway/gw/http", "accessLog: {disabled: true}")
            .listener("loud")
            .policy_of("Gateway/gw/loud", "accessLog: {sample: 1}")
            .start();
        gateway.client().sends("TRACE /quiet HTTP/1.1\r\nHost: a\r\n\r\n").expects(501);
        crate::support::client(gateway.address_of(1)).gets("/last").expects(404);
        let log = gateway.waits_for_access_log("path=/last");
        assert!(!log.contains("/quiet"), "{log}");
    }

    fn a_request_without_a_route_is_logged_with_its_listener(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {value: /known}}], backendRefs: [{@origin}]}")
            .policy_of("Gateway/gw/http", "accessLog: {format: json}")
            .start();
        gateway.client().gets("/unknown").expects(404);
        gateway.waits_for_access_log("\"reason\":\"no_route\"");
    }

    fn a_query_is_not_logged_without_a_route(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {value: /known}}], backendRefs: [{@origin}]}")
            .https("web", Some("a.test"), &[&ca.server(&["a.test"])])
            .https("other", Some("b.test"), &[&ca.server(&["b.test"])])
            .policy("accessLog: {format: json}")
            .start();
        for (head, status) in [
            ("GET /unknown?token=hush HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /bad%zz?token=hush HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /frag#token=hush HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /host?token=hush HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET /user HTTP/1.1\r\nHost: me:hush@a.test\r\n\r\n", 400),
            ("GET http://me:hush@a.test/absolute?token=hush HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("CONNECT me:hush@a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", 501),
            ("GET /line?token=hush and more HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ] {
            gateway.client().sends(head).expects(status);
        }
        // The same if the host belongs to another listener than the handshake's.
        let mut client = gateway.tls_client(&tls(&ca, "a.test"));
        client.sends("GET /misdirected?token=hush HTTP/1.1\r\nHost: b.test\r\n\r\n").expects(421);
        let mut peer = Peer::client(gateway.address());
        peer.sends(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[
            (":method", "GET"), (":scheme", "http"), (":path", "/two?token=hush"), (":authority", "me:hush@a.test"),
        ])));
        assert_eq!(peer.next_of(HEADERS).status(), Some(400));
        // Requests of a route are logged with their query.
        gateway.client().gets("/known?page=7").expects(200);
        let log = gateway.waits_for_access_log("/known?page=7");
        assert!(!log.contains("hush"), "{log}");
        for path in [
            "/unknown", "/bad%zz", "/frag", "/host", "/user", "a.test/absolute", "a.test:443", "/line",
            "/misdirected", "/two",
        ] {
            assert!(log.contains(&format!("\"path\":\"{path}\"")), "{path} in {log}");
        }
        assert!(!gateway.log().contains("hush"), "{}", gateway.log());
    }
}

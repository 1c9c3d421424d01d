//! `/metrics` and readiness: what is counted, in which format, and when the gateway is ready.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::admin::{asks, json, waits_for_readiness};
use super::jwt;
use crate::support::{
    Gateway, Ports, Reply, Signer, TIMEOUT, echo_peer, frames, gateway, on_both_drivers, origin,
    refused,
};

fn scrape(gateway: &Gateway) -> HashMap<String, f64> {
    let answer = asks(gateway, "metrics", "GET", "/metrics");
    assert_eq!(answer.status(), 200);
    let text = answer.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

/// The sum of all samples of a name whose labels have all of these.
fn sum(metrics: &HashMap<String, f64>, name: &str, labels: &[&str]) -> f64 {
    let of = |key: &&String| {
        key.split('{').next() == Some(name) && labels.iter().all(|label| key.contains(label))
    };
    metrics
        .iter()
        .filter(|(key, _)| of(key))
        .map(|(_, value)| value)
        .sum()
}

/// The value of a counter, of samples with this label.
pub(crate) fn count(gateway: &Gateway, name: &str, label: &str) -> f64 {
    sum(&scrape(gateway), name, &[label])
}

/// The number of samples of a metric.
pub(crate) fn samples(gateway: &Gateway, name: &str) -> usize {
    let metrics = scrape(gateway);
    let names = metrics.keys().filter_map(|key| key.split('{').next());
    names.filter(|it| *it == name).count()
}

/// Waits until a counter has this value: a connection is often counted after its peer sees the end.
#[track_caller]
pub(crate) fn waits_for_count(gateway: &Gateway, name: &str, label: &str, expected: f64) {
    waits_for_sum(gateway, name, &[label], expected);
}

/// Waits until this many bytes of buffers are in use, which shards report periodically.
#[track_caller]
pub(super) fn waits_for_buffers(gateway: &Gateway, is_enough: impl Fn(f64) -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let bytes = count(gateway, "gateway_shard_buffer_bytes", "");
        if is_enough(bytes) {
            return;
        }
        assert!(Instant::now() < deadline, "{bytes} bytes are in use");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Waits until a sum reaches this value: a client may have a response a moment before it is
/// counted.
#[track_caller]
pub(crate) fn waits_for_sum(gateway: &Gateway, name: &str, labels: &[&str], expected: f64) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let sum = sum(&scrape(gateway), name, labels);
        if (sum - expected).abs() < 1e-9 {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{name} {labels:?} is {sum}, not {expected}"
        );
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[track_caller]
fn assert_sum(metrics: &HashMap<String, f64>, name: &str, labels: &[&str], expected: f64) {
    let sum = sum(metrics, name, labels);
    assert!(
        (sum - expected).abs() < 1e-9,
        "{name} {labels:?} is {sum}, not {expected}"
    );
}

on_both_drivers! {
    fn requests_connections_and_bytes_are_counted(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut client = gateway.client();
        for _ in 0..3 {
            client.posts("/", b"12345").expects(200);
        }
        client.sends("BREW / HTTP/1.1\r\nHost: a\r\n\r\n").expects(200);
        let route = "route=\"HTTPRoute/default/route-0/0\"";
        let ok = [route, "method=\"POST\"", "status=\"200\"", "reason=\"\"", "backend=\"Backend/default/origin\""];
        waits_for_sum(&gateway, "gateway_requests_total", &ok, 3.0);
        waits_for_sum(&gateway, "gateway_requests_total", &["method=\"other\""], 1.0);
        waits_for_sum(&gateway, "gateway_request_bytes_total", &[route], 15.0);
        waits_for_sum(&gateway, "gateway_request_duration_seconds_count", &[route], 4.0);
        waits_for_sum(&gateway, "gateway_connections_accepted_total", &[], 1.0);
        waits_for_sum(&gateway, "gateway_active_connections", &[], 1.0);
        waits_for_sum(&gateway, "gateway_active_requests", &[], 0.0);
        waits_for_sum(&gateway, "gateway_upstream_connects_total", &[], 1.0);
        waits_for_sum(&gateway, "gateway_upstream_connect_duration_seconds_count", &[route], 1.0);
        waits_for_sum(&gateway, "gateway_upstream_connections", &["state=\"idle\""], 1.0);
        waits_for_sum(&gateway, "gateway_endpoint_health", &[], 1.0);
        waits_for_sum(&gateway, "gateway_build_info", &[], 1.0);
    }

    fn failures_are_counted_by_their_reason(driver) {
        let gateway = gateway(driver).rule("{matches: [{path: {value: /a}}]}").inspected().start();
        gateway.client().gets("/b").expects(404);
        gateway.client().gets("/a").expects(500);
        gateway.client().sends("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").expects(400);
        waits_for_sum(&gateway, "gateway_requests_total", &["route=\"\"", "reason=\"no_route\""], 1.0);
        waits_for_sum(&gateway, "gateway_requests_total", &["reason=\"no_valid_backend\""], 1.0);
        waits_for_sum(&gateway, "gateway_refused_total", &["reason=\"malformed_head\""], 1.0);
    }

    fn series_do_not_grow_with_traffic(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        client.sends("X-0 / HTTP/1.1\r\nHost: a\r\n\r\n").expects(200);
        let before = scrape(&gateway).len();
        for n in 0..200 {
            let request = format!("X-{n} /{n}?q={n} HTTP/1.1\r\nHost: h{n}.test\r\nUser-Agent: {n}\r\n\r\n");
            client.sends(request).expects(200);
        }
        assert_eq!(scrape(&gateway).len(), before);
    }

    fn openmetrics_is_used_if_accepted(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut client = gateway.client_of("metrics");
        client.sends("GET /metrics HTTP/1.1\r\nHost: metrics.svc\r\n\
                      Accept: application/openmetrics-text;version=1.0.0\r\n\r\n");
        let answer = client.expects(200);
        let kind = answer.value("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/openmetrics-text"), "{answer}");
        assert!(answer.text().ends_with("# EOF\n"));
        assert_eq!(asks(&gateway, "metrics", "POST", "/metrics").status(), 405);
        assert_eq!(asks(&gateway, "metrics", "GET", "/config_dump").status(), 404);
    }

    fn a_port_in_use_does_not_affect_other_listeners(driver) {
        let origin = origin();
        let ports = Ports::free(2);
        let builder = gateway(driver).routes_to(&origin).listener("taken").inspected();
        let yaml = builder.yaml(&ports);
        let taken = TcpListener::bind(("::", ports[1])).or_else(|_| TcpListener::bind(("0.0.0.0", ports[1])));
        let taken = taken.expect("it was free");
        let gateway = builder.start_with(&yaml, &ports[..1]);
        waits_for_readiness(&gateway, 200, "ready");
        gateway.client().gets("/").expects(200);
        let bind = format!("bind=\"tcp/{}/default/gw\"", ports[1]);
        assert_sum(&scrape(&gateway), "gateway_bind_up", &[&bind], 0.0);
        assert_sum(&scrape(&gateway), "gateway_bind_up", &[], 1.0);
        let dump = json(&gateway, "/config_dump");
        let down = &dump["runtime"]["bindsDown"][0];
        assert_eq!(down["bind"], format!("tcp/{}/default/gw", ports[1]), "{dump}");
        assert!(down["reason"].as_str().is_some_and(|it| it.starts_with("the port is in use by another process")));
        drop(taken);
        waits_for_sum(&gateway, "gateway_bind_up", &[&bind], 1.0);
        assert!(json(&gateway, "/config_dump")["runtime"].get("bindsDown").is_none());
        assert_eq!(asks(&gateway, "readiness", "GET", "/metrics").status(), 404);
    }

    fn token_verifications_are_counted_by_result(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway(driver).backend("origin", &[origin.address()])
            .rule("{name: rule, backendRefs: [{@origin}]}")
            .policy(&jwt::policy("Strict", &signer, "")).inspected().start();
        let mut client = gateway.client();
        let bearer = jwt::bearer(&signer.signs("key", &jwt::claims()));
        for (lines, status) in [(&bearer, 200), (&bearer, 200), (&vec![], 401)] {
            assert_eq!(jwt::asks(&mut client, "/", lines).status(), status);
        }
        let metrics = scrape(&gateway);
        let name = "gateway_jwt_results_total";
        assert_sum(&metrics, name, &["result=\"allowed\"", "reason=\"verified\""], 1.0);
        assert_sum(&metrics, name, &["result=\"allowed\"", "reason=\"verified_before\""], 1.0);
        assert_sum(&metrics, name, &["result=\"denied\"", "reason=\"no_token\""], 1.0);
        assert_sum(&metrics, name, &[], 3.0);
    }

    fn l4_connections_are_counted_by_rule_and_cause(driver) {
        let peer = echo_peer();
        let (_held, refused) = refused();
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP").listener_with("broken", "protocol: TCP")
            .backend("peer", &[peer.address()]).backend("refused", &[refused])
            .rule_of("tcp", "{backendRefs: [{@peer}]}")
            .rule_of("broken", "{backendRefs: [{@refused}]}")
            .inspected().start();
        let (good, bad) = ("route=\"TCPRoute/default/route-0/0\"", "route=\"TCPRoute/default/route-1/0\"");
        let (sessions, reason) = ("gateway_l4_sessions_total", "reason=\"connect_failed\"");
        let mut stream = TcpStream::connect(gateway.address_of(1)).expect("the listener accepts");
        stream.write_all(b"hello").expect("taken");
        stream.read_exact(&mut [0; 5]).expect("an echo");
        assert_sum(&scrape(&gateway), "gateway_l4_active_sessions", &[], 1.0);
        drop(stream);
        waits_for_sum(&gateway, sessions, &[good, "reason=\"\"", "protocol=\"TCP\""], 1.0);
        drop(TcpStream::connect(gateway.address_of(2)));
        waits_for_sum(&gateway, sessions, &[bad, reason, "backend=\"Backend/default/refused\""], 1.0);
        let metrics = scrape(&gateway);
        assert_sum(&metrics, "gateway_l4_active_sessions", &[], 0.0);
        assert_sum(&metrics, "gateway_l4_received_bytes_total", &[good], 5.0);
        assert_sum(&metrics, "gateway_l4_sent_bytes_total", &[good], 5.0);
        assert_sum(&metrics, "gateway_l4_session_duration_seconds_count", &[good], 1.0);
        assert_sum(&metrics, "gateway_upstream_connect_duration_seconds_count", &[good], 1.0);
        assert_sum(&metrics, "gateway_requests_total", &[], 0.0);
    }

    fn streams_are_counted_while_they_are_open(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut peer = frames::Peer::client(gateway.address());
        peer.sends(frames::get(1)).sends(frames::get(3));
        origin.waits_for_requests(2);
        assert_sum(&scrape(&gateway), "gateway_active_streams", &[], 2.0);
        drop(peer);
        waits_for_sum(&gateway, "gateway_active_streams", &[], 0.0);
    }

    fn a_problem_without_other_changes_is_counted(driver) {
        let origin = origin();
        let at = || gateway(driver).routes_to(&origin).inspected();
        let gateway = at().start();
        assert_sum(&scrape(&gateway), "gateway_configuration_problems", &[], 0.0);
        let lost = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: lost}, \
                    spec: {parentRefs: [{name: gw, sectionName: gone}], rules: [{filters: [{type: RequestRedirect, \
                    requestRedirect: {hostname: a.example}}]}]}}";
        gateway.reconfigure(&at().document(lost));
        waits_for_sum(&gateway, "gateway_configuration_problems", &[], 1.0);
    }

    fn a_previous_version_in_effect_is_counted_and_shown_until_it_ends(driver) {
        const COUNT: &str = "gateway_configuration_previous_versions";
        const PROBLEMS: &str = "gateway_configuration_problems";
        let origin = origin();
        let good = gateway(driver).routes_to(&origin).inspected();
        let gateway = good.clone().start();
        let written = good.yaml(gateway.ports());
        let shown = || json(&gateway, "/config_dump?type=runtime")["runtime"]["previousVersions"].clone();
        assert_sum(&scrape(&gateway), COUNT, &[], 0.0);
        assert_eq!(shown(), serde_json::Value::Null);
        gateway.rewrite(&written.replace("backendRefs", "backendRef"));
        waits_for_sum(&gateway, COUNT, &[], 1.0);
        waits_for_sum(&gateway, PROBLEMS, &[], 1.0);
        assert_eq!(shown(), serde_json::json!(["HTTPRoute default/route-0"]));
        gateway.rewrite(&written);
        gateway.waits_for_log("HTTPRoute default/route-0: its current version is in effect again");
        waits_for_sum(&gateway, COUNT, &[], 0.0);
        waits_for_sum(&gateway, PROBLEMS, &[], 0.0);
        assert_eq!(shown(), serde_json::Value::Null);
        // A file that is no YAML keeps all of its objects.
        gateway.rewrite(&format!("{written}\n---\n{{"));
        waits_for_sum(&gateway, PROBLEMS, &[], 1.0);
        gateway.client().gets("/").expects(200);
    }

    fn the_applied_configuration_is_reported(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).rule("{name: broken}").inspected().start();
        let metrics = scrape(&gateway);
        assert_sum(&metrics, "gateway_configuration_number", &[], 1.0);
        assert_sum(&metrics, "gateway_configuration_source_info", &["source=\"files\""], 1.0);
        assert_sum(&metrics, "gateway_configuration_resources", &["type=\"routes\""], 2.0);
        assert_sum(&metrics, "gateway_configuration_attachments", &[], 2.0);
        assert_sum(&metrics, "gateway_configuration_resources", &["type=\"backends\""], 1.0);
        assert!(metrics.contains_key("gateway_configuration_age_seconds"));
        assert!(metrics.contains_key("gateway_configuration_problems"));
        assert_sum(&metrics, "gateway_access_log_dropped_lines_total", &[], 0.0);
        assert!(sum(&metrics, "gateway_shard_cpu_seconds_total", &["shard=\"0\""]) > 0.0);
    }
}

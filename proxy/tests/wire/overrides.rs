//! Overriding policies of a Gateway: those of routes can only tighten them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::admin_trace::{events, message, types, watches};
use super::jwt::{asks, bearer, claims, policy};
use super::metrics::{waits_for_count, waits_for_sum};
use crate::support::{
    Client, Driver, Gateway, GatewayBuilder, Origin, Reply, Signer, TIMEOUT, echo_peer, gateway,
    on_both_drivers, on_every_pair, origin,
};

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, matches: [{path: {value: /a}}], backendRefs: [{@origin}]}")
}

/// An overriding policy of these fields.
fn overrides(fields: &str) -> String {
    format!("precedence: Overrides\n  {fields}")
}

/// A rate limit by the client's address.
fn each(requests: u32) -> String {
    format!(
        "rateLimit: {{rules: [{{name: each, key: [{{clientAddress: {{}}}}], requests: {requests}, per: Day}}]}}"
    )
}

/// The route's own policy.
const OWN: &str = "HTTPRoute/route-0";

fn from(address: &str) -> Vec<String> {
    vec![format!("X-Forwarded-For: {address}")]
}

const HOP: &str = "trustedHops: 1";
const ELSEWHERE: &str = "networks: {allow: [192.0.2.0/24]}";
const EVERYWHERE: &str = "networks: {allow: [0.0.0.0/0, '::/0']}";
const EVERYBODY: &str = "authorization: {allow: [{when: 'true'}]}";

fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    let _ = stream.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

fn status(client: &mut Client, target: &str, lines: &[String]) -> u16 {
    asks(client, target, lines).status()
}

/// The status of a request on a connection of its own.
fn status_at(gateway: &Gateway, target: &str, lines: &[String]) -> u16 {
    status(&mut gateway.client(), target, lines)
}

on_every_pair! {
    fn authorization_of_gateway_and_route_holds_together(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin)
            .policy(&overrides("authorization: {deny: [{when: \"request.path.startsWith('/private')\"}]}"))
            .policy_of(OWN, "authorization: {deny: [{when: \"request.path.startsWith('/own')\"}], allow: [{when: 'true'}]}")
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/").expects(200);
        let refused = client.gets("/private").expects(403);
        assert_eq!(refused.text(), "this request is not allowed\n");
        client.gets("/own").expects(403);
        assert_eq!(origin.requests().len(), 1);
    }

    fn limits_stay_within_those_of_the_gateway(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin)
            .policy(&overrides("limits: {requestBodyBytes: 8}"))
            .policy_of(OWN, "limits: {requestBodyBytes: 1000}")
            .start();
        let mut client = pair.client(&gateway);
        client.posts("/", "12345678");
        client.expects(200);
        client.posts("/", "123456789");
        client.expects(413);
    }

    fn rate_limits_of_gateway_and_route_hold_together(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin)
            .policy(&overrides(&each(3)))
            .policy_of(OWN, "rateLimit: {status: 503, rules: [{name: own, requests: 1, per: Day}]}")
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/").expects(200);
        client.gets("/").expects(503);
        client.gets("/").expects(503);
        // What the route's refuses was counted at the head.
        let refused = client.gets("/").expects(429);
        assert!(refused.has("retry-after"), "{refused}");
        assert_eq!(origin.requests().len(), 1);
    }
}

on_both_drivers! {
    fn a_connection_from_another_network_is_closed_when_it_is_accepted(driver) {
        let origin = origin();
        let with = |fields: &str| {
            gateway_to(&origin, driver)
                .policy(fields)
                .policy_of(OWN, EVERYWHERE)
                .inspected()
                .start()
        };
        let gateway = with(&overrides(ELSEWHERE));
        assert!(is_closed(TcpStream::connect(gateway.address()).expect("accepted")));
        gateway.waits_for_log("refused a connection by its address");
        waits_for_count(&gateway, "gateway_network_results_total", "allowed_by_no_network", 1.0);
        let bind = format!("bind=\"tcp/{}/default/gw\"", gateway.ports()[0]);
        let labels = ["gateway=\"default/gw\"", &bind, "reason=\"allowed_by_no_network\""];
        waits_for_sum(&gateway, "gateway_connections_refused_by_network_total", &labels, 1.0);
        waits_for_sum(&gateway, "gateway_connections_refused_by_network_total", &[], 1.0);
        // Where somebody else may speak for the client, its requests are refused, those without a route too.
        for trust in [HOP, "trustedSources: [127.0.0.0/8]"] {
            let gateway = with(&format!("{}\n  {trust}", overrides(ELSEWHERE)));
            for (address, target, expected) in [
                ("10.0.0.1", "/a", 403),
                ("192.0.2.1", "/a", 200),
                ("10.0.0.1", "/nowhere", 403),
                ("192.0.2.1", "/nowhere", 404),
            ] {
                assert_eq!(status_at(&gateway, target, &from(address)), expected, "{address} {target}");
            }
        }
        // What a route may replace closes no connection.
        assert_eq!(status_at(&with(ELSEWHERE), "/a", &[]), 200);
    }

    fn a_trace_shows_a_connection_that_is_refused_when_it_is_accepted(driver) {
        let gateway = gateway_to(&origin(), driver)
            .policy(&overrides(ELSEWHERE))
            .inspected()
            .start();
        let mut watcher = watches(&gateway, "?match=TCP&timeout=20s");
        assert!(is_closed(TcpStream::connect(gateway.address()).expect("accepted")));
        let traced = events(&mut watcher);
        assert_eq!(types(&traced), ["connectionStarted", "authorizationResult", "connectionFinished"]);
        let result = message(&traced, "authorizationResult");
        assert_eq!(result["by"], "networks TrafficPolicy/default/policy-0");
        assert_eq!(result["detail"], "allowed_by_no_network: 127.0.0.1");
        let finished = message(&traced, "connectionFinished");
        assert_eq!(finished["reason"], "forbidden: allowed_by_no_network");
    }

    /// A client that may not come in learns nothing else, whatever it sends.
    fn heads_that_cannot_be_read_are_refused_first(driver) {
        let gateway = gateway_to(&origin(), driver)
            .policy(&format!("{}\n  {HOP}", overrides("networks: {deny: [10.0.0.0/8], allow: [192.0.2.0/24]}")))
            .start();
        for (address, expected) in [("10.0.0.1", 403), ("192.0.2.1", 400)] {
            assert_eq!(status_at(&gateway, "/%zz", &from(address)), expected, "{address}");
        }
        // Of these, no field is believed: the client is its hop.
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nno field\r\n\r\n");
        assert!(client.expects(403).says_close());
        client.expects_end();
    }

    fn requests_without_a_listener_are_refused_by_the_gateway(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .without_rules()
            .backend("origin", &[origin.address()])
            .listener_with("named", "protocol: HTTP, hostname: b.test")
            .rule_of("named", "{backendRefs: [{@origin}]}")
            .policy(&format!("{}\n  {HOP}", overrides(ELSEWHERE)))
            .start();
        let mut client = crate::support::client(gateway.address_of(1));
        assert_eq!(status(&mut client, "/", &from("192.0.2.1")), 404);
        assert_eq!(status(&mut client, "/", &from("10.0.0.1")), 403);
    }

    fn requests_count_by_address_even_where_no_route_is(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy(&overrides(&each(2)))
            .policy_of(OWN, &each(1000))
            .start();
        let statuses = ["/nowhere", "/a", "/nowhere", "/a"].map(|it| status_at(&gateway, it, &[]));
        assert_eq!(statuses, [404, 200, 429, 429]);
        // One that also reads something else counts where the route's do.
        let gateway = gateway_to(&origin, driver)
            .policy(&overrides("rateLimit: {rules: [{name: all, requests: 1, per: Day}]}"))
            .policy_of(OWN, &each(1000))
            .start();
        let statuses = ["/nowhere", "/a", "/nowhere", "/a"].map(|it| status_at(&gateway, it, &[]));
        assert_eq!(statuses, [404, 200, 404, 429]);
    }

    fn a_key_of_claims_counts_those_of_an_enforced_issuer_only(driver) {
        let (origin, theirs) = (origin(), Signer::p256());
        let by_subject = "rateLimit: {rules: [{name: subject, key: [{claim: sub}], requests: 1, per: Day}]}";
        let gateway = gateway_to(&origin, driver)
            .policy(&overrides(by_subject))
            .policy_of(OWN, &policy("Strict", &theirs, ""))
            .start();
        let statuses = ["a", "b"].map(|sub| {
            let mut claims = claims();
            claims["sub"] = json!(sub);
            status_at(&gateway, "/a", &bearer(&theirs.signs("key", &claims)))
        });
        assert_eq!(statuses, [200, 429], "whoever signs tokens chooses subjects");
    }

    fn a_proxy_protocol_header_comes_before_the_networks(driver) {
        let origin = origin();
        let fields = overrides(&format!("proxyProtocol: {{in: Required}}\n  {ELSEWHERE}"));
        let gateway = gateway_to(&origin, driver).policy(&fields).start();
        for (address, expected) in [("192.0.2.1", 200), ("203.0.113.7", 403)] {
            let mut client = gateway.client();
            client.sends(format!("PROXY TCP4 {address} 192.0.2.9 50000 80\r\n"));
            assert_eq!(status(&mut client, "/a", &[]), expected, "{address}");
        }
    }

    fn tcp_connections_pass_the_networks_of_gateway_and_route(driver) {
        let peer = echo_peer();
        let with = |of_gateway: &str, of_route: &str| {
            gateway(driver)
                .listener_with("tcp", "protocol: TCP")
                .backend("peer", &[peer.address()])
                .rule_of("tcp", "{backendRefs: [{@peer}]}")
                .policy(&overrides(of_gateway))
                .policy_of("TCPRoute/route-0", of_route)
                .start()
        };
        for (of_gateway, of_route) in [(ELSEWHERE, EVERYWHERE), (EVERYWHERE, ELSEWHERE)] {
            let gateway = with(of_gateway, of_route);
            assert!(is_closed(TcpStream::connect(gateway.address_of(1)).expect("accepted")));
        }
        let gateway = with(EVERYWHERE, EVERYWHERE);
        let mut stream = TcpStream::connect(gateway.address_of(1)).expect("accepted");
        stream.write_all(b"hello").expect("taken");
        stream.read_exact(&mut [0; 5]).expect("an echo");
    }

    fn claims_of_the_routes_issuer_satisfy_only_its_own_rules(driver) {
        let (origin, theirs) = (origin(), Signer::p256());
        let admins = "authorization: {allow: [{when: \"claims.group == 'admins'\"}]}";
        let own = format!("{}\n  {admins}", policy("Strict", &theirs, ""));
        let mut claims = claims();
        claims["group"] = json!("admins");
        let admin = bearer(&theirs.signs("key", &claims));
        let gateway = gateway_to(&origin, driver).policy_of(OWN, &own).start();
        assert_eq!(status_at(&gateway, "/a", &admin), 200);
        let with = |ours: &str| {
            let gateway = gateway_to(&origin, driver).policy_of(OWN, &own);
            gateway.policy(&overrides(ours)).start()
        };
        assert_eq!(status_at(&with(admins), "/a", &admin), 403);
        // Nor by those of a header that it makes of a claim.
        let by_header = "authorization: {allow: [{when: \"request.headers['x-group'] == 'admins'\"}]}";
        let own = policy("Strict", &theirs, ", claimsToHeaders: [{claim: group, header: x-group}]");
        let gateway = gateway_to(&origin, driver)
            .policy(&overrides(by_header))
            .policy_of(OWN, &own)
            .start();
        assert_eq!(status_at(&gateway, "/a", &admin), 403);
    }

    fn enforced_rules_read_the_claims_of_an_enforced_issuer(driver) {
        let (origin, ours) = (origin(), Signer::p256());
        let admins = "authorization: {allow: [{when: \"claims.group == 'admins'\"}]}";
        let gateway = gateway_to(&origin, driver)
            .policy(&overrides(&format!("{}\n  {admins}", policy("Strict", &ours, ""))))
            .policy_of(OWN, EVERYBODY)
            .start();
        let mut client = gateway.client();
        for (group, expected) in [("admins", 200), ("users", 403)] {
            let mut claims = claims();
            claims["group"] = json!(group);
            let lines = bearer(&ours.signs("key", &claims));
            assert_eq!(status(&mut client, "/a", &lines), expected, "{group}");
        }
    }

    fn enforced_rules_read_forwarding_headers_of_trusted_peers_only(driver) {
        let origin = origin();
        let rule = "authorization: {allow: [{when: \"request.headers['x-forwarded-for'] == '192.0.2.1'\"}]}";
        let with = |more: &str| {
            let fields = overrides(&format!("{rule}{more}"));
            gateway_to(&origin, driver).policy(&fields).policy_of(OWN, EVERYBODY).start()
        };
        assert_eq!(status_at(&with(""), "/a", &from("192.0.2.1")), 403);
        let trusting = with(&format!("\n  {HOP}"));
        assert_eq!(status_at(&trusting, "/a", &from("192.0.2.1")), 200);
    }

    fn the_time_for_a_response_is_bounded_whatever_the_routes_timeouts_are(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        for timeouts in ["", "timeouts: {request: 60s}, ", "timeouts: {request: 0s}, ", "timeouts: {backendRequest: 0s}, "] {
            let gateway = gateway(driver)
                .backend("origin", &[origin.address()])
                .rule(&format!("{{{timeouts}backendRefs: [{{@origin}}]}}"))
                .policy(&overrides("limits: {responseHeadTimeout: 300ms}"))
                .policy_of(OWN, "limits: {responseHeadTimeout: 0s}")
                .start();
            let started = Instant::now();
            gateway.client().gets("/").expects(504);
            assert!(started.elapsed() < Duration::from_secs(30), "{timeouts}");
        }
    }

    fn an_invalid_overriding_policy_is_closed_or_keeps_its_previous_version(driver) {
        let origin = origin();
        for invalid in [
            "networks: {allow: [127.0.0.1/8]}",
            "authorization: {allow: [{when: 'claims.'}]}",
            "limits: {requestBodyBytes: -1}",
            "rateLimit: {rules: []}",
        ] {
            let gateway = gateway_to(&origin, driver)
                .policy(&overrides(invalid))
                .policy_of(OWN, &format!("{EVERYBODY}\n  {EVERYWHERE}"))
                .start();
            let answer = asks(&mut gateway.client(), "/a", &[]);
            assert_eq!(answer.status(), 503, "{invalid}: {answer}");
            assert_eq!(answer.text(), "a policy that protects this is invalid\n");
        }
        let nobody = "authorization: {allow: [{when: 'false'}]}";
        let with = |fields: &str| gateway_to(&origin, driver).policy(fields).policy_of(OWN, EVERYBODY);
        let gateway = with(&overrides(nobody)).start();
        gateway.reconfigure(&with(&overrides("authorization: {allow: [{when: 'claims.'}]}")));
        gateway.waits_for_log("the previous version of ");
        assert_eq!(status_at(&gateway, "/a", &[]), 403);
        // A previous version that routes can replace protects less.
        let gateway = with(EVERYBODY).inspected().start();
        assert_eq!(status_at(&gateway, "/a", &[]), 200);
        gateway.reconfigure(&with(&overrides("authorization: {allow: [{when: 'claims.'}]}")));
        gateway.waits_for_log("its previous version restricts access less");
        gateway.waits_for_applied(2);
        assert_eq!(status_at(&gateway, "/a", &[]), 503);
        assert_eq!(origin.requests().len(), 1);
    }

    fn changes_apply_to_routes_at_once(driver) {
        let origin = origin();
        let with = |fields: &str| gateway_to(&origin, driver).policy(fields).policy_of(OWN, EVERYBODY);
        let nobody = "authorization: {deny: [{when: 'true'}]}";
        let gateway = with(nobody).start();
        assert_eq!(status_at(&gateway, "/a", &[]), 200, "a default is replaced");
        gateway.reconfigure(&with(&overrides(nobody)));
        gateway.waits_for_applied(2);
        assert_eq!(status_at(&gateway, "/a", &[]), 403);
        gateway.reconfigure(&with(&format!("precedence: Defaults\n  {nobody}")));
        gateway.waits_for_applied(3);
        assert_eq!(status_at(&gateway, "/a", &[]), 200);
    }

    fn a_trace_names_the_policy_of_each_decision(driver) {
        let (origin, ours) = (origin(), Signer::p256());
        let fields = format!("{}\n  {EVERYBODY}\n  {EVERYWHERE}\n  {HOP}", policy("Strict", &ours, ""));
        let gateway = gateway_to(&origin, driver)
            .policy(&overrides(&fields))
            .policy_of(OWN, EVERYBODY)
            .inspected()
            .start();
        let mut watcher = watches(&gateway, "?timeout=20s");
        let lines = bearer(&ours.signs("key", &claims()));
        assert_eq!(status_at(&gateway, "/a", &lines), 200);
        let traced = events(&mut watcher);
        message(&traced, "policySelection");
        let results = traced.iter().map(|event| &event["message"]);
        let results = results.filter(|it| it["type"] == "authorizationResult");
        let by: Vec<_> = results.filter_map(|it| it["by"].as_str()).collect();
        let (gateways, own) = ("TrafficPolicy/default/policy-0", "TrafficPolicy/default/policy-1");
        assert_eq!(
            by,
            [
                format!("networks {gateways}"),
                format!("jwt {gateways}"),
                format!("authorization {gateways}"),
                format!("authorization {own}"),
            ],
        );
    }
}

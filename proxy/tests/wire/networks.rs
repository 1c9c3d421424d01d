//! Networks of clients: which requests, connections and datagrams are accepted, by which address.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::admin_trace::{events, message, watches};
use super::jwt::asks;
use super::metrics::waits_for_count;
use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, Peer, block, frame, request};
use crate::support::pki::authority;
use crate::support::{
    Driver, Gateway, GatewayBuilder, Origin, TIMEOUT, echo_peer, gateway, greeting_peer,
    on_both_drivers, origin, tcp_peer, udp_peer,
};

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// A line by which a trusted hop says who the client is.
fn from(client: &str) -> Vec<String> {
    vec![format!("X-Forwarded-For: {client}")]
}

/// Trusts the test as a hop.
const HOP: &str = "trustedHops: 1";

/// A ConfigMap with this list.
fn list(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: lists}}\ndata:\n  networks.txt: |\n{}",
        lines.concat()
    )
}

/// A gateway with a second listener.
fn with_listener(driver: Driver, protocol: &str, backend: SocketAddr) -> GatewayBuilder {
    gateway(driver)
        .listener_with("second", &format!("protocol: {protocol}"))
        .backend("peer", &[backend])
        .rule_of("second", "{backendRefs: [{@peer}]}")
        .policy("accessLog: {format: json}")
        .inspected()
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address_of(1)).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream
}

/// Whether the gateway ends the connection without a byte, before the test stops waiting for it.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

const ELSEWHERE: &str = "networks: {allow: [192.0.2.0/24, '2001:db8::/32']}";
const HERE: &str = "networks: {allow: [127.0.0.0/8, '::1/128']}";

/// A captured ClientHello for `www.example.com`.
const WWW: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-13");

/// Refused clients, by reason.
const RESULTS: &str = "gateway_network_results_total";

on_both_drivers! {
    fn requests_from_other_networks_are_refused(driver) {
        let origin = origin();
        let policy = "networks: {deny: [10.1.0.0/16, 192.0.2.7/32], allow: [10.0.0.0/8, '2001:db8::/32']}";
        let gateway = gateway_to(&origin, driver)
            .policy(HOP)
            .policy(policy)
            .policy("accessLog: {format: json}")
            .inspected()
            .start();
        let mut client = gateway.client();
        for (address, status) in [
            ("10.2.3.4", 200),
            ("10.1.3.4", 403),
            ("::ffff:10.2.3.4", 200),
            ("::ffff:10.1.3.4", 403),
            ("2001:db8::5", 200),
            ("2001:db9::5", 403),
            ("192.0.2.7", 403),
        ] {
            let answer = asks(&mut client, "/", &from(address));
            assert_eq!(answer.status(), status, "{address}: {answer}");
        }
        assert_eq!(origin.requests().len(), 3);
        gateway.waits_for_access_log("\"reason\":\"forbidden\"");
        waits_for_count(&gateway, RESULTS, "denied_by_network", 3.0);
        waits_for_count(&gateway, RESULTS, "allowed_by_no_network", 1.0);
        waits_for_count(&gateway, RESULTS, "result=\"allowed\"", 3.0);
    }

    fn a_forged_address_is_not_believed(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver).policy(ELSEWHERE).start();
        let answer = asks(&mut gateway.client(), "/", &from("192.0.2.1"));
        assert_eq!(answer.status(), 403);
        let gateway = gateway_to(&origin, driver).policy(HERE).start();
        let answer = asks(&mut gateway.client(), "/", &from("192.0.2.1"));
        assert_eq!(answer.status(), 200, "the address of the connection counts");
    }

    fn streams_of_http2_are_refused_one_by_one(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver).policy(HOP).policy(ELSEWHERE).start();
        let asks = |peer: &mut Peer, stream, address| {
            let mut fields = request("GET");
            fields.push(("x-forwarded-for", address));
            peer.sends(frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&fields)));
            peer.next_of(HEADERS)
        };
        for (address, status) in [("192.0.2.1", 200), ("10.0.0.1", 403)] {
            let mut peer = Peer::client(gateway.address());
            assert_eq!(asks(&mut peer, 1, address).status(), Some(status), "{address}");
            // Another stream of the connection, for another client.
            assert_eq!(asks(&mut peer, 3, "192.0.2.2").stream, 3);
        }
        assert_eq!(origin.waits_for_requests(3).len(), 3);
    }

    fn a_preflight_is_refused_too(driver) {
        let origin = origin();
        let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test']}}";
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(&format!("{{filters: [{cors}], backendRefs: [{{@origin}}]}}"))
            .policy(ELSEWHERE)
            .start();
        let mut client = gateway.client();
        client.sends(
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\nAccess-Control-Request-Method: GET\r\n\r\n",
        );
        assert_eq!(client.reads().status(), 403);
    }

    fn the_networks_of_a_route_replace_those_of_its_gateway(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", ELSEWHERE)
            .policy_of("HTTPRoute/route-0", HERE)
            .start();
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 200);
    }

    fn a_trace_shows_the_address_and_why_it_is_refused(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver).policy(ELSEWHERE).inspected().start();
        let mut watcher = watches(&gateway, "?timeout=20s");
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 403);
        let traced = events(&mut watcher);
        let result = message(&traced, "authorizationResult");
        assert_eq!(result["by"], "networks TrafficPolicy/default/policy-0");
        assert_eq!(result["allowed"], false);
        assert_eq!(result["detail"], "allowed_by_no_network: 127.0.0.1");
    }

    fn an_invalid_network_refuses_every_request_or_keeps_the_previous_version(driver) {
        let origin = origin();
        for invalid in [
            "networks: {allow: [127.0.0.1/8]}",
            "networks: {allow: [127.0.0.1]}",
            "networks: {alow: [127.0.0.0/8]}",
            "network: {allow: [127.0.0.0/8]}",
            "networks: {deny: null}",
            "networks:",
        ] {
            let gateway = gateway_to(&origin, driver).policy(invalid).start();
            let answer = asks(&mut gateway.client(), "/", &[]);
            assert_eq!(answer.status(), 503, "{invalid}: {answer}");
            assert_eq!(answer.text(), "a policy that protects this is invalid\n");
        }
        let gateway = gateway_to(&origin, driver).policy(ELSEWHERE).start();
        gateway.reconfigure(&gateway_to(&origin, driver).policy("networks: {allow: [127.0.0.1/8]}"));
        gateway.waits_for_log("write `127.0.0.0/8`");
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 403);
        assert_eq!(origin.requests().len(), 0);
    }

    fn a_list_comes_from_a_config_map_and_its_previous_version_stays(driver) {
        let origin = origin();
        let with = |lines: &[&str]| {
            let policy = "networks: {allowFrom: [{name: lists, key: networks.txt}]}";
            gateway_to(&origin, driver).inspected().policy(policy).document(&list(lines))
        };
        let asks = |gateway: &Gateway| asks(&mut gateway.client(), "/", &[]).status();
        let gateway = with(&["# offices", "", "192.0.2.0/24 # one", "127.0.0.1"]).start();
        assert_eq!(asks(&gateway), 200);
        gateway.reconfigure(&with(&["192.0.2.0/24"]));
        gateway.waits_for_applied(2);
        assert_eq!(asks(&gateway), 403);
        gateway.reconfigure(&with(&["192.0.2.0/24", "127.0.0.1/8"]));
        gateway.waits_for_log("line 2: `127.0.0.1/8` has bits beyond its prefix length");
        assert_eq!(asks(&gateway), 403, "the previous list stays");
        // As does that of a ConfigMap that is gone.
        let policy = "networks: {allowFrom: [{name: lists, key: networks.txt}]}";
        gateway.reconfigure(&gateway_to(&origin, driver).inspected().policy(policy));
        gateway.waits_for_log("ConfigMap default/lists does not exist");
        assert_eq!(asks(&gateway), 403);
    }

    fn a_list_that_was_never_read_refuses_every_request(driver) {
        let origin = origin();
        let policy = "networks: {denyFrom: [{name: lists, key: other.txt}]}";
        let gateway = gateway_to(&origin, driver)
            .policy(policy)
            .policy("accessLog: {format: json}")
            .document(&list(&["192.0.2.0/24"]))
            .start();
        let answer = asks(&mut gateway.client(), "/", &[]);
        assert_eq!(answer.status(), 503, "{answer}");
        assert_eq!(answer.text(), "a list that protects this is missing\n");
        gateway.waits_for_access_log("list_missing");
        assert_eq!(origin.requests().len(), 0);
    }

    fn expressions_compare_addresses_with_networks(driver) {
        let origin = origin();
        let rules = "authorization: {deny: [{name: lab, when: \"cidr('10.9.0.0/16').contains(client.address)\"}], \
             allow: [{when: \"cidr('10.0.0.0/8').containsIP(client.address) || client.address == '2001:db8::1'\"}]}";
        let gateway = gateway_to(&origin, driver).policy(HOP).policy(rules).start();
        let mut client = gateway.client();
        for (address, status) in [
            ("10.1.0.1", 200),
            ("::ffff:10.1.0.1", 200),
            ("10.9.0.1", 403),
            ("192.0.2.1", 403),
            ("2001:DB8:0::1", 200),
            ("2001:db8::2", 403),
        ] {
            assert_eq!(asks(&mut client, "/", &from(address)).status(), status, "{address}");
        }
    }

    fn a_tcp_connection_is_closed_before_its_backend_is_dialled(driver) {
        let dialled = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&dialled);
        let peer = tcp_peer(move |_| seen.store(true, Ordering::SeqCst));
        let with = || with_listener(driver, "TCP", peer.address());
        for policy in [ELSEWHERE, "networks: {deny: [127.0.0.0/8]}", "networks: {alow: [127.0.0.0/8]}"] {
            let gateway = with().policy(policy).start();
            assert!(is_closed(connect(&gateway)), "{policy}");
        }
        let gateway = with().policy_of("TCPRoute/route-0", ELSEWHERE).start();
        assert!(is_closed(connect(&gateway)));
        gateway.waits_for_access_log("\"reason\":\"forbidden\"");
        waits_for_count(&gateway, RESULTS, "allowed_by_no_network", 1.0);
        assert!(!dialled.load(Ordering::SeqCst));
    }

    fn a_server_may_speak_first_to_a_tcp_client_that_is_accepted(driver) {
        let peer = greeting_peer("hello");
        let gateway = with_listener(driver, "TCP", peer.address()).policy(HERE).start();
        let mut greeting = [0; 1];
        connect(&gateway).read_exact(&mut greeting).expect("a greeting");
    }

    fn a_tcp_client_is_known_by_its_proxy_protocol_header(driver) {
        let peer = echo_peer();
        let gateway = with_listener(driver, "TCP", peer.address())
            .policy("proxyProtocol: {in: Required}")
            .policy(ELSEWHERE)
            .start();
        for (address, is_accepted) in [("192.0.2.1", true), ("203.0.113.7", false)] {
            let mut stream = connect(&gateway);
            let header = format!("PROXY TCP4 {address} 192.0.2.9 50000 80\r\nhello");
            stream.write_all(header.as_bytes()).expect("taken");
            let mut back = [0; 5];
            assert_eq!(stream.read_exact(&mut back).is_ok(), is_accepted, "{address}");
        }
    }

    fn a_tls_connection_is_refused_by_its_server_name_before_a_handshake(driver) {
        let (authority, dialled) = (authority("ours"), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&dialled);
        let peer = tcp_peer(move |_| seen.store(true, Ordering::SeqCst));
        let certificate = authority.server(&["www.example.com"]);
        let listener = "protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: end-cert}]}";
        let terminated = gateway(driver).listener_with("tls", listener).secret("end-cert", &certificate);
        let passed = gateway(driver).listener_with("tls", "protocol: TLS, tls: {mode: Passthrough}");
        for builder in [terminated, passed] {
            let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {name: end}\n\
                 spec: {parentRefs: [{name: gw, sectionName: tls}], hostnames: [www.example.com], \
                 rules: [{backendRefs: [{group: gateway-system.io, kind: Backend, name: peer}]}]}";
            let gateway = builder
                .backend("peer", &[peer.address()])
                .document(route)
                .policy_of("TLSRoute/end", ELSEWHERE)
                .policy("accessLog: {format: json}")
                .inspected()
                .start();
            let mut stream = connect(&gateway);
            stream.write_all(WWW).expect("taken");
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received);
            assert!(received.is_empty(), "{}", received.escape_ascii());
            let log = gateway.waits_for_access_log("\"reason\":\"forbidden\"");
            assert!(log.contains("TLSRoute/default/end"), "{log}");
            waits_for_count(&gateway, RESULTS, "allowed_by_no_network", 1.0);
        }
        assert!(!dialled.load(Ordering::SeqCst));
    }

    fn datagrams_from_other_networks_make_no_session(driver) {
        let peer = udp_peer(|datagram| vec![datagram.to_vec()]);
        let with = || with_listener(driver, "UDP", peer.address());
        let gateway = with().policy_of("UDPRoute/route-0", ELSEWHERE).start();
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.send_to(b"?", gateway.address_of(1)).expect("sent");
        waits_for_count(&gateway, "gateway_l4_dropped_datagrams_total", "forbidden", 1.0);
        assert_eq!(peer.taken(), 0);
        let gateway = with().policy_of("UDPRoute/route-0", HERE).start();
        client.set_read_timeout(Some(TIMEOUT)).expect("above zero");
        client.send_to(b"?", gateway.address_of(1)).expect("sent");
        let mut answer = [0; 8];
        assert_eq!(client.recv(&mut answer).ok(), Some(1));
    }
}

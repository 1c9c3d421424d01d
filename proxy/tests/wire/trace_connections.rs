//! `/debug/trace` of connections that are forwarded unchanged: listener, rule, endpoint and end.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};

use serde_json::Value;

use super::admin_trace::{events, message, types, watches};
use crate::support::{
    Driver, Gateway, GatewayBuilder, Signal, TIMEOUT, echo_peer, gateway, on_both_drivers, refused,
    udp_peer,
};

/// A captured ClientHello for `a.example.com`.
const HELLO: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-12");

fn l4_gateway(driver: Driver, protocol: &str, addresses: &[SocketAddr]) -> GatewayBuilder {
    gateway(driver)
        .listener_with("raw", protocol)
        .backend("peer", addresses)
        .inspected()
}

/// A TLSRoute for a hostname.
fn with_tls_route(builder: GatewayBuilder, name: &str, host: &str) -> GatewayBuilder {
    builder.document(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {{name: {name}}}\n\
         spec: {{parentRefs: [{{name: gw, sectionName: raw}}], hostnames: [\"{host}\"], rules: \
         [{{backendRefs: [{{group: gateway-system.io, kind: Backend, name: peer}}]}}]}}"
    ))
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address_of(1)).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream
}

/// Sends this, reads the echo, and closes cleanly.
fn echoes(gateway: &Gateway, bytes: &[u8]) {
    let mut stream = connect(gateway);
    stream.write_all(bytes).expect("taken");
    stream.shutdown(Shutdown::Write).expect("open");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("an end in order");
    assert_eq!(back, bytes);
}

fn outcomes(selection: &Value) -> Vec<(&str, &str)> {
    let candidates = selection["candidates"].as_array().expect("a list").iter();
    candidates
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap_or_default();
            (text("outcome"), text("reason"))
        })
        .collect()
}

on_both_drivers! {
    fn a_connection_is_traced_from_start_to_end(driver) {
        let peer = echo_peer();
        let gateway = l4_gateway(driver, "protocol: TCP", &[peer.address()])
            .rule_of("raw", "{backendRefs: [{@peer}]}").start();
        let mut watcher = watches(&gateway, "");
        echoes(&gateway, b"hush");
        let events = events(&mut watcher);
        assert_eq!(types(&events), [
            "connectionStarted", "listenerSelection", "routeSelection", "backendSelection",
            "backendCallStart", "connectionFinished",
        ]);
        let started = message(&events, "connectionStarted");
        assert_eq!((&started["protocol"], &started["client"]), (&"TCP".into(), &"127.0.0.1".into()));
        assert_eq!(message(&events, "routeSelection")["selected"], "TCPRoute/default/route-0/0");
        let finished = message(&events, "connectionFinished");
        assert_eq!((&finished["bytesIn"], &finished["bytesOut"]), (&4.into(), &4.into()));
        assert_eq!(finished["endpoint"], peer.address().to_string());
        assert!(finished.get("reason").is_none(), "{finished}");
        assert!(!format!("{events:?}").contains("hush"), "forwarded bytes are not traced");
        let ids: std::collections::HashSet<_> = events.iter().map(|it| it["requestId"].as_str()).collect();
        assert!(ids.len() == 1 && !ids.contains(&None), "one connection, one id: {events:?}");
    }

    fn connection_attempts_are_traced(driver) {
        let (_held, refused) = refused();
        let gateway = l4_gateway(driver, "protocol: TCP", &[refused])
            .rule_of("raw", "{backendRefs: [{@peer}]}").start();
        let mut watcher = watches(&gateway, "?match=TCP");
        // The kernel decides whether it is reset before or after it is accepted.
        let _ = connect(&gateway).read(&mut [0]);
        let events = events(&mut watcher);
        assert_eq!(message(&events, "backendCallResult")["reason"], "connect_failed");
        assert_eq!(message(&events, "connectionFinished")["reason"], "connect_failed");
        assert_eq!(events.last().expect("events")["severity"], "error");
    }

    fn a_backend_that_does_not_resolve_is_named(driver) {
        let gateway = l4_gateway(driver, "protocol: TCP", &[])
            .rule_of("raw", "{backendRefs: [{group: gateway-system.io, kind: Backend, name: nowhere}]}").start();
        let mut watcher = watches(&gateway, "?match=TCP");
        let _ = connect(&gateway).read(&mut [0]);
        let events = events(&mut watcher);
        let selection = message(&events, "backendSelection");
        assert_eq!((&selection["backend"], &selection["unresolved"]), (&"Backend/default/nowhere".into(), &"BackendNotFound".into()));
        assert!(selection.get("selected").is_none_or(Value::is_null), "{selection}");
        assert_eq!(message(&events, "connectionFinished")["reason"], "no_valid_backend");
    }

    fn a_server_name_is_traced_with_its_candidate_rules(driver) {
        let peer = echo_peer();
        let builder = l4_gateway(driver, "protocol: TLS, tls: {mode: Passthrough}", &[peer.address()]);
        let builder = with_tls_route(with_tls_route(builder, "own", "a.example.com"), "wild", "*.example.com");
        let gateway = with_tls_route(builder, "other", "b.example.com").start();
        let mut other = watches(&gateway, "?match=TLS%20b.example.com&timeout=10s");
        let mut watcher = watches(&gateway, "?match=TLS%20a.example.com");
        echoes(&gateway, HELLO);
        let traced = events(&mut watcher);
        assert_eq!(message(&traced, "connectionStarted")["serverName"], "a.example.com");
        assert_eq!(message(&traced, "listenerSelection")["host"], "a.example.com");
        let selection = message(&traced, "routeSelection");
        assert_eq!(selection["selected"], "TLSRoute/default/own/0");
        let mut outcomes = outcomes(selection);
        outcomes.sort_unstable();
        assert_eq!(outcomes, [
            ("lost", "the server name differs"),
            ("selected", ""),
            ("shadowed", "a more specific or older rule takes the connection"),
        ]);
        other.cuts();
    }

    fn an_unmatched_server_name_is_traced(driver) {
        let peer = echo_peer();
        let fields = "protocol: TLS, hostname: www.example.com, tls: {mode: Passthrough}";
        let builder = l4_gateway(driver, fields, &[peer.address()]);
        let gateway = with_tls_route(builder, "own", "www.example.com").start();
        let mut watcher = watches(&gateway, "?match=TLS%20a.example.com");
        let mut stream = connect(&gateway);
        stream.write_all(HELLO).expect("taken");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("an end in order");
        // The alert `unrecognized_name`.
        assert!(received.starts_with(&[0x15]) && received.ends_with(&[2, 112]), "{received:?}");
        let traced = events(&mut watcher);
        assert_eq!(types(&traced), ["connectionStarted", "listenerSelection", "connectionFinished"]);
        assert!(message(&traced, "listenerSelection").get("selected").is_none(), "{traced:?}");
        assert_eq!(message(&traced, "connectionFinished")["reason"], "no_listener");
    }

    fn a_udp_session_is_traced(driver) {
        let peer = udp_peer(|datagram| vec![datagram.to_vec()]);
        let mut gateway = l4_gateway(driver, "protocol: UDP", &[peer.address()])
            .rule_of("raw", "{backendRefs: [{@peer}]}")
            .argument("--drain-accept=0s").start();
        let mut watcher = watches(&gateway, "?match=UDP");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.set_read_timeout(Some(TIMEOUT)).expect("above zero");
        client.send_to(b"hello", gateway.address_of(1)).expect("sent");
        assert_eq!(client.recv(&mut [0; 16]).expect("an answer"), 5);
        // The session ends when the gateway exits.
        gateway.signal(Signal::Int);
        let traced = events(&mut watcher);
        assert_eq!(types(&traced)[..5], [
            "connectionStarted", "listenerSelection", "routeSelection", "backendSelection",
            "backendCallStart",
        ]);
        let finished = message(&traced, "connectionFinished");
        assert_eq!((&finished["bytesIn"], &finished["bytesOut"]), (&5.into(), &5.into()));
    }
}

//! TLSRoute: connections routed by the server name in the ClientHello, passed through or with TLS
//! terminated.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::pki::{Authority, Credential, authority};
use crate::support::{
    ClientCertificates, Driver, Gateway, GatewayBuilder, Origin, Peer, TIMEOUT, gateway,
    greeting_peer, on_both_drivers, origin, tcp_peer, tls, tls_client, tls_origin,
};

/// Captured ClientHello messages: for `www.example.com`, and for `a.example.com`.
const WWW: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-13");
const A: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-12");
const NAMELESS: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-no-name");

/// A backend that responds with its name and the first message.
fn naming_peer(word: &'static str) -> Peer {
    tcp_peer(move |mut stream| {
        let mut buffer = [0; 4096];
        let mut answer = word.as_bytes().to_vec();
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            answer.extend_from_slice(&buffer[..count]);
            if stream.write_all(&answer).is_err() {
                return;
            }
            answer.clear();
        }
    })
}

/// A route for this hostname at a listener.
fn route(builder: GatewayBuilder, listener: &str, host: &str, backend: &str) -> GatewayBuilder {
    builder.document(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\n\
         metadata: {{name: {listener}-{backend}}}\n\
         spec: {{parentRefs: [{{name: gw, sectionName: {listener}}}], hostnames: [\"{host}\"], \
         rules: [{{backendRefs: \
         [{{group: gateway-system.io, kind: Backend, name: {backend}}}]}}]}}"
    ))
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address_of(1)).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream.set_nodelay(true).expect("a socket of ours");
    stream
}

/// The backend that gets this ClientHello, unchanged.
#[track_caller]
fn owner(gateway: &Gateway, hello: &[u8]) -> String {
    let mut stream = connect(gateway);
    stream.write_all(hello).expect("taken");
    read_name(&mut stream, hello)
}

#[track_caller]
fn read_name(stream: &mut TcpStream, hello: &[u8]) -> String {
    let mut answer = vec![0; 3 + hello.len()];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer[3..], hello);
    String::from_utf8_lossy(&answer[..3]).into_owned()
}

/// Expects that the connection is closed cleanly, without a byte.
#[track_caller]
fn assert_closed_without_alert(gateway: &Gateway, bytes: &[u8]) {
    let mut stream = connect(gateway);
    stream.write_all(bytes).expect("taken");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("an end in order");
    assert!(received.is_empty(), "received {}", received.escape_ascii());
}

fn passthrough_gateway(driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .listener_with("tls", "protocol: TLS, tls: {mode: Passthrough}")
        .policy("accessLog: {format: json}")
}

on_both_drivers! {
    fn the_most_specific_server_name_wins(driver) {
        let (www, wild, all) = (naming_peer("www"), naming_peer("wld"), naming_peer("all"));
        let builder = passthrough_gateway(driver)
            .backend("www", &[www.address()])
            .backend("wild", &[wild.address()])
            .backend("all", &[all.address()]);
        let builder = route(builder, "tls", "www.example.com", "www");
        let builder = route(builder, "tls", "*.example.com", "wild");
        let gateway = route(builder, "tls", "*.com", "all").start();
        assert_eq!(owner(&gateway, WWW), "www");
        assert_eq!(owner(&gateway, A), "wld");
        assert_closed_without_alert(&gateway, NAMELESS);
        let log = gateway.waits_for_access_log("\"server_name\":\"a.example.com\"");
        assert!(log.contains("\"protocol\":\"TLS\""), "{log}");
    }

    fn a_client_hello_is_read_at_every_split(driver) {
        let peer = naming_peer("yes");
        let builder = passthrough_gateway(driver).backend("peer", &[peer.address()]);
        let gateway = route(builder, "tls", "a.example.com", "peer").start();
        for at in (1..A.len()).step_by(7) {
            let mut stream = connect(&gateway);
            stream.write_all(&A[..at]).expect("taken");
            std::thread::yield_now();
            stream.write_all(&A[at..]).expect("taken");
            assert_eq!(read_name(&mut stream, A), "yes", "split at {at}");
        }
        let mut stream = connect(&gateway);
        for byte in A {
            stream.write_all(&[*byte]).expect("taken");
        }
        assert_eq!(read_name(&mut stream, A), "yes");
    }

    fn an_unmatched_name_is_closed_without_an_alert(driver) {
        let peer = naming_peer("yes");
        let builder = passthrough_gateway(driver).backend("peer", &[peer.address()]);
        let gateway = route(builder, "tls", "other.example.com", "peer").start();
        assert_closed_without_alert(&gateway, WWW);
        gateway.waits_for_access_log("\"reason\":\"no_route\"");
        assert_closed_without_alert(&gateway, b"SSH-2.0-OpenSSH_10.0\r\n");
        assert_closed_without_alert(&gateway, b"\x16\x03\x01\x00\x04\x02\0\0\0");
        assert_eq!(peer.taken(), 0);
    }

    fn plain_http_is_told_that_the_port_expects_tls(driver) {
        let peer = naming_peer("yes");
        let builder = passthrough_gateway(driver).backend("peer", &[peer.address()]);
        let gateway = route(builder, "tls", "a.example.com", "peer").start();
        let mut stream = connect(&gateway);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("taken");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("an end in order");
        let received = String::from_utf8(received).expect("text");
        assert!(received.starts_with("HTTP/1.1 400 ") && received.contains("expects TLS"), "{received}");
        assert_eq!(peer.taken(), 0);
    }

    fn a_client_without_a_client_hello_times_out(driver) {
        let peer = naming_peer("yes");
        let builder = passthrough_gateway(driver).backend("peer", &[peer.address()]);
        let gateway = route(builder, "tls", "a.example.com", "peer").start();
        assert_closed_without_alert(&gateway, &A[..20]);
    }

    fn tls_is_passed_through_end_to_end(driver) {
        let authority = authority("ours");
        let pair = authority.server(&["a.example.com"]);
        let origin = tls_origin(&pair, ClientCertificates::Nobody);
        let builder = passthrough_gateway(driver).backend("origin", &[origin.address()]);
        let gateway = route(builder, "tls", "a.example.com", "origin").start();
        let mut client = tls_client(gateway.address_of(1), &tls(&authority, "a.example.com"));
        client.completes_handshake();
        assert!(client.received_certificate(&pair));
        client.gets("/").expects(200);
        assert!(!origin.only_request().has("X-Forwarded-For"), "TLS was not terminated");
    }

    fn passthrough_and_terminating_listeners_share_a_port(driver) {
        let authority = authority("ours");
        let terminated = authority.server(&["end.example.com"]);
        let passed_through = authority.server(&["pass.example.com"]);
        let ours = authority.server(&["web.example.com"]);
        let (behind, speaking) = (tls_origin(&passed_through, ClientCertificates::Nobody), greeting_peer("220 ready"));
        let web = origin();
        let gateway = gateway(driver)
            .https("https", Some("web.example.com"), &[&ours])
            .secret("end-cert", &terminated)
            .listener_beside("https", "tls", "hostname: pass.example.com, protocol: TLS, tls: {mode: Passthrough}")
            .listener_beside(
                "https",
                "ending",
                "hostname: end.example.com, protocol: TLS, \
                 tls: {mode: Terminate, certificateRefs: [{name: end-cert}]}",
            )
            .backend("behind", &[behind.address()])
            .backend("speaking", &[speaking.address()])
            .backend("web", &[web.address()])
            .rule_of("https", "{backendRefs: [{@web}]}");
        let gateway = route(gateway, "tls", "pass.example.com", "behind");
        let gateway = route(gateway, "ending", "end.example.com", "speaking").start();
        let address = gateway.address_of(1);

        let mut client = tls_client(address, &tls(&authority, "pass.example.com"));
        client.completes_handshake();
        assert!(client.received_certificate(&passed_through));
        client.gets("/").expects(200);

        // The backend sends first, in plain text, inside of TLS that is terminated here.
        let mut client = tls_client(address, &tls(&authority, "end.example.com"));
        client.completes_handshake();
        assert!(client.received_certificate(&terminated));
        assert_eq!(client.reads_bytes(9), b"220 ready");

        let mut client = tls_client(address, &tls(&authority, "web.example.com"));
        client.sends("GET / HTTP/1.1\r\nHost: web.example.com\r\n\r\n").expects(200);
        assert_eq!(web.requests().len(), 1);
    }

    fn terminated_tls_is_reencrypted_to_a_backend(driver) {
        let authority = authority("ours");
        let terminated = authority.server(&["end.example.com"]);
        let origin = tls_origin(&authority.server(&["backend.test"]), ClientCertificates::Nobody);
        let gateway = reencrypting_gateway(driver, &authority, &terminated, &origin).start();
        let mut client = tls_client(gateway.address_of(1), &tls(&authority, "end.example.com"));
        client.completes_handshake();
        assert!(client.received_certificate(&terminated));
        client.gets("/").expects(200);
        // The same through a listener without TLS.
        crate::support::client(gateway.address_of(2)).gets("/").expects(200);
        let handshakes = origin.handshakes();
        assert_eq!(handshakes.len(), 2, "a connection each");
        for handshake in handshakes {
            assert_eq!(handshake.sni.as_deref(), Some("backend.test"));
            assert_eq!(handshake.protocol, None, "their protocol is unknown");
        }
    }

    fn a_backend_with_the_wrong_certificate_gets_no_bytes(driver) {
        let authority = authority("ours");
        let terminated = authority.server(&["end.example.com"]);
        let origin = tls_origin(&authority.server(&["other.test"]), ClientCertificates::Nobody);
        let gateway = reencrypting_gateway(driver, &authority, &terminated, &origin).start();
        let mut client = tls_client(gateway.address_of(1), &tls(&authority, "end.example.com"));
        client.completes_handshake();
        client.gets("/").expects_end();
        crate::support::client(gateway.address_of(2)).gets("/").expects_end();
        gateway.waits_for_access_log("\"protocol\":\"TLS\"");
        let log = gateway.waits_for_access_log("\"protocol\":\"TCP\"");
        assert_eq!(log.matches("\"reason\":\"upstream_tls\"").count(), 2, "{log}");
        assert!(origin.requests().is_empty());
    }
}

/// A listener that terminates TLS with this certificate, one without TLS, and behind both a backend
/// that must be `backend.test`.
fn reencrypting_gateway(
    driver: Driver,
    authority: &Authority,
    shows: &Credential,
    origin: &Origin,
) -> GatewayBuilder {
    let builder = gateway(driver)
        .listener_with(
            "tls",
            "protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: end-cert}]}",
        )
        .listener_with("tcp", "protocol: TCP")
        .secret("end-cert", shows)
        .authority("ca", authority)
        .backend("origin", &[origin.address()])
        .backend_tls(
            "origin",
            "hostname: backend.test, \
             caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]",
        )
        .rule_of("tcp", "{backendRefs: [{@origin}]}")
        .policy("accessLog: {format: json}");
    route(builder, "tls", "end.example.com", "origin")
}

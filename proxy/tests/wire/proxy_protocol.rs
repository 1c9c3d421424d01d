//! PROXY protocol from clients: which address is used, and which connections are closed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};

use crate::support::{
    Driver, Gateway, Origin, Peer, TIMEOUT, client, echo_peer, gateway, greeting_peer,
    on_both_drivers, origin, tcp_peer,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

const V1: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 50000 80\r\n";

/// Version 2, TCP over IPv6, from `2001:db8::7`.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\xc3\x50\0\x50";

/// Version 2, command LOCAL.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A policy that does not trust the test's address.
const UNTRUSTED: &str = "in: Optional, trustedSources: [10.0.0.0/8]";

/// A gateway whose second listener forwards connections of untrusted sources to a peer.
fn gateway_with_tcp_listener(driver: Driver, peer: &Peer) -> Gateway {
    gateway(driver)
        .listener_with("tcp", "protocol: TCP")
        .backend("peer", &[peer.address()])
        .rule_of("tcp", "{backendRefs: [{@peer}]}")
        .policy(&format!("proxyProtocol: {{{UNTRUSTED}}}"))
        .policy("accessLog: {format: json}")
        .start()
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address_of(1)).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream
}

#[track_caller]
fn expect_bytes(stream: &mut TcpStream, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).expect("enough bytes");
    assert_eq!(received, expected);
}

struct Scene {
    gateway: Gateway,
    origin: Origin,
}

impl Scene {
    fn with(driver: Driver, policy: &str) -> Self {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .policy(&format!("proxyProtocol: {{{policy}}}"))
            .policy("accessLog: {format: json}")
            .environment("RUST_LOG", "proxy=debug")
            .start();
        Self { gateway, origin }
    }

    /// The source address that the origin receives if a client sends this before its request.
    #[track_caller]
    fn source_of(&self, header: &[u8]) -> String {
        let bytes = [header, REQUEST].concat();
        self.gateway.client().sends(bytes).expects(200);
        self.source()
    }

    #[track_caller]
    fn source(&self) -> String {
        let request = self.origin.take().0.pop().expect("a request");
        request
            .value("x-forwarded-for")
            .unwrap_or_default()
            .to_owned()
    }

    #[track_caller]
    fn closes_on(&self, bytes: impl AsRef<[u8]>, why: &str) {
        self.gateway.client().sends(bytes).expects_end();
        self.gateway.waits_for_log(why);
        assert!(self.origin.requests().is_empty());
    }
}

on_both_drivers! {
    fn a_header_contains_the_client_address(driver) {
        for mode in ["in: Required", "in: Optional, trustedSources: [127.0.0.0/8]"] {
            let scene = Scene::with(driver, mode);
            assert_eq!(scene.source_of(V1), "203.0.113.7");
            assert_eq!(scene.source_of(V2), "2001:db8::7");
            assert_eq!(scene.source_of(LOCAL), "127.0.0.1");
            assert_eq!(scene.source_of(b"PROXY UNKNOWN\r\n"), "127.0.0.1");
            scene.gateway.waits_for_access_log("\"client\":\"203.0.113.7\"");
        }
    }

    fn a_header_is_read_at_every_split(driver) {
        let scene = Scene::with(driver, "in: Required");
        for (header, source) in [(V1, "203.0.113.7"), (V2, "2001:db8::7")] {
            let bytes = [header, REQUEST].concat();
            for at in 1..=header.len() + 1 {
                scene.gateway.client().sends_split(&bytes, at).expects(200);
                assert_eq!(scene.source(), source, "split at {at}");
            }
        }
    }

    fn the_header_is_read_once_per_connection(driver) {
        let scene = Scene::with(driver, "in: Required");
        let mut client = scene.gateway.client();
        client.sends([V1, REQUEST, REQUEST].concat()).expects(200);
        client.expects(200);
        assert_eq!(scene.source(), "203.0.113.7");
        client.sends([V1, REQUEST].concat()).expects(400);
    }

    fn a_connection_without_a_required_header_is_closed(driver) {
        let scene = Scene::with(driver, "in: Required");
        scene.closes_on(REQUEST, "the PROXY protocol header that the policy requires is missing");
        scene.gateway.client().sends(&V1[..9]).finishes().expects_end();
        scene.gateway.waits_for_log("it was closed within its PROXY protocol header");
    }

    fn an_optional_header_may_be_missing(driver) {
        let scene = Scene::with(driver, "in: Optional");
        assert_eq!(scene.source_of(b""), "127.0.0.1");
        let mut client = scene.gateway.client();
        // Its first letter could be that of a header.
        client.sends_split(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 1).expects(200);
        assert_eq!(scene.source(), "127.0.0.1");
    }

    fn a_header_from_an_untrusted_source_is_rejected(driver) {
        let scene = Scene::with(driver, "in: Required, trustedSources: [10.0.0.0/8]");
        scene.closes_on([V1, REQUEST].concat(), "does not trust this peer");
        let scene = Scene::with(driver, UNTRUSTED);
        for header in [V1, V2] {
            scene.closes_on([header, REQUEST].concat(), "does not trust this peer");
            for at in 1..header.len() {
                scene.gateway.client().sends_split(header, at).expects_end();
            }
        }
        assert_eq!(scene.source_of(b""), "127.0.0.1");
        // The first letter could be that of a header.
        let put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        scene.gateway.client().sends_split(put, 1).expects(200);
        assert_eq!(scene.source(), "127.0.0.1");
    }

    fn a_header_from_an_untrusted_source_is_not_forwarded(driver) {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let peer = tcp_peer(move |mut stream| {
            let mut bytes = Vec::new();
            // Bytes received before a reset are kept.
            let _ = stream.read_to_end(&mut bytes);
            let _ = sender.lock().expect("no panic").send(bytes);
        });
        let gateway = gateway_with_tcp_listener(driver, &peer);
        for header in [V1, V2] {
            for at in (1..header.len()).step_by(5) {
                client(gateway.address_of(1)).sends_split(header, at).expects_end();
                let received = receiver.recv_timeout(TIMEOUT).expect("the connection ends");
                let start = &header[..header.len().min(12)];
                assert!(start.starts_with(&received), "split at {at}: {}", received.escape_ascii());
                assert!(!received.starts_with(b"PROXY ") && received.len() < 12, "split at {at}");
            }
        }
        gateway.waits_for_access_log("untrusted_header");
    }

    fn bytes_of_an_untrusted_source_are_not_delayed(driver) {
        let greets = greeting_peer("220 ready\r\n");
        let gateway = gateway_with_tcp_listener(driver, &greets);
        expect_bytes(&mut connect(&gateway), b"220 ready\r\n");
        let echo = echo_peer();
        let gateway = gateway_with_tcp_listener(driver, &echo);
        for pieces in [["P", "ROX", "Y?"], ["\r\n", "\r\n\0", "\n"]] {
            let mut stream = connect(&gateway);
            for piece in pieces {
                stream.write_all(piece.as_bytes()).expect("taken");
                expect_bytes(&mut stream, piece.as_bytes());
            }
        }
    }

    fn a_malformed_header_is_not_forwarded_as_data(driver) {
        for mode in ["in: Required", "in: Optional"] {
            let scene = Scene::with(driver, mode);
            for header in [&b"PROXY TCP9 a b c d\r\n"[..], b"PROXY TCP4 1.1.1.1 2.2.2.2 1 99999\r\n"] {
                scene.closes_on([header, REQUEST].concat(), "header is malformed");
            }
            let mut version_3 = V2.to_vec();
            version_3[12] = 0x31;
            scene.closes_on([&version_3, REQUEST].concat(), "unknown version or command");
        }
    }

    fn an_endless_header_is_cut_off(driver) {
        let scene = Scene::with(driver, "in: Required");
        scene.closes_on(&V1[..9], "timeout while reading its PROXY protocol header");
    }

    fn a_single_listener_may_require_the_proxy_protocol(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .listener("required")
            .routes_to(&origin)
            .rule_of("required", "{backendRefs: [{@origin}]}")
            .policy_of("Gateway/gw/required", "proxyProtocol: {in: Required}")
            .start();
        let scene = Scene { gateway, origin };
        assert_eq!(scene.source_of(b""), "127.0.0.1");
        scene.gateway.client().sends([V1, REQUEST].concat()).expects(400);
        let required = scene.gateway.address_of(1);
        client(required).sends([V1, REQUEST].concat()).expects(200);
        assert_eq!(scene.source(), "203.0.113.7");
        client(required).sends(REQUEST).expects_end();
        assert!(scene.origin.requests().is_empty());
    }

    fn no_header_is_read_without_a_policy(driver) {
        let scene = Scene::with(driver, "in: Disabled");
        assert_eq!(scene.source_of(b""), "127.0.0.1");
        scene.gateway.client().sends([V1, REQUEST].concat()).expects(400);
    }
}

//! Invalid input before a request can be parsed: each kind ends the connection and is counted by
//! cause, and another client of the same shard is still served.

use std::net::UdpSocket;
use std::time::Instant;

use super::metrics::{count, waits_for_count};
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS as HEAD, PREFACE, Peer, SETTINGS, WINDOW_UPDATE, frame,
    get,
};
use crate::support::pki::{Authority, Credential, authority, subject};
use crate::support::{
    Broken, Client, Driver, Gateway, GatewayBuilder, MOMENT, Origin, TIMEOUT, client, echo_peer,
    gateway, on_both_drivers, origin, tls, udp_peer,
};

const HANDSHAKES: &str = "gateway_tls_handshakes_failed_total";
const BROKEN: &str = "gateway_tls_connections_broken_total";
const HEADERS: &str = "gateway_proxy_protocol_failed_total";
const HTTP2: &str = "gateway_http2_errors_total";
const DATAGRAMS: &str = "gateway_l4_dropped_datagrams_total";

const ASK: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Whole first messages, and two that are not.
const HELLO: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-13");
const OLD_HELLO: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/openssl-12");
const BAD_NAME: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/bad-name");
const TOO_MUCH: &[u8] = include_bytes!("../../fuzz/corpus/client_hello/announces-too-much");

/// A gateway with an HTTPS listener for `a.test`, and another client that has been served.
struct Scene {
    gateway: Gateway,
    neighbour: Client,
    ca: Authority,
    _origin: Origin,
}

impl Scene {
    fn new(driver: Driver) -> Self {
        Self::with(driver, |builder, _| builder)
    }

    fn with(
        driver: Driver,
        more: impl FnOnce(GatewayBuilder, &Authority) -> GatewayBuilder,
    ) -> Self {
        let (origin, ca) = (origin(), authority("ca"));
        let builder = gateway(driver)
            .https("web", Some("a.test"), &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .inspected();
        let gateway = more(builder, &ca).start();
        let mut neighbour = gateway.tls_client(&tls(&ca, "a.test"));
        neighbour.sends(ASK).expects(200);
        Self {
            gateway,
            neighbour,
            ca,
            _origin: origin,
        }
    }

    /// A handshake that begins like this must fail for this reason.
    #[track_caller]
    fn fails(&mut self, bytes: impl AsRef<[u8]>, reason: &str) {
        let mut peer = client(self.gateway.https_address());
        peer.sends(bytes).finishes().expects_end();
        self.expects_count(reason, 1.0);
    }

    /// Expects that this many handshakes have failed for this reason, and that the other client is
    /// still served.
    #[track_caller]
    fn expects_count(&mut self, reason: &str, expected: f64) {
        let label = format!("reason=\"{reason}\"");
        waits_for_count(&self.gateway, HANDSHAKES, &label, expected);
        self.neighbour.sends(ASK).expects(200);
    }
}

on_both_drivers! {
    fn bytes_other_than_tls(driver) {
        Scene::new(driver).fails(b"\x00\x01\x02\x03\x04\x05", "not_tls");
    }

    fn an_http_request_instead_of_tls(driver) {
        let mut scene = Scene::new(driver);
        client(scene.gateway.https_address()).sends(ASK).expects(400);
        scene.expects_count("not_tls", 1.0);
    }

    fn a_malformed_server_name(driver) {
        Scene::new(driver).fails(BAD_NAME, "malformed");
    }

    fn an_oversized_client_hello(driver) {
        Scene::new(driver).fails(TOO_MUCH, "malformed");
    }

    fn a_server_name_without_a_listener(driver) {
        let mut scene = Scene::new(driver);
        scene.gateway.tls_client(&tls(&scene.ca, "b.test")).is_refused();
        scene.expects_count("no_listener", 1.0);
    }

    fn unsupported_alpn_protocols(driver) {
        let mut scene = Scene::new(driver);
        let exotic = tls(&scene.ca, "a.test").offers(&["exotic"]);
        scene.gateway.tls_client(&exotic).is_refused();
        scene.expects_count("no_protocol", 1.0);
    }

    fn an_obsolete_version(driver) {
        let mut scene = scene_with_example_listener(driver);
        // The version field, set to TLS 1.1.
        let mut hello = OLD_HELLO.to_vec();
        hello[9..11].copy_from_slice(&[3, 2]);
        is_answered_by_an_alert(&scene, &hello);
        scene.expects_count("no_version", 1.0);
    }

    fn unsupported_cipher_suites(driver) {
        let mut scene = scene_with_example_listener(driver);
        let mut hello = OLD_HELLO.to_vec();
        let ecdsa_with_cbc = [0xc0, 0x09];
        hello[46..102].copy_from_slice(&ecdsa_with_cbc.repeat(28));
        is_answered_by_an_alert(&scene, &hello);
        scene.expects_count("refused", 1.0);
    }

    fn a_client_that_does_not_trust_the_certificate(driver) {
        let mut scene = Scene::new(driver);
        scene.gateway.tls_client(&tls(&authority("other"), "a.test")).is_refused();
        scene.expects_count("distrusted", 1.0);
    }

    fn an_expired_server_certificate(driver) {
        let mut scene = Scene::with(driver, |builder, ca| {
            let old = ca.signs(&subject(&["old.test"]).expired());
            builder.https("old", Some("old.test"), &[&old])
        });
        // It is presented all the same: the client decides whether to accept it.
        scene.gateway.tls_client(&tls(&scene.ca, "old.test")).is_refused();
        scene.expects_count("distrusted", 1.0);
    }

    fn a_deleted_secret(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let builder = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .routes_to(&origin)
            .rule_of("web", "{backendRefs: [{@origin}]}");
        let gateway = builder.clone().start();
        let mut neighbour = gateway.client();
        neighbour.sends(ASK).expects(200);
        let yaml = builder.yaml(gateway.ports());
        let documents = yaml.split("\n---\n").filter(|document| !document.contains("kind: Secret"));
        gateway.rewrite(&documents.collect::<Vec<_>>().join("\n---\n"));
        gateway.waits_for_applied(2);
        gateway.waits_for_log("ResolvedRefs/InvalidCertificateRef: Secret default/web-0 does not exist: create it");
        // Its port stays open, so that clients learn why by an alert.
        let broken = gateway.tls_client(&tls(&ca, "a.test")).is_refused();
        assert!(matches!(&broken, Broken::Tls(why) if why.contains("UnrecognisedName")), "{broken:?}");
        neighbour.sends(ASK).expects(200);
        gateway.rewrite(&yaml);
        gateway.waits_for_applied(3);
        gateway.tls_client(&tls(&ca, "a.test")).sends(ASK).expects(200);
    }

    fn invalid_client_certificates(driver) {
        let (origin, ca, clients) = (origin(), authority("ca"), authority("clients"));
        let gateway = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .authority("clients", &clients)
            .gateway_field(VALID_ONLY)
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .inspected()
            .start();
        let shows = |pair: &Credential| gateway.tls_client(&tls(&ca, "a.test").shows(&ca, pair));
        let mut neighbour = shows(&clients.client("client.test"));
        neighbour.sends(ASK).expects(200);
        let expired = clients.signs(&subject(&["client.test"]).of_client().expired());
        let stranger = authority("stranger").client("client.test");
        let server = clients.server(&["client.test"]);
        for (mut peer, reason) in [
            (shows(&expired), "expired"),
            (shows(&stranger), "untrusted"),
            (shows(&server), "bad"),
            (gateway.tls_client(&tls(&ca, "a.test")), "missing"),
        ] {
            peer.is_refused();
            let label = format!("reason=\"certificate_{reason}\"");
            waits_for_count(&gateway, HANDSHAKES, &label, 1.0);
            neighbour.sends(ASK).expects(200);
        }
    }

    fn an_unfinished_handshake(driver) {
        let mut scene = Scene::with(driver, |builder, _| builder.limits("handshakeTimeout: 3s"));
        client(scene.gateway.https_address()).sends(&HELLO[..100]).expects_end();
        scene.expects_count("timeout", 1.0);
    }

    fn records_that_are_not_encrypted(driver) {
        let mut scene = Scene::new(driver);
        for (broken, protocol) in (1..).zip(["http/1.1", "h2"]) {
            // Records of 32 bytes: data, and an unknown type.
            for (kind, reason) in [(0x17, "bad_record"), (0x99, "protocol")] {
                let record = [&[kind, 3, 3, 0, 32][..], &[0; 32]].concat();
                let offers = tls(&scene.ca, "a.test").offers(&[protocol]);
                let mut peer = scene.gateway.tls_client(&offers);
                // Data received with the end of a handshake counts as a part of it.
                match protocol {
                    "h2" => {
                        peer.sends(PREFACE).sends(frame(SETTINGS, 0, 0, b"")).reads_bytes(9);
                    }
                    _ => {
                        peer.sends(ASK).expects(200);
                    }
                }
                peer.sends_raw(&record);
                let label = format!("reason=\"{reason}\"");
                waits_for_count(&scene.gateway, BROKEN, &label, f64::from(broken));
                scene.neighbour.sends(ASK).expects(200);
            }
        }
        // Their handshakes were good.
        let failed = count(&scene.gateway, HANDSHAKES, "reason");
        assert!(failed.abs() < 1e-9, "{failed} handshakes have failed");
    }

    fn malformed_proxy_protocol_headers(driver) {
        let origin = origin();
        let gateway = gateway_with_proxy_protocol(driver, &origin, "in: Required, trustedSources: [127.0.0.1/32]");
        let mut neighbour = gateway.client();
        neighbour.sends(HEADER).sends(ASK).expects(200);
        for (bytes, reason) in [
            (ASK, "missing"),
            ("PROXY TCP9 a b c d\r\n", "malformed"),
            (&HEADER[..9], "timeout"),
        ] {
            gateway.client().sends(bytes).expects_end();
            waits_for_count(&gateway, HEADERS, &format!("reason=\"{reason}\""), 1.0);
            neighbour.sends(ASK).expects(200);
        }
        let gateway = gateway_with_proxy_protocol(driver, &origin, "in: Required, trustedSources: [192.0.2.0/24]");
        gateway.client().sends(HEADER).sends(ASK).expects_end();
        waits_for_count(&gateway, HEADERS, "reason=\"untrusted\"", 1.0);
    }

    fn proxy_protocol_headers_of_untrusted_sources(driver) {
        let peer = echo_peer();
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .listener_with("tls", "protocol: TLS, tls: {mode: Passthrough}")
            .backend("peer", &[peer.address()])
            .rule_of("tcp", "{backendRefs: [{@peer}]}")
            .policy("proxyProtocol: {in: Optional, trustedSources: [192.0.2.0/24]}")
            .inspected()
            .start();
        for (listener, expected) in (0..).zip([1.0, 2.0, 3.0]) {
            client(gateway.address_of(listener)).sends(HEADER).expects_end();
            waits_for_count(&gateway, HEADERS, "reason=\"untrusted\"", expected);
        }
        client(gateway.address_of(2)).sends(b"\x00\x01\x02\x03\x04\x05").expects_end();
        waits_for_count(&gateway, HANDSHAKES, "reason=\"not_tls\"", 1.0);
    }

    fn a_missing_proxy_protocol_header_of_an_untrusted_source(driver) {
        let mut scene = Scene::with(driver, |builder, _| {
            let untrusted = "proxyProtocol: {in: Optional, trustedSources: [192.0.2.0/24]}";
            builder.limits("handshakeTimeout: 1s").policy(untrusted)
        });
        let mut slow = scene.gateway.client();
        let mut peer = Peer::client(scene.gateway.address());
        client(scene.gateway.https_address()).expects_end();
        scene.expects_count("timeout", 1.0);
        // There is no handshake here, so the handshake timeout does not apply.
        slow.sends(ASK).expects(404);
        // The first letter of HTTP/2 is a header's as well.
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEAD).status(), Some(404));
        let broken = count(&scene.gateway, HEADERS, "reason=");
        assert!(broken.abs() < 1e-9, "{broken} headers were broken");
    }

    fn forbidden_http_2_frames(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut neighbour = gateway.client();
        for (bytes, expected) in [
            (frame(DATA, 0, 0, b"x"), &[(1, "protocol_error")][..]),
            (frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), &[(3, "flow_control_error")]),
            (frame(DATA, 0, 1, &vec![0; 16_385]), &[(6, "frame_size_error")]),
            (
                frame(HEAD, END_STREAM | END_HEADERS, 1, &[0x80]),
                &[(9, "compression_error")],
            ),
        ] {
            let counter = |reason| format!("reason=\"{reason}\"");
            let before: Vec<_> = expected
                .iter()
                .map(|(_, reason)| count(&gateway, HTTP2, &counter(reason)))
                .collect();
            let mut peer = Peer::client(gateway.address());
            peer.sends(bytes);
            let code = peer.expects_goaway();
            let found = expected.iter().zip(before).find(|((known, _), _)| *known == code);
            let ((_, reason), before) = found.unwrap_or_else(|| panic!("{code} for {expected:?}"));
            waits_for_count(&gateway, HTTP2, &counter(reason), before + 1.0);
            neighbour.gets("/").expects(200);
        }
    }

    fn truncated_http_2_frames(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let head = get(1);
        for (nth, cut) in [4, 9, head.len() - 1].into_iter().enumerate() {
            let mut peer = Peer::client(gateway.address());
            peer.sends(&head[..cut]).finishes();
            while peer.next().is_some() {}
            let expected = f64::from(u8::try_from(nth).expect("few")) + 1.0;
            waits_for_count(&gateway, HTTP2, "reason=\"truncated\"", expected);
        }
        let mut complete = Peer::client(gateway.address());
        complete.sends(&head);
        complete.next_of(HEAD);
        complete.finishes();
        while complete.next().is_some() {}
        assert!(count(&gateway, HTTP2, "reason=\"truncated\"") < 3.5);
    }

    fn datagrams_beyond_the_session_limit(driver) {
        let peer = udp_peer(|question| vec![question.to_vec()]);
        let gateway = gateway(driver)
            .listener_with("udp", "protocol: UDP")
            .backend("peer", &[peer.address()])
            .rule_of("udp", "{backendRefs: [{@peer}]}")
            .inspected()
            .open_files(FILES)
            .start();
        let is_full = || count(&gateway, DATAGRAMS, "reason=\"sessions_full\"") > 0.0;
        let mut clients = Vec::new();
        loop {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            socket.connect(gateway.address_of(1)).expect("a route to the peer");
            socket.set_read_timeout(Some(MOMENT)).expect("above zero");
            socket.send(b"?").expect("sent");
            // The response, or an error that there will be none.
            let deadline = Instant::now() + TIMEOUT;
            let mut served = socket.recv(&mut [0]).is_ok();
            while !served && !is_full() {
                assert!(Instant::now() < deadline, "no answer, and no reason");
                served = socket.recv(&mut [0]).is_ok();
            }
            if !served {
                break;
            }
            clients.push(socket);
            assert!(clients.len() < FILES, "sessions have no bound");
        }
        // The first clients are still served.
        for socket in &clients {
            socket.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            socket.send(b"!").expect("sent");
            assert!(socket.recv(&mut [0]).is_ok());
        }
    }
}

const VALID_ONLY: &str = "tls: {frontend: {default: {validation: {mode: AllowValidOnly, \
    caCertificateRefs: [{group: \"\", kind: ConfigMap, name: clients}]}}}}";

/// A scene with a listener for the name in [`OLD_HELLO`].
fn scene_with_example_listener(driver: Driver) -> Scene {
    Scene::with(driver, |builder, ca| {
        let pair = ca.server(&["a.example.com"]);
        builder.https("example", Some("a.example.com"), &[&pair])
    })
}

/// Expects that a ClientHello is answered by an alert.
#[track_caller]
fn is_answered_by_an_alert(scene: &Scene, hello: &[u8]) {
    let mut peer = client(scene.gateway.https_address());
    assert_eq!(peer.sends(hello).reads_bytes(7)[0], ALERT);
}

/// The kind of a record (RFC 8446 section 5.1).
const ALERT: u8 = 21;

const HEADER: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\n";

/// Descriptors of a gateway; each session takes one.
const FILES: usize = 300;

/// A gateway whose first listener requires a PROXY protocol header.
fn gateway_with_proxy_protocol(driver: Driver, origin: &Origin, policy: &str) -> Gateway {
    gateway(driver)
        .routes_to(origin)
        .policy(&format!("proxyProtocol: {{{policy}}}"))
        .limits("handshakeTimeout: 3s")
        .inspected()
        .start()
}

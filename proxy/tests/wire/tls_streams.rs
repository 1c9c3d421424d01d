//! Data flows through the gateway with TLS on both sides as without: both directions at the same
//! time, tunnels and their ends, slow readers, handshakes in pieces, PROXY protocol before them,
//! drains.

use crate::support::pki::{Authority, authority};
use crate::support::{
    ByteCounter, Client, ClientCertificates, Driver, Gateway, GatewayBuilder, MAX_IN_FLIGHT,
    MOMENT, Message, Origin, Reply, Signal, gateway, ok, on_both_drivers, pattern, raw, same_bytes,
    tls, tls_origin,
};

/// A gateway between a client and an origin that speak TLS.
struct Scene {
    gateway: Gateway,
    origin: Origin,
    ca: Authority,
}

impl Scene {
    fn with(driver: Driver, more: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> Self {
        let ca = authority("ca");
        let origin = tls_origin(&ca.server(&["b.test"]), ClientCertificates::Nobody);
        let builder = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .authority("ca", &ca)
            .backend("origin", &[origin.address()])
            .backend_tls(
                "origin",
                "hostname: b.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]",
            )
            .rule_of("web", "{backendRefs: [{@origin}]}");
        Self {
            gateway: more(builder).start(),
            origin,
            ca,
        }
    }

    fn new(driver: Driver) -> Self {
        Self::with(driver, |builder| builder)
    }

    fn client(&self) -> Client {
        self.gateway.tls_client(&tls(&self.ca, "a.test"))
    }
}

const ASK: &str =
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const FAR_MORE: usize = 256 << 20;

on_both_drivers! {
    fn a_response_starts_while_the_request_is_still_being_sent(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once()
            .reads(5)
            .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
            .reads(5)
            .sends("3\r\nbye\r\n0\r\n\r\n"));
        let mut client = scene.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
        assert_eq!(client.reads_head().status(), 200);
        assert_eq!(client.reads_bytes(7), b"2\r\nhi\r\n");
        client.sends("later");
        assert_eq!(client.reads_bytes(13), b"3\r\nbye\r\n0\r\n\r\n");
    }

    fn both_directions_of_a_tunnel_are_used_at_once(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once().sends(SWITCH).echoes());
        let mut client = scene.client();
        client.sends(ASK).reads_head();
        let sent = pattern(400_000);
        for piece in sent.chunks(50_000) {
            client.sends(piece);
            same_bytes(&client.reads_bytes(piece.len()), piece);
        }
    }

    fn either_side_may_close_the_tunnel_cleanly(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once().sends(SWITCH).echoes().closes());
        let mut client = scene.client();
        client.sends(ASK).reads_head();
        client.sends("last words").finishes();
        assert_eq!(client.reads_bytes(10), b"last words");
        client.expects_close();
        scene.origin.waits_for_hangup();

        scene.origin.now_replies(Reply::at_once().sends(SWITCH).sends("bye").closes());
        let mut client = scene.client();
        client.sends(ASK).reads_head();
        assert_eq!(client.reads_bytes(3), b"bye");
        client.expects_close();
    }

    fn a_truncated_tunnel_does_not_look_complete(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once().sends(SWITCH).sends("by").cuts());
        let mut client = scene.client();
        client.sends(ASK).reads_head();
        assert_eq!(client.reads_bytes(2), b"by");
        assert_ne!(client.expects_end(), crate::support::ConnectionEnd::Closed);
    }

    fn a_slow_reader_bounds_what_is_read_from_the_origin(driver) {
        let scene = Scene::new(driver);
        let sent = ByteCounter::default();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FAR_MORE}\r\n\r\n");
        scene.origin.now_replies(Reply::at_once().reads_the_body().sends(head).pours(FAR_MORE, &sent));
        let before = scene.gateway.anonymous_bytes();
        let mut client = scene.client();
        client.gets("/").reads_head();
        let in_flight = sent.settled(MOMENT);
        assert!(in_flight < MAX_IN_FLIGHT, "{in_flight} bytes were taken for a client that reads none");
        let grown = scene.gateway.anonymous_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes of memory for one slow reader");
    }

    fn a_request_on_a_closed_pooled_connection_is_retried(driver) {
        let scene = Scene::new(driver);
        scene.origin.next_replies([ok("first").closes()]);
        let mut client = scene.client();
        assert_eq!(client.gets("/").expects(200).text(), "first");
        scene.origin.waits_for_hangup();
        assert_eq!(client.gets("/").expects(200).text(), "ok");
    }

    fn trailers_and_interim_responses_are_forwarded(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(raw("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n"));
        let mut client = scene.client();
        client.gets("/");
        assert_eq!(client.reads_head().status(), 103);
        let answer: Message = client.expects(200);
        assert_eq!(answer.trailers, [("X-Sum".to_owned(), "1".to_owned())]);
    }

    fn keys_are_updated_in_the_middle_of_a_stream(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once().sends(SWITCH).echoes());
        let mut client = scene.client();
        client.sends(ASK).reads_head();
        for _ in 0..3 {
            client.changes_keys();
            assert_eq!(client.sends("hello").reads_bytes(5), b"hello");
        }
    }

    fn a_handshake_may_arrive_byte_by_byte(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.handshakes_byte_by_byte();
        client.gets("/").expects(200);
    }

    fn a_proxy_header_comes_before_the_handshake(driver) {
        let scene = Scene::with(driver, |builder| builder.policy("proxyProtocol: {in: Required}"));
        let mut client = scene.client();
        client.sends_raw(b"PROXY TCP4 203.0.113.7 192.0.2.1 50000 443\r\n");
        client.gets("/").expects(200);
        let request = scene.origin.only_request();
        assert_eq!(request.value("x-forwarded-for"), Some("203.0.113.7"));
        assert_eq!(request.value("x-forwarded-proto"), Some("https"));
        scene.client().is_refused();
    }

    fn a_drain_sends_close_notify_to_idle_connections(driver) {
        let mut scene = Scene::with(driver, |builder| {
            builder.argument("--drain-accept=100ms").argument("--drain-deadline=5s")
        });
        let mut client = scene.client();
        client.gets("/").expects(200);
        scene.gateway.signal(Signal::Term);
        client.expects_close();
        assert_eq!(scene.gateway.waits_for_exit().code(), Some(0));
    }
}

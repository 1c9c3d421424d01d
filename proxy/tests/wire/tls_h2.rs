//! HTTP/2 over TLS, negotiated by ALPN: from clients, to backends, and both.

use crate::support::frames::{PREFACE, SETTINGS, frame, get};
use crate::support::pki::{Authority, authority};
use crate::support::{
    Client, Driver, Gateway, Origin, client, gateway, into_h2, into_tls, ok, on_both_drivers,
    origin, out_of_h2, out_of_tls, pattern, same_bytes, tls,
};

/// A gateway with listeners for `a.test` and `b.test`, in front of an origin with HTTP/2 over TLS.
struct Scene {
    gateway: Gateway,
    origin: Origin,
    ca: Authority,
}

impl Scene {
    fn new(driver: Driver) -> Self {
        let (ca, origin) = (authority("ca"), origin());
        let sealed = out_of_tls(
            out_of_h2(origin.address()),
            &ca.server(&["backend.test"]),
            &["h2"],
        );
        let trust = "caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
        let gateway = gateway(driver)
            .https("first", Some("a.test"), &[&ca.server(&["a.test"])])
            .https("second", Some("b.test"), &[&ca.server(&["b.test"])])
            .authority("ca", &ca)
            .backend("origin", &[sealed])
            .speaks("origin", "H2C")
            .backend_tls("origin", &format!("hostname: backend.test, {trust}"))
            .rule_of("first", "{backendRefs: [{@origin}]}")
            .rule_of("second", "{backendRefs: [{@origin}]}")
            .start();
        Self {
            gateway,
            origin,
            ca,
        }
    }

    /// A client behind a bridge that speaks HTTP/2 over TLS to the gateway.
    fn client(&self) -> Client {
        let tls = tls(&self.ca, "a.test").offers(&["h2"]);
        client(into_h2(into_tls(self.gateway.https_address(), &tls)))
    }

    /// An HTTP/1 client over TLS.
    fn old_client(&self) -> Client {
        self.gateway
            .tls_client(&tls(&self.ca, "a.test").offers(&["http/1.1"]))
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

on_both_drivers! {
    fn requests_are_forwarded_with_http_2_on_both_sides(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        for _ in 0..3 {
            assert_eq!(client.sends(GET).expects(200).text(), "ok");
        }
        let request = scene.origin.requests().remove(0);
        assert_eq!(request.value("x-forwarded-proto"), Some("https"));
    }

    fn http_1_requests_are_forwarded_over_http_2(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.old_client();
        client.sends(GET).expects(200);
        assert_eq!(client.tls().alpn_protocol(), Some(&b"http/1.1"[..]));
    }

    fn http_2_is_preferred_to_http_1(driver) {
        let scene = Scene::new(driver);
        let both = tls(&scene.ca, "a.test").offers(&["http/1.1", "h2"]);
        let mut client = scene.gateway.tls_client(&both);
        client.completes_handshake();
        assert_eq!(client.tls().alpn_protocol(), Some(&b"h2"[..]));
    }

    fn http_1_is_rejected_if_http_2_was_negotiated(driver) {
        let scene = Scene::new(driver);
        let h2 = tls(&scene.ca, "a.test").offers(&["h2"]);
        let mut client = scene.gateway.tls_client(&h2);
        let answer = client.sends(GET).reply_to("GET");
        assert!(answer.is_err(), "{answer:?}");
        assert!(scene.origin.requests().is_empty());
    }

    fn http_2_is_rejected_if_http_1_was_negotiated(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.old_client();
        client.sends(PREFACE).sends(frame(SETTINGS, 0, 0, b"")).sends(get(1));
        assert!(client.reads().status() >= 400);
        client.expects_end();
        assert!(scene.origin.requests().is_empty());
    }

    fn bodies_are_forwarded_both_ways(driver) {
        let scene = Scene::new(driver);
        let body = pattern(300_000);
        scene.origin.now_replies(ok(&body));
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut client = scene.client();
        let answer = client.sends(head).sends(&body).expects(200);
        same_bytes(&answer.body, &body);
        same_bytes(&scene.origin.only_request().body, &body);
    }

    fn a_host_of_another_listener_is_misdirected(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.sends("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n").expects(421);
        client.sends(GET).expects(200);
    }
}

//! TLS from clients: termination, which listener and certificate a name gets, both versions,
//! resumption, and invalid handshakes and records.

use super::metrics;
use crate::support::pki::{Authority, Credential, authority, subject};
use crate::support::{
    Broken, Client, ConnectionEnd, Driver, Gateway, GatewayBuilder, Origin, Reply, Tls, gateway,
    ok, on_both_drivers, origin, pattern, same_bytes, tls,
};

/// Sends a GET for a path of a host.
fn asks<'c>(client: &'c mut Client, host: &str, path: &str) -> &'c mut Client {
    client.sends(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

/// A gateway with one HTTPS listener for every name, and a certificate for `a.test`.
struct Scene {
    gateway: Gateway,
    origin: Origin,
    ca: Authority,
    pair: Credential,
}

impl Scene {
    fn with(driver: Driver, more: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> Self {
        let (origin, ca) = (origin(), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let builder = gateway(driver)
            .https("web", None, &[&pair])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}");
        let gateway = more(builder).start();
        Self {
            gateway,
            origin,
            ca,
            pair,
        }
    }

    fn new(driver: Driver) -> Self {
        Self::with(driver, |builder| builder)
    }

    fn tls(&self) -> Tls {
        tls(&self.ca, "a.test")
    }

    fn client(&self) -> Client {
        self.gateway.tls_client(&self.tls())
    }
}

on_both_drivers! {
    fn a_request_is_served_over_tls(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        for path in ["/1", "/2"] {
            assert_eq!(client.gets(path).expects(200).text(), "ok");
        }
        assert!(client.received_certificate(&scene.pair));
        let request = scene.origin.requests().remove(0);
        assert_eq!(request.value("x-forwarded-proto"), Some("https"));
        assert_eq!(scene.origin.connections(), 1, "upstream connections are kept as ever");
    }

    fn bodies_of_every_size_are_forwarded_both_ways(driver) {
        let scene = Scene::new(driver);
        for size in [1, 16_383, 16_384, 16_385, 65_536, 1_000_000] {
            let body = pattern(size);
            scene.origin.now_replies(ok(&body));
            let answer = scene.client().posts("/", &body).expects(200);
            same_bytes(&answer.body, &body);
            let (mut requests, _) = scene.origin.take();
            same_bytes(&requests.remove(0).body, &body);
        }
    }

    fn pipelined_requests_in_one_record_are_all_answered(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5));
        for _ in 0..5 {
            client.expects(200);
        }
    }

    fn tls_1_2_and_tls_1_3_are_supported(driver) {
        let scene = Scene::new(driver);
        let mut new = scene.client();
        new.gets("/").expects(200);
        assert_eq!(new.tls().protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
        let mut old = scene.gateway.tls_client(&scene.tls().of_old(&scene.ca));
        old.gets("/").expects(200);
        assert_eq!(old.tls().protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    }

    fn alpn_negotiates_http_1_and_rejects_unknown_protocols(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.gateway.tls_client(&scene.tls().offers(&["http/1.1"]));
        client.gets("/").expects(200);
        assert_eq!(client.tls().alpn_protocol(), Some(&b"http/1.1"[..]));
        let mut stranger = scene.gateway.tls_client(&scene.tls().offers(&["spdy/1"]));
        assert!(matches!(stranger.is_refused(), Broken::Tls(_)));
    }

    fn a_closed_connection_sends_close_notify(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expects(200);
        client.expects_close();
        let mut client = scene.client();
        client.gets("/").expects(200);
        client.finishes().expects_close();
    }

    fn an_idle_connection_is_closed_with_close_notify(driver) {
        let scene = Scene::with(driver, |gateway| gateway.limits("keepAliveTimeout: 1s"));
        let mut client = scene.client();
        client.gets("/").expects(200);
        client.expects_close();
    }

    fn an_unfinished_head_gets_a_response(driver) {
        let scene = Scene::with(driver, |gateway| gateway.limits("headTimeout: 300ms"));
        let mut client = scene.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n").expects(408);
        client.expects_close();
    }

    fn a_parked_connection_is_served_again(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.gets("/").expects(200);
        // Longer than buffers are kept.
        std::thread::park_timeout(std::time::Duration::from_millis(1500));
        client.gets("/").expects(200);
    }

    fn a_truncated_first_response_does_not_look_complete(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").closes());
        let mut client = scene.client();
        client.gets("/").expects_broken_response();
    }

    fn a_close_delimited_response_ends_with_close_notify(driver) {
        let scene = Scene::new(driver);
        scene.origin.now_replies(Reply::at_once().sends("HTTP/1.1 200 OK\r\n\r\nall").closes());
        let mut client = scene.client();
        let answer = client.sends("GET / HTTP/1.0\r\nHost: a\r\n\r\n").expects(200);
        assert_eq!(answer.text(), "all");
        assert_eq!(client.expects_end(), ConnectionEnd::Closed);
    }

    fn a_truncated_body_is_never_completed(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").cuts();
        scene.origin.waits_for_hangup();
        assert!(scene.origin.requests().iter().all(|request| !request.complete));
    }

    fn a_clients_close_notify_cancels_its_request(driver) {
        let scene = Scene::with(driver, |gateway| gateway.limits("responseHeadTimeout: 1h"));
        scene.origin.now_replies(Reply::at_once().reads_the_body().stalls());
        let mut client = scene.client();
        client.gets("/");
        scene.origin.waits_for_requests(1);
        client.finishes();
        drop(client);
        scene.origin.waits_for_hangup();
    }

    fn garbage_instead_of_a_record_closes_the_connection(driver) {
        let scene = Scene::new(driver);
        let mut client = scene.client();
        client.gets("/").expects(200);
        client.sends_raw(b"\x17\x03\x03\x00\x20garbage garbage garbage garbage!");
        assert!(matches!(client.reply_to("GET").map(drop).map_err(|cut| cut.broken),
            Err(Broken::Tls(_) | Broken::Reset | Broken::Truncated)));
        scene.client().gets("/").expects(200);
    }

    fn http_on_an_https_port_is_told_so(driver) {
        let scene = Scene::new(driver);
        for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST /long HTTP/1.1\r\nHost: a\r\n"] {
            let mut client = crate::support::client(scene.gateway.https_address());
            let response = client.sends(request).expects(400);
            assert_eq!(response.text(), "this port expects TLS: use an https:// URL.\n");
            assert!(response.says_close());
            client.expects_close();
        }
    }

    fn a_name_that_no_certificate_serves_is_refused_with_an_alert(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .https("web", Some("a.test"), &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .start();
        let refused = gateway.tls_client(&tls(&ca, "b.test")).is_refused();
        assert!(matches!(&refused, Broken::Tls(why) if why.contains("UnrecognisedName")), "{refused:?}");
        let mut client = gateway.tls_client(&tls(&ca, "a.test"));
        client.sends("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").expects(200);
    }

    fn bytes_that_are_not_tls_are_closed_without_an_alert(driver) {
        let scene = Scene::with(driver, |gateway| gateway.environment("RUST_LOG", "proxy=debug"));
        let mut client = crate::support::client(scene.gateway.https_address());
        client.sends(b"\x00\x01\x02\x03\x04\x05").expects_end();
        scene.gateway.waits_for_log("does not begin with a TLS handshake");
        let mut client = crate::support::client(scene.gateway.https_address());
        client.sends(b"\x16\x03\x01\x00\x04\x02\x00\x00\x00").expects_end();
        scene.gateway.waits_for_log("ClientHello is malformed");
    }

    fn an_unfinished_handshake_times_out(driver) {
        let scene = Scene::with(driver, |gateway| gateway.environment("RUST_LOG", "proxy=debug"));
        let mut client = crate::support::client(scene.gateway.https_address());
        client.sends(b"\x16\x03\x01\x02\x00\x01").expects_end();
        scene.gateway.waits_for_log("the TLS handshake timed out");
    }

    fn an_expired_certificate_is_served_and_reported(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let expired = ca.signs(&subject(&["a.test"]).expired());
        let gateway = gateway(driver)
            .inspected()
            .https("web", None, &[&expired])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .start();
        let refused = gateway.tls_client(&tls(&ca, "a.test")).is_refused();
        assert!(format!("{refused:?}").contains("expired"), "{refused:?}");
        gateway.waits_for_log("the certificate of Secret default/web-0 expired at 2002-01-01T00:00:00Z");
        let name = "gateway_certificate_expiry_timestamp_seconds";
        metrics::waits_for_count(&gateway, name, "/web", 1_009_843_200.0);
    }

    fn redirects_of_tls_requests_use_https(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{filters: [{type: RequestRedirect, requestRedirect: {port: 443, \
                path: {type: ReplaceFullPath, replaceFullPath: /there}}}]}")
            .start();
        let mut client = gateway.tls_client(&tls(&ca, "a.test"));
        let answer = asks(&mut client, "a.test", "/").expects(302);
        assert_eq!(answer.value("location"), Some("https://a.test/there"));
    }
}

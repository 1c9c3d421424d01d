//! The deadline of a gRPC call, which its client chooses, ends that call alone.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::metrics::waits_for_sum;
use super::unprocessed_calls::{listener, relays, wait_together};
use crate::support::pki::authority;
use crate::support::{
    Client, Driver, Gateway, Origin, Reply, gateway, ok, on_both_drivers, origin, out_of_h2,
    out_of_tls,
};

/// A call of gRPC with this `grpc-timeout`, and further fields.
fn call(timeout: &str, fields: &str) -> String {
    format!(
        "POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
         TE: trailers\r\ngrpc-timeout: {timeout}\r\n{fields}Content-Length: 4\r\n\r\ncall"
    )
}

/// Two endpoints, and a session at one of them, which one failure ejects.
struct Scene {
    gateway: Gateway,
    origins: [Origin; 2],
    /// The number of the session's endpoint, and its token.
    own: usize,
    token: String,
}

impl Scene {
    /// The fields are the rule's.
    fn start(driver: Driver, fields: &str) -> Self {
        let origins = [origin().replies(ok("0")), origin().replies(ok("1"))];
        let gateway = gateway(driver)
            .backend("both", &[origins[0].address(), origins[1].address()])
            .rule(&format!(
                "{{{fields}sessionPersistence: {{sessionName: X-Who, type: Header}}, \
                 backendRefs: [{{@both}}]}}"
            ))
            .policy("ejection: {consecutiveFailures: 1}")
            .start();
        let first = gateway.client().gets("/").expects(200);
        let token = first.value("x-who").expect("a token").to_owned();
        let own = first.text().parse().expect("a number");
        Self {
            gateway,
            origins,
            own,
            token,
        }
    }

    fn origin(&self) -> &Origin {
        &self.origins[self.own]
    }

    fn client(&self) -> Client {
        self.gateway.client()
    }

    /// A call of the session.
    fn call(&self, timeout: &str) -> String {
        call(timeout, &format!("X-Who: {}\r\n", self.token))
    }

    /// A request of the session.
    fn get(&self) -> String {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX-Who: {}\r\n\r\n", self.token)
    }

    /// The endpoint that serves the session.
    fn served_by(&self) -> usize {
        let response = self.client().sends(self.get()).expects(200);
        response.text().parse().expect("a number")
    }

    /// A call of the session ends at this deadline.
    #[track_caller]
    fn is_given_up(&self, timeout: &str) {
        let response = self.client().sends(self.call(timeout)).expects(200);
        assert_eq!(response.value("grpc-status"), Some("4"));
    }

    #[track_caller]
    fn expects_no_ejection(&self) {
        self.origin().now_replies(ok(self.own.to_string()));
        assert_eq!(self.served_by(), self.own, "it is not ejected");
    }
}

on_both_drivers! {
    fn requests_that_wait_for_the_connection_of_a_call_outlive_its_deadline(driver) {
        let (ca, origin) = (authority("ca"), origin().replies(ok("served")));
        let sealed = out_of_tls(out_of_h2(origin.address()), &ca.server(&["a.test"]), &["h2"]);
        let (listener, address) = listener();
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .backend_tls("origin", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .inspected()
            .start();
        let (mut hurried, mut patient) = (gateway.client(), gateway.client());
        hurried.sends(call("1500m", ""));
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        patient.gets("/");
        wait_together(&gateway, &listener, (2, "connecting"));
        relays(listener, sealed, &Arc::default());
        assert_eq!(patient.expects(200).text(), "served");
        let failed = hurried.expects(200).value("grpc-status").map(str::to_owned);
        assert!(matches!(failed.as_deref(), Some("4" | "14")), "{failed:?}");
    }

    fn a_stream_that_ends_at_a_deadline_does_not_eject_its_endpoint(driver) {
        for (rule, timeout) in [("", "300m"), ("timeouts: {request: 300ms}, ", "1H")] {
            let scene = Scene::start(driver, rule);
            let stream = Reply::at_once().reads_the_body().sends(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n",
            );
            scene.origin().now_replies(stream.stalls());
            scene.client().sends(scene.call(timeout)).expects_broken_response();
            scene.expects_no_ejection();
        }
    }

    /// As of a stream whose response begins with its first event. Responses take milliseconds on average.
    fn a_deadline_that_the_client_chooses_does_not_eject_the_endpoint(driver) {
        for rule in ["", "timeouts: {request: 1h, backendRequest: 30m}, "] {
            let scene = Scene::start(driver, rule);
            scene.origin().now_replies(Reply::at_once().stalls());
            for timeout in ["200m", "1S", "200m"] {
                scene.is_given_up(timeout);
            }
            scene.expects_no_ejection();
        }
    }

    fn deadlines_between_answers_do_not_eject_the_endpoint(driver) {
        let scene = Scene::start(driver, "timeouts: {request: 2s}, ");
        for _ in 0..3 {
            scene.origin().now_replies(Reply::at_once().stalls());
            scene.is_given_up("600m");
            scene.is_given_up("600m");
            scene.expects_no_ejection();
        }
    }

    fn an_endpoint_that_hangs_is_ejected_although_deadlines_are_shorter_than_the_timeout(driver) {
        let scene = Scene::start(driver, "timeouts: {request: 2s}, ");
        scene.origin().now_replies(Reply::at_once().stalls());
        for _ in 0..4 {
            scene.is_given_up("600m");
        }
        scene.origin().now_replies(ok(scene.own.to_string()));
        assert_ne!(scene.served_by(), scene.own, "it is ejected");
    }

    fn requests_that_wait_for_a_connection_outlive_the_shorter_connect_timeout_of_another_route(driver) {
        let (ca, origin) = (authority("ca"), origin().replies(ok("served")));
        let sealed = out_of_tls(out_of_h2(origin.address()), &ca.server(&["a.test"]), &["h2"]);
        let (listener, address) = listener();
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .backend_tls("origin", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .policy_of("HTTPRoute/route-0/short", "limits: {connectTimeout: 1s}")
            .policy_of("HTTPRoute/route-0/long", "limits: {connectTimeout: 5s}")
            .rule("{name: short, matches: [{path: {value: /short}}], retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .rule("{name: long, retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .inspected()
            .start();
        let (mut short, mut long) = (gateway.client(), gateway.client());
        short.gets("/short");
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        long.gets("/");
        wait_together(&gateway, &listener, (2, "connecting"));
        relays(listener, sealed, &Arc::default());
        assert_eq!(long.expects(200).text(), "served");
        short.expects(503);
    }

    fn deadlines_shorter_than_that_of_the_connecting_call_are_no_failures_of_the_endpoint(driver) {
        let (ca, (listener, address)) = (authority("ca"), listener());
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .backend_tls("origin", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .policy_of("Backend/origin", "limits: {connectTimeout: 20s}")
            .rule("{timeouts: {request: 20s}, retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .inspected()
            .start();
        let mut first = gateway.client();
        first.sends(call("3S", ""));
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        // The deadlines of the others come after that of the first one.
        std::thread::sleep(Duration::from_secs(1));
        let mut others: Vec<_> = (0..5).map(|_| gateway.client()).collect();
        for other in &mut others {
            other.sends(call("2500m", ""));
        }
        wait_together(&gateway, &listener, (6, "connecting"));
        for client in others.iter_mut().chain([&mut first]) {
            let status = client.expects(200).value("grpc-status").map(str::to_owned);
            assert!(matches!(status.as_deref(), Some("4" | "14")), "{status:?}");
        }
        waits_for_sum(&gateway, "gateway_endpoint_health", &[], 1.0);
    }

    /// A waiting request that tried again would have little time left, and so would each after it.
    fn requests_fail_together_when_their_connection_times_out(driver) {
        let (ca, (listener, address)) = (authority("ca"), listener());
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .backend_tls("origin", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .policy_of("Backend/origin", "limits: {connectTimeout: 3s}")
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .inspected()
            .start();
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.gets("/");
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        // It has this much more time left than the first one.
        std::thread::sleep(Duration::from_millis(500));
        second.gets("/");
        wait_together(&gateway, &listener, (2, "connecting"));
        first.expects(503);
        second.expects(503);
        let again = listener.accept().map(|_| ());
        assert_eq!(again.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    }
}

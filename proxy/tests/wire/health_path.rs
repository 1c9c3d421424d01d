//! The path at which a proxy tells load balancers whether it takes requests.

use std::time::Instant;

use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, Peer, block, frame};
use crate::support::{
    Driver, GatewayBuilder, Origin, Signal, TIMEOUT, gateway, on_both_drivers, origin,
};

const HEALTH: &str = "healthPath: /healthz";

fn checked(driver: Driver, origin: &Origin) -> GatewayBuilder {
    gateway(driver)
        .routes_to(origin)
        .policy_of("Gateway/gw", HEALTH)
}

on_both_drivers! {
    fn the_proxy_answers_whatever_the_host_and_the_query(driver) {
        let origin = origin();
        let gateway = checked(driver, &origin).start();
        let mut client = gateway.client();
        for target in ["/healthz", "/healthz?from=lb", "/./healthz"] {
            client.sends(format!("GET {target} HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n\r\n"));
            let answer = client.reads();
            assert_eq!((answer.status(), answer.text().as_str()), (200, "ok\n"), "{target}");
        }
        client.sends("HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.reads_reply_to("HEAD").status(), 200);
        let mut old = gateway.client();
        assert_eq!(old.sends("GET /healthz HTTP/1.0\r\n\r\n").reads().status(), 200);
        let mut peer = Peer::client(gateway.address());
        let fields = [
            (":method", "GET"), (":scheme", "http"), (":path", "/healthz"), (":authority", "b.test"),
        ];
        peer.sends(frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&fields)));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        assert!(origin.requests().is_empty(), "{:?}", origin.requests());

        // Everything else is a request of the routes.
        client.gets("/healthz/").expects(200);
        client.sends("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").expects(200);
        assert_eq!(origin.requests().len(), 2);
    }

    fn it_says_503_as_soon_as_the_proxy_drains(driver) {
        let origin = origin();
        let mut gateway = checked(driver, &origin)
            .argument("--drain-accept=30s").argument("--drain-deadline=30s").start();
        let mut client = gateway.client();
        client.gets("/healthz").expects(200);
        gateway.signal(Signal::Term);
        gateway.waits_for_log("draining; ");
        // The shard is told at the same time.
        let deadline = Instant::now() + TIMEOUT;
        let answer = loop {
            let mut client = gateway.client();
            let answer = client.sends("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").reads();
            if answer.status() != 200 {
                break answer;
            }
            assert!(Instant::now() < deadline, "still {answer}");
        };
        assert_eq!((answer.status(), answer.text().as_str()), (503, "draining\n"));
        // Requests are served until load balancers have reacted.
        gateway.client().gets("/").expects(200);
    }

    fn nothing_else_of_the_configuration_applies_to_it(driver) {
        let origin = origin();
        let refusing = "networks: {allow: [192.0.2.0/24]}\n  \
             authorization: {allow: [{when: \"false\"}]}\n  precedence: Overrides";
        let gateway = checked(driver, &origin).policy_of("Gateway/gw", refusing).start();
        let mut client = gateway.client();
        client.gets("/healthz").expects(200);
        client.gets("/").expects(403);
        assert!(origin.requests().is_empty());
    }

    fn a_path_that_no_request_can_have_costs_no_other_field(driver) {
        let origin = origin();
        let policy = "healthPath: /a/../healthz\n  networks: {allow: [192.0.2.0/24]}";
        let gateway = gateway(driver).routes_to(&origin).policy_of("Gateway/gw", policy).start();
        gateway.client().gets("/healthz").expects(403);
        gateway.waits_for_log("spec.healthPath");
    }
}

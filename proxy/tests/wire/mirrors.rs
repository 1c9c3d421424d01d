//! Mirrors: several of one request, and reused connections.

use crate::support::{
    Driver, Gateway, Origin, Reply, chunked, gateway, ok, on_both_drivers, origin, pattern, raw,
    same_bytes,
};

const MIRROR: &str = "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}], backendRefs: [{@main}]}";

fn gateway_with_mirror(driver: Driver, main: &Origin, copy: &Origin) -> Gateway {
    gateway(driver)
        .backend("main", &[main.address()])
        .backend("copy", &[copy.address()])
        .rule(MIRROR)
        .start()
}

on_both_drivers! {
    fn every_mirror_of_a_rule_gets_a_copy(driver) {
        let (main, first, second) = (origin(), origin(), origin());
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("first", &[first.address()])
            .backend("second", &[second.address()])
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@first}}}, \
                 {type: RequestMirror, requestMirror: {backendRef: {@second}}}], backendRefs: [{@main}]}",
            )
            .start();
        let body = pattern(20_000);
        gateway.client().posts("/path", &body).expects(200);
        for copy in [&first, &second] {
            copy.waits_for_complete(1);
            same_bytes(&copy.only_request().body, &body);
        }
        assert_eq!(main.only_request().target(), "/path");
    }

    fn a_mirrors_connection_is_reused(driver) {
        for answer in [ok("whatever"), chunked(&["what", "ever"]), ok(pattern(200_000))] {
            let (main, copy) = (origin(), origin().replies(answer));
            let gateway = gateway_with_mirror(driver, &main, &copy);
            for round in 1..=8 {
                gateway.client().gets("/").expects(200);
                let requests = copy.waits_for_requests(round);
                assert!(!requests[round - 1].says_close());
            }
            // A request still in flight when the next mirror began is no failure.
            assert!(copy.connections() < 8, "{} connections", copy.connections());
        }
    }

    fn a_mirrored_request_in_flight_counts_as_load_of_its_endpoint(driver) {
        let (main, quick) = (origin(), origin());
        let stuck = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("copy", &[quick.address(), stuck.address()])
            .rule(MIRROR)
            .start();
        let mut client = gateway.client();
        for _ in 0..60 {
            client.gets("/").expects(200);
        }
        // Half of them would go to each endpoint if unanswered requests did not count as load.
        quick.waits_for_requests(45);
    }

    fn a_mirrors_connection_close_is_honoured(driver) {
        for answer in [
            raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),
            Reply::at_once().sends("garbage\r\n\r\n"),
            Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more than that"),
        ] {
            let (main, copy) = (origin(), origin().replies(answer));
            let gateway = gateway_with_mirror(driver, &main, &copy);
            for round in 1..=3 {
                gateway.client().gets("/").expects(200);
                copy.waits_for_requests(round);
            }
            assert_eq!(copy.connections(), 3);
            copy.waits_for_hangup();
        }
    }

    #[cfg(feature = "test-hooks")]
    fn a_mirror_uses_the_configuration_of_its_request(driver) {
        // In the new configuration the index of `copy` belongs to another backend, or to none.
        for others in [&["another"][..], &[]] {
            let (main, copy, other) = (origin(), origin(), origin());
            let base = gateway(driver)
                .backend("main", &[main.address()])
                .environment("GATEWAY_TEST_CHANGE_PATH", "/waits");
            let before = base.clone().backend("copy", &[copy.address()]).rule(MIRROR);
            let before = before.backend("bystander", &[origin().address()]);
            let mut after = base.rule("{backendRefs: [{@main}]}");
            for name in others {
                after = after.backend(name, &[other.address()]);
                after = after.backend("bystander", &[other.address()]);
                after = after.backend("copy", &[other.address()]);
            }
            let gateway = before.start();
            let mut client = gateway.client();
            client.sends("GET /waits HTTP/1.1\r\nHost: a\r\nAuthorization: hush\r\n\r\n");
            gateway.waits_for_log("waiting for a change");
            gateway.reconfigure(&after);
            client.expects(200);
            copy.waits_for_requests(1);
            assert_eq!(copy.only_request().value("authorization"), Some("hush"));
            assert_eq!(main.only_request().target(), "/waits");
            assert_eq!(other.requests().len(), 0, "only this mirror gets the copy");
            // The shard is still running.
            client.gets("/").expects(200);
        }
    }
}

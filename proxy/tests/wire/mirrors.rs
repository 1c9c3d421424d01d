//! Mirrors: several of one request, and connections that are used again.

use crate::support::{
    Driver, Gateway, Origin, Reply, chunked, gateway, ok, on_both_drivers, origin, pattern, raw,
    same_bytes,
};

const MIRROR: &str = "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}], backendRefs: [{@main}]}";

fn mirroring(driver: Driver, main: &Origin, copy: &Origin) -> Gateway {
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

    fn a_mirror_s_connection_is_used_again(driver) {
        for answer in [ok("whatever"), chunked(&["what", "ever"]), ok(pattern(200_000))] {
            let (main, copy) = (origin(), origin().replies(answer));
            let gateway = mirroring(driver, &main, &copy);
            for round in 1..=8 {
                gateway.client().gets("/").expects(200);
                let requests = copy.waits_for_requests(round);
                assert!(!requests[round - 1].says_close());
            }
            // One that was under way when the next mirror began is no fault.
            assert!(copy.connections() < 8, "{} connections", copy.connections());
        }
    }

    fn a_mirror_s_connection_ends_where_its_answer_says_so(driver) {
        for answer in [
            raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),
            Reply::at_once().sends("garbage\r\n\r\n"),
            Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more than that"),
        ] {
            let (main, copy) = (origin(), origin().replies(answer));
            let gateway = mirroring(driver, &main, &copy);
            for round in 1..=3 {
                gateway.client().gets("/").expects(200);
                copy.waits_for_requests(round);
            }
            assert_eq!(copy.connections(), 3);
            copy.waits_for_hangup();
        }
    }
}

//! Which failures are retried, how often, and where.

use crate::support::{
    Gate, Message, Origin, Reply, on_every_pair, origin, pattern, refused, status,
};

const RETRY: &str = "{retry: {attempts: 2, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}";

/// Number of requests for a path.
fn attempts_of(origin: &Origin, path: &str) -> usize {
    let requests = origin.requests();
    let targets = requests.iter().map(Message::target);
    targets.filter(|target| *target == path).count()
}

on_every_pair! {
    fn a_refused_connection_is_tried_at_another_endpoint(pair) {
        let origin = origin();
        let (_socket, nobody) = refused();
        let both = [nobody, pair.before(origin.address())];
        let gateway = pair.backend_at(pair.gateway(), "both", &both)
            .rule("{backendRefs: [{@both}]}")
            .start();
        let mut client = pair.client(&gateway);
        for _ in 0..8 {
            client.posts("/", "once").expects(200);
        }
        assert_eq!(origin.requests().len(), 8);
    }

    fn only_listed_statuses_are_retried_and_the_last_one_is_returned(pair) {
        let origin = origin()
            .replies_to("/500", status(500))
            .replies_to("/503", status(503))
            .replies_to("/large", status(503));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(RETRY)
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/500").expects(500);
        assert_eq!(attempts_of(&origin, "/500"), 1);
        client.gets("/503").expects(503);
        assert_eq!(attempts_of(&origin, "/503"), 3);
        // Too large to keep.
        client.posts("/large", pattern(1 << 20)).expects(503);
        assert_eq!(attempts_of(&origin, "/large"), 1);
    }

    fn a_retried_post_without_content_states_its_length(pair) {
        let origin = origin().replies_once(status(503));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(RETRY)
            .start();
        pair.client(&gateway).sends("POST / HTTP/1.1\r\nHost: a.test\r\n\r\n").expects(200);
        let requests = origin.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.values("content-length") == ["0"]));
    }

    fn a_request_is_not_retried_once_the_response_has_begun(pair) {
        let cut = Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            .stalls();
        let origin = origin().replies(cut);
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(RETRY)
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        assert_eq!(client.reads_head().status(), 200);
        assert_eq!(client.reads_bytes(4), b"half");
        origin.stop();
        client.expects_end();
        assert_eq!(origin.requests().len(), 1);
    }

    fn requests_that_reached_an_origin_are_not_retried_by_default(pair) {
        let origin = origin().replies(Reply::at_once().reads_the_body().resets());
        let gateway = pair.gateway_to(&origin).start();
        pair.client(&gateway).posts("/", "once").expects(502);
        assert_eq!(origin.requests().len(), 1);
    }

    fn the_retry_budget_prevents_retry_storms(pair) {
        let gate = Gate::default();
        let fail = Reply::at_once()
            .waits_for(&gate)
            .sends("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        let origin = origin().replies(fail);
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{retry: {attempts: 1, codes: [503], backoff: 500ms}, backendRefs: [{@origin}]}")
            .policy("retryBudget: {percent: 20, floor: 2}")
            .policy("ejection: {consecutiveFailures: 1000}")
            .start();
        let mut clients: Vec<_> = (0..30).map(|_| pair.client(&gateway)).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(30);
        gate.open();
        for client in &mut clients {
            client.expects(503);
        }
        let retries = origin.requests().len() - 30;
        assert!(retries >= 2, "the floor allows two");
        assert!(retries <= 8, "{retries} retries of 30 requests in flight, 20 % are allowed");
    }

    fn a_retry_beyond_the_retry_rate_is_503(pair) {
        let origin = origin().replies(status(500));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{retry: {attempts: 1, codes: [500], backoff: 10ms}, backendRefs: [{@origin}]}")
            .backend_traffic("origin", "retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 2, interval: 1h}}")
            .policy("accessLog: {sample: 1}")
            .start();
        let mut client = pair.client(&gateway);
        for path in ["/1", "/2"] {
            client.gets(path).expects(500);
            assert_eq!(attempts_of(&origin, path), 2, "the least rate allows it");
        }
        for path in ["/3", "/4"] {
            client.gets(path).expects(503);
            assert_eq!(attempts_of(&origin, path), 1);
        }
        gateway.waits_for_access_log("reason=retries_over_budget");
        // Requests that are not retried are not affected.
        origin.now_replies(status(501));
        client.gets("/5").expects(501);
    }
}

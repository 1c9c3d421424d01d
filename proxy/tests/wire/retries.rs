//! Retries: which failures are retried, how often, and where.

use crate::support::{
    Gate, Reply, gateway, ok, on_both_drivers, origin, out_of_h2, pattern, refused, same_bytes,
    status,
};

on_both_drivers! {
    fn listed_statuses_are_retried(driver) {
        let origin = origin().replies_once(status(503)).replies_once(status(503));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 2, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().gets("/").expects(200);
        assert_eq!(origin.requests().len(), 3);
    }

    fn unlisted_statuses_are_not_retried(driver) {
        let origin = origin().replies_once(status(500));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 2, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().gets("/").expects(500);
        assert_eq!(origin.requests().len(), 1);
    }

    fn the_last_status_is_returned(driver) {
        let origin = origin().replies(status(503));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 3, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().gets("/").expects(503);
        assert_eq!(origin.requests().len(), 4, "attempts are extra tries");
    }

    fn zero_attempts_disable_even_retries_of_refused_connections(driver) {
        let origin = origin().replies(status(503));
        let (_socket, nobody) = refused();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .backend("nobody", &[nobody])
            .rule("{retry: {attempts: 0, codes: [503]}, backendRefs: [{@origin}]}")
            .rule("{retry: {attempts: 0}, matches: [{path: {value: /nobody}}], backendRefs: [{@nobody}]}")
            .policy_of("Gateway/gw", "accessLog: {sample: 1}")
            .start();
        gateway.client().gets("/").expects(503);
        gateway.client().gets("/nobody").expects(503);
        assert_eq!(origin.requests().len(), 1);
        let log = gateway.waits_for_access_log("path=/nobody");
        assert_eq!(log.matches(" retries=0").count(), 2, "{log}");
    }

    fn requests_that_reached_an_origin_are_not_retried_by_default(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().resets());
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().posts("/", "once").expects(502);
        assert_eq!(origin.requests().len(), 1);
    }

    fn resets_are_retried_if_configured(driver) {
        let origin = origin().replies_once(Reply::at_once().reads_the_body().resets());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 1, backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().gets("/").expects(200);
        assert_eq!(origin.requests().len(), 2);
    }

    fn a_refused_connection_is_tried_at_another_endpoint(driver) {
        let origin = origin();
        let (_socket, nobody) = refused();
        let gateway = gateway(driver)
            .backend("both", &[nobody, origin.address()])
            .rule("{backendRefs: [{@both}]}")
            .start();
        let mut client = gateway.client();
        for _ in 0..20 {
            client.gets("/").expects(200);
        }
        assert_eq!(origin.requests().len(), 20);
    }

    fn a_request_is_retried_at_endpoints_removed_from_the_configuration(driver) {
        let (first, other) = (origin(), origin().replies(ok("other")));
        let at = |address| {
            gateway(driver)
                .backend("app", &[address])
                .rule("{retry: {attempts: 1, codes: [503], backoff: 2s}, backendRefs: [{@app}]}")
        };
        for later in [at(other.address()), gateway(driver).routes_to(&other)] {
            first.next_replies([status(503), ok("first")]);
            let gateway = at(first.address()).start();
            let request_count = first.requests().len();
            let mut client = gateway.client();
            client.gets("/");
            first.waits_for_requests(request_count + 1);
            gateway.reconfigure(&later);
            gateway.waits_for_applied(2);
            for _ in 0..5 {
                assert_eq!(gateway.client().gets("/").expects(200).text(), "other");
            }
            assert_eq!(client.expects(200).text(), "first");
        }
    }

    fn a_retry_goes_to_another_endpoint_first(driver) {
        let bad = origin().replies(status(503));
        let good = origin();
        let gateway = gateway(driver)
            .backend("both", &[bad.address(), good.address()])
            .rule("{retry: {attempts: 1, codes: [503], backoff: 10ms}, backendRefs: [{@both}]}")
            .start();
        let mut client = gateway.client();
        for _ in 0..10 {
            client.gets("/").expects(200);
        }
        assert_eq!(good.requests().len(), 10);
    }

    fn exhausted_connection_errors_are_503(driver) {
        let (_socket, nobody) = refused();
        let gateway = gateway(driver)
            .backend("nobody", &[nobody])
            .rule("{retry: {attempts: 2, codes: [503], backoff: 10ms}, backendRefs: [{@nobody}]}")
            .start();
        gateway.client().gets("/").expects(503);
    }

    fn a_retried_body_is_sent_completely(driver) {
        let body = pattern(40_000);
        let origin = origin().replies_once(status(503)).replies_once(Reply::at_once().reads(100).resets());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 3, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().posts("/", &body).expects(200);
        let requests = origin.requests();
        assert_eq!(requests.len(), 3);
        same_bytes(&requests[0].body, &body);
        same_bytes(&requests[2].body, &body);
    }

    fn a_body_too_large_to_buffer_is_not_retried(driver) {
        let body = pattern(1 << 20);
        let origin = origin().replies(status(503));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 3, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().posts("/", &body).expects(503);
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_timed_out_attempt_is_retried_and_ends_in_504(driver) {
        let origin = origin().replies_once(Reply::at_once().stalls());
        let rule = "{retry: {attempts: 1, codes: [503], backoff: 10ms}, \
                    timeouts: {request: 9s, backendRequest: 2s}, backendRefs: [{@origin}]}";
        let gateway = gateway(driver).backend("origin", &[origin.address()]).rule(rule).start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        assert_eq!(origin.requests().len(), 2);

        origin.now_replies(Reply::at_once().stalls());
        client.gets("/").expects(504);
        assert_eq!(origin.waits_for_requests(4).len(), 4);
    }

    fn the_request_timeout_covers_all_attempts(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let rule = "{retry: {attempts: 100, backoff: 10ms}, \
                    timeouts: {request: 4s, backendRequest: 1s}, backendRefs: [{@origin}]}";
        let gateway = gateway(driver).backend("origin", &[origin.address()]).rule(rule).start();
        gateway.client().gets("/").expects(504);
        let tries = origin.waits_for_requests(2).len();
        assert!((2..=4).contains(&tries), "{tries} tries in four seconds");
    }

    fn a_request_is_not_retried_once_the_response_has_begun(driver) {
        let cut = Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            .resets();
        let origin = origin().replies(cut);
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 2, backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().gets("/").expects_broken_response();
        assert_eq!(origin.requests().len(), 1);
    }

    fn the_retry_budget_prevents_retry_storms(driver) {
        let gate = Gate::default();
        let fail = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        let origin = origin().replies(fail);
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 1, codes: [503], backoff: 500ms}, backendRefs: [{@origin}]}")
            .policy("retryBudget: {percent: 20, floor: 2}")
            .policy("ejection: {consecutiveFailures: 1000}")
            .start();
        let mut clients: Vec<_> = (0..30).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(30);
        gate.open();
        for client in &mut clients {
            client.expects(503);
        }
        let retries = origin.requests().len() - 30;
        assert!(retries <= 8, "{retries} retries of 30 requests in flight, 20 % are allowed");
    }

    fn failed_connections_beyond_the_retry_rate_are_503(driver) {
        let (_socket, nobody) = refused();
        let gateway = gateway(driver)
            .backend("nobody", &[nobody])
            .rule("{retry: {attempts: 1, backoff: 10ms}, backendRefs: [{@nobody}]}")
            .backend_traffic("nobody", "retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 1, interval: 1h}}")
            .policy("accessLog: {sample: 1}")
            .start();
        gateway.client().gets("/1").expects(503);
        let log = gateway.waits_for_access_log("path=/1");
        assert!(log.contains("retries=1 ") && log.contains("reason=connect_failed"), "{log}");
        gateway.client().gets("/2").expects(503);
        let log = gateway.waits_for_access_log("path=/2");
        assert!(log.contains("reason=retries_over_budget"), "{log}");
    }

    fn retries_are_limited_to_a_percentage_of_requests(driver) {
        let origin = origin().replies(status(503));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{retry: {attempts: 1, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /once}}], backendRefs: [{@origin}]}")
            .backend_traffic("origin", "retryConstraint: {budget: {percent: 20, interval: 1h}, minRetryRate: {count: 1, interval: 1h}}")
            .policy("ejection: {consecutiveFailures: 1000}")
            .start();
        let mut client = gateway.client();
        for _ in 0..40 {
            client.gets("/once").expects(503);
        }
        for _ in 0..40 {
            client.gets("/").expects(503);
        }
        // 80 of 100 are requests, and one more retry would exceed a fifth.
        assert_eq!(origin.requests().len(), 100);
    }

    fn a_stale_pooled_connection_is_replaced_transparently(driver) {
        let origin = origin().replies(ok("ok").closes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..50 {
            client.gets("/").expects(200);
        }
        assert_eq!(origin.requests().len(), 50, "none is sent twice");
    }

    fn a_request_on_a_reset_connection_is_retried_at_another_endpoint(driver) {
        // It serves one request of each connection, and resets the connection at the next one.
        let bad = origin().replies_to("/reset", Reply::at_once().reads_the_body().resets());
        let good = origin();
        let gateway = gateway(driver)
            .shards(1)
            .backend("both", &[bad.address(), good.address()])
            .rule("{backendRefs: [{@both}]}")
            .start();
        let mut client = gateway.client();
        let mut resets = 0;
        while resets < 5 {
            let before = bad.requests().len();
            client.gets("/").expects(200);
            // The next request uses the idle connection.
            if bad.requests().len() > before {
                client.gets("/reset").expects(200);
            }
            resets = bad.requests().iter().filter(|it| it.target() == "/reset").count();
        }
    }

    fn a_stream_reset_by_the_endpoint_is_not_retried(driver) {
        let origin = origin().replies_to("/reset", Reply::at_once().reads_the_body().resets());
        let gateway = gateway(driver)
            .backend("origin", &[out_of_h2(origin.address())])
            .speaks("origin", "H2C")
            .rule("{backendRefs: [{@origin}]}")
            .start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        client.gets("/reset").expects(502);
        client.gets("/").expects(200);
        assert_eq!(origin.requests().len(), 3);
    }
}

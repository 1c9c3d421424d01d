//! Every wait has a timeout, and `0s` disables it.

use std::time::{Duration, Instant};

use crate::support::{Gate, Reply, gateway, ok, on_both_drivers, origin};

on_both_drivers! {
    fn a_slow_request_head_times_out(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("headTimeout: 500ms").start();
        let mut client = gateway.client();
        let started = Instant::now();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
        // Single bytes do not extend an absolute deadline.
        while started.elapsed() < Duration::from_secs(1) {
            client.sends("x");
            std::thread::park_timeout(Duration::from_millis(50));
        }
        client.expects(408);
        client.expects_end();
        // The default would be ten.
        assert!(started.elapsed() < Duration::from_secs(8), "took {:?}", started.elapsed());
        assert!(origin.requests().is_empty());
    }

    fn a_request_times_out_on_a_stalled_backend(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{timeouts: {request: 300ms}, backendRefs: [{@origin}]}")
            .start();
        let mut client = gateway.client();
        let started = Instant::now();
        client.gets("/").expects(504);
        assert!(started.elapsed() >= Duration::from_millis(300));
        origin.waits_for_hangup();
        origin.now_replies(ok("ok"));
        client.gets("/").expects(200);
    }

    fn a_pause_of_the_origin_does_not_trigger_the_write_idle_timeout(driver) {
        let gate = Gate::default();
        let pausing = Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfore")
            .waits_for(&gate).sends("noon");
        let origin = origin().replies(pausing);
        let gateway = gateway(driver).routes_to(&origin).limits("writeIdleTimeout: 200ms").start();
        let mut client = gateway.client();
        client.gets("/");
        let head = client.reads_head();
        // Longer than the write idle timeout; but there are no bytes to write.
        std::thread::park_timeout(Duration::from_millis(600));
        gate.open();
        assert_eq!(client.reads_body_of(head).text(), "forenoon");
    }

    fn the_head_timeout_does_not_apply_to_the_body(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("headTimeout: 2s").start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-");
        std::thread::park_timeout(Duration::from_millis(50));
        client.sends("Length: 8\r\n\r\nfore");
        std::thread::park_timeout(Duration::from_millis(2_500));
        client.sends("noon").expects(200);
        assert_eq!(origin.only_request().text(), "forenoon");
    }

    fn an_attempt_times_out_after_the_backend_timeout(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{timeouts: {request: 30s, backendRequest: 300ms}, backendRefs: [{@origin}]}")
            .start();
        gateway.client().gets("/").expects(504);
        origin.waits_for_hangup();
    }

    fn a_timeout_of_zero_means_never(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let origin = origin().replies(slow);
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{timeouts: {request: 0s, backendRequest: 0s}, backendRefs: [{@origin}]}")
            .limits("responseHeadTimeout: 200ms")
            .start();
        let mut client = gateway.client();
        client.gets("/").expects_silence().expects_silence().expects_silence();
        gate.open();
        client.expects(200);
    }

    fn the_request_timeout_truncates_a_response_in_progress(driver) {
        let origin = origin().replies(
            Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").stalls(),
        );
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{timeouts: {request: 3s}, backendRefs: [{@origin}]}")
            .start();
        let cut = gateway.client().gets("/").expects_broken_response();
        assert_eq!(cut.status(), 200);
        origin.waits_for_hangup();
    }

    fn an_unresponsive_origin_exceeds_the_response_head_timeout(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver).routes_to(&origin).limits("responseHeadTimeout: 300ms").start();
        gateway.client().gets("/").expects(504);
    }

    fn a_stalled_request_body_is_408(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("bodyIdleTimeout: 300ms").start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").expects(408);
        client.expects_close();
        origin.waits_for_requests(1);
        origin.waits_for_hangup();
        assert!(!origin.only_request().complete);
    }

    fn a_stalled_response_is_truncated(driver) {
        let origin = origin().replies(
            Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").stalls(),
        );
        let gateway = gateway(driver).routes_to(&origin).limits("streamIdleTimeout: 300ms").start();
        gateway.client().gets("/").expects_broken_response();
    }

    fn a_client_that_does_not_read_is_disconnected(driver) {
        let sent = crate::support::ByteCounter::default();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
        let origin = origin().replies(Reply::at_once().sends(head).pours(1_000_000_000, &sent));
        let gateway = gateway(driver).routes_to(&origin).limits("writeIdleTimeout: 500ms").start();
        let mut client = gateway.client();
        client.gets("/").reads_head();
        origin.waits_for_hangup();
    }

    fn an_idle_tunnel_is_closed(driver) {
        let switch = "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
        let origin = origin().replies(Reply::at_once().sends(switch).echoes());
        let gateway = gateway(driver).routes_to(&origin).limits("streamIdleTimeout: 300ms").start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        assert_eq!(client.reads_head().status(), 101);
        client.expects_end();
    }
}

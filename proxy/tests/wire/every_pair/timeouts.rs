//! Every wait has a timeout, and `0s` disables it. Waits that can run concurrently share a gateway.

use std::time::{Duration, Instant};

use super::super::request_limits::unresponsive_address;
use crate::support::{ByteCounter, Gate, Reply, on_every_pair, origin, raw};

const HEAD_AND_HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";

on_every_pair! {
    fn waiting_for_an_origin_times_out(pair) {
        let half = Reply::at_once().sends(HEAD_AND_HALF).stalls();
        let origin = origin()
            .replies_to("/head", Reply::at_once().stalls())
            .replies_to("/idle", half.clone())
            .replies_to("/request", half);
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{name: head, matches: [{path: {value: /head}}], backendRefs: [{@origin}]}")
            .rule("{name: idle, matches: [{path: {value: /idle}}], backendRefs: [{@origin}]}")
            .rule(
                "{matches: [{path: {value: /request}}], timeouts: {request: 3s}, \
                 backendRefs: [{@origin}]}",
            )
            .policy_of("HTTPRoute/route-0/head", "limits: {responseHeadTimeout: 300ms}")
            .policy_of("HTTPRoute/route-0/idle", "limits: {streamIdleTimeout: 500ms}")
            .start();
        let [mut head, mut idle, mut request] = std::array::from_fn(|_| pair.client(&gateway));
        head.gets("/head");
        idle.gets("/idle");
        request.gets("/request");
        head.expects(504);
        assert_eq!(idle.expects_broken_response().status(), 200);
        assert_eq!(request.expects_broken_response().status(), 200);
        origin.waits_for_hangup();
    }

    fn connecting_to_an_unresponsive_origin_times_out(pair) {
        let (_socket, _queued, address) = unresponsive_address();
        let gateway = pair.backend_at(pair.gateway(), "origin", &[address])
            .rule("{backendRefs: [{@origin}]}")
            .limits("connectTimeout: 300ms")
            .start();
        let mut client = pair.client(&gateway);
        let started = Instant::now();
        client.gets("/").expects(503);
        assert!(started.elapsed() >= Duration::from_millis(300), "after {:?}", started.elapsed());
    }

    fn waiting_for_a_request_body_times_out(pair) {
        let origin = origin();
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{name: idle, matches: [{path: {value: /idle}}], backendRefs: [{@origin}]}")
            .rule("{name: rate, matches: [{path: {value: /rate}}], backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0/idle", "limits: {bodyIdleTimeout: 300ms}")
            .policy_of(
                "HTTPRoute/route-0/rate",
                "limits: {bodyIdleTimeout: 1500ms, bodyMinRate: 100000}",
            )
            .start();
        let [mut idle, mut slow] = std::array::from_fn(|_| pair.client(&gateway));
        idle.sends("POST /idle HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhalf");
        slow.sends("POST /rate HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n");
        let started = Instant::now();
        // Never idle for long, and always too slow; the rate is checked from the idle timeout on.
        while started.elapsed() < Duration::from_millis(2_500) {
            slow.sends("x");
            std::thread::park_timeout(Duration::from_millis(100));
        }
        slow.expects(408);
        assert!(started.elapsed() < Duration::from_millis(3_900), "it was the silence that ended it");
        idle.expects(408);
        origin.waits_for_requests(2);
        origin.waits_for_hangup();
        assert!(origin.requests().iter().all(|request| !request.complete));
    }

    fn a_client_that_does_not_read_is_disconnected(pair) {
        let sent = ByteCounter::default();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
        let origin = origin().replies(Reply::at_once().sends(head).pours(1_000_000_000, &sent));
        let gateway = pair.gateway_to(&origin).limits("writeIdleTimeout: 500ms").start();
        let mut client = pair.client(&gateway);
        client.gets("/").reads_head();
        origin.waits_for_hangup();
        assert!(sent.count() < 1_000_000_000);
    }

    fn a_timeout_of_zero_means_never(pair) {
        let gate = Gate::default();
        let slow = Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let origin = origin().replies(slow);
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{timeouts: {request: 0s, backendRequest: 0s}, backendRefs: [{@origin}]}")
            .limits("responseHeadTimeout: 100ms")
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/").expects_silence_for(Duration::from_millis(300));
        gate.open();
        client.expects(200);
    }

    fn a_pause_of_the_origin_does_not_trigger_the_write_idle_timeout(pair) {
        let gate = Gate::default();
        let origin = origin().replies(
            raw("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfore").waits_for(&gate).sends("noon"),
        );
        let gateway = pair.gateway_to(&origin).limits("writeIdleTimeout: 100ms").start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        let head = client.reads_head();
        // Longer than the write idle timeout; but there are no bytes to write.
        std::thread::park_timeout(Duration::from_millis(300));
        gate.open();
        assert_eq!(client.reads_body_of(head).text(), "forenoon");
    }
}

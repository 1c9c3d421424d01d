//! Connections stay open between requests, on both sides, and are closed when they should be.

use super::admin::json;
use crate::support::{Reply, TIMEOUT, gateway, ok, on_both_drivers, origin, raw};

on_both_drivers! {
    fn a_connection_serves_many_requests(driver) {
        let origin = origin().replies(ok("hello"));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..50 {
            let response = client.gets("/").expects(200);
            assert_eq!(response.text(), "hello");
            assert!(!response.says_close());
        }
        assert_eq!(origin.requests().len(), 50);
        assert_eq!(origin.connections(), 1, "the connection to the origin is used again");
    }

    fn connection_close_is_honoured(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(client.expects(200).says_close());
        client.expects_close();
        let request = origin.only_request();
        assert!(!request.says_close(), "the client's close is not the origin's");
    }

    fn http_1_0_closes_without_keep_alive(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.0\r\nHost: a\r\n\r\n").expects(200);
        client.expects_close();

        let mut client = gateway.client();
        for _ in 0..2 {
            client.sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
            let response = client.expects(200);
            assert_eq!(response.value("connection").map(str::to_lowercase).as_deref(), Some("keep-alive"));
        }
        assert!(origin.requests().iter().all(|request| request.version() == "HTTP/1.1"));
    }

    fn an_origins_close_does_not_affect_the_client(driver) {
        let origin = origin().replies(
            raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").closes(),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..5 {
            assert!(!client.gets("/").expects(200).says_close());
        }
        assert_eq!(origin.connections(), 5);
    }

    fn an_origin_that_closes_silently_is_not_used_again(driver) {
        let origin = origin().replies(ok("ok").closes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..20 {
            client.gets("/").expects(200);
            origin.waits_for_hangup();
        }
    }

    fn unsolicited_bytes_on_an_idle_upstream_are_never_a_response(driver) {
        let stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray";
        let origin = origin().replies(
            raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok{stray}")),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..5 {
            assert_eq!(client.gets("/").expects(200).text(), "ok");
        }
        assert_eq!(origin.connections(), 5, "a connection with stray bytes is dropped");
    }

    fn idle_connections_are_closed_after_the_keepalive_timeout(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("keepAliveTimeout: 1500ms").start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        client.expects_close();
    }

    fn a_connection_is_closed_at_its_request_limit(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestsPerConnection: 3").start();
        let mut client = gateway.client();
        assert!(!client.gets("/").expects(200).says_close());
        assert!(!client.gets("/").expects(200).says_close());
        assert!(client.gets("/").expects(200).says_close());
        client.expects_close();
    }

    fn a_connection_without_a_request_is_closed_silently(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().finishes().expects_close();
        gateway.client().sends("\r\n").finishes().expects_close();
        assert!(origin.requests().is_empty());
    }

    fn a_silently_closed_connection_is_not_reused(driver) {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let origin = origin().replies(Reply::at_once().reads_the_body().sends(answer).closes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..5 {
            // A POST must not be repeated.
            client.posts("/", "body").expects(200);
            origin.waits_for_hangup();
        }
        assert_eq!(origin.connections(), 5);
    }

    fn a_burst_of_idle_connections_does_not_hold_a_buffer_each(driver) {
        const CONNECTIONS: usize = 700;
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| gateway.client()).collect();
        let deadline = std::time::Instant::now() + TIMEOUT;
        loop {
            let tasks = json(&gateway, "/debug/tasks").to_string();
            let in_state = |state: &str| tasks.matches(&format!("\"state\":\"{state}\"")).count();
            let (idle, waiting) = (in_state("idle"), in_state("reading-head"));
            // All but the 256 most recently used connections are idle.
            if idle >= CONNECTIONS - 256 && waiting <= 256 {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{idle} idle, {waiting} waiting");
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        // All of them are still usable.
        for client in &mut clients {
            client.gets("/").expects(200);
        }
        assert_eq!(origin.requests().len(), CONNECTIONS);
    }
}

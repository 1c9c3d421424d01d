//! Pipelined requests are answered in order, one after the other.

use crate::support::{Gate, Reply, gateway, ok, on_both_drivers, origin};

on_both_drivers! {
    fn responses_are_sent_in_the_order_of_the_requests(driver) {
        let origin = origin().replies_to("/first", ok("1")).replies_to("/second", ok("2"));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/first").gets("/second").gets("/first");
        let bodies: Vec<String> = (0..3).map(|_| client.expects(200).text()).collect();
        assert_eq!(bodies, ["1", "2", "1"]);
    }

    fn a_pipelined_request_waits_for_the_previous_response(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().reads_the_body().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        let origin = origin().replies_to("/slow", slow);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/slow").gets("/quick").expects_silence();
        assert_eq!(origin.only_request().target(), "/slow");
        gate.open();
        assert_eq!(client.expects(200).text(), "slow");
        assert_eq!(client.expects(200).text(), "ok");
    }

    fn hundreds_of_pipelined_requests_are_all_served(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500));
        for _ in 0..500 {
            client.expects(200);
        }
        assert_eq!(origin.requests().len(), 500);
    }

    fn pipelined_requests_beyond_a_buffer_are_all_served(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        // 300 KiB of heads whose length divides no buffer size.
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Pad: {}\r\n\r\n", "p".repeat(577));
        client.sends(head.repeat(500));
        for _ in 0..500 {
            client.expects(200);
        }
        assert_eq!(origin.requests().len(), 500);
    }

    fn a_pipelining_client_does_not_starve_others(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut greedy = gateway.client();
        greedy.sends("GET /greedy HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000));
        let mut modest = gateway.client();
        modest.gets("/modest").expects(200);
        let before = origin.requests().iter().position(|r| r.target() == "/modest");
        assert!(before.is_some_and(|greedy_ones| greedy_ones < 900), "served after {before:?}");
    }
}

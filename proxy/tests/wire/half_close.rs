//! Clients that half-close early still get their responses.

use crate::support::{Gate, Reply, gateway, on_both_drivers, origin};

on_both_drivers! {
    fn a_half_closed_client_gets_its_response(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/").finishes().expects(200);
        client.expects_close();
    }

    fn a_half_closed_client_of_a_slow_origin_gets_a_complete_response_or_none(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().reads_the_body().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        let origin = origin().replies(slow);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.posts("/", "body").finishes();
        origin.waits_for_complete(1);
        gate.open();
        // A client that half-closes cannot be distinguished from one that disconnected (nginx logs
        // 499 for both): a complete response or a clean end, never a truncated response.
        match client.reply_to("POST") {
            Ok(answer) => assert_eq!(answer.text(), "slow"),
            Err(cut) => assert!(cut.by_peer() && cut.is_empty(), "{cut}"),
        }
    }

    fn pipelined_requests_before_the_end_are_all_answered(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/1").gets("/2").posts("/3", "body").finishes();
        for _ in 0..3 {
            client.expects(200);
        }
        client.expects_close();
        assert_eq!(origin.requests().len(), 3);
    }

    fn a_request_cut_short_is_never_completed_for_the_client(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").finishes();
        match client.reply_to("POST") {
            Ok(answer) => assert_eq!(answer.status(), 400),
            Err(cut) => assert!(cut.by_peer() && cut.is_empty(), "{cut}"),
        }
        origin.waits_for_hangup();
        assert!(origin.requests().iter().all(|request| !request.complete));
    }

    fn a_client_disconnect_ends_an_idle_stream(driver) {
        let origin = origin().replies(Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").stalls());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/").reads_head();
        drop(client);
        origin.waits_for_hangup();
    }

    fn a_client_disconnect_after_a_split_body_cancels_the_request(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let gateway = gateway(driver).routes_to(&origin).limits("responseHeadTimeout: 1h").start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha");
        origin.waits_for_requests(1);
        client.sends("lf");
        origin.waits_for_complete(1);
        drop(client);
        origin.waits_for_hangup();
    }
}

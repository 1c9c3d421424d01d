//! Both directions flow at the same time, and neither buffers more than its share.

use std::time::Duration;

use crate::support::{ByteCounter, MAX_IN_FLIGHT, MOMENT, Reply, gateway, on_both_drivers, origin};

const FAR_MORE: usize = 256 << 20;

on_both_drivers! {
    fn a_response_starts_while_the_request_is_still_being_sent(driver) {
        let origin = origin().replies(
            Reply::at_once()
                .reads(5)
                .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
                .reads(5)
                .sends("3\r\nbye\r\n0\r\n\r\n"),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
        assert_eq!(client.reads_head().status(), 200);
        assert_eq!(client.reads_bytes(7), b"2\r\nhi\r\n");
        client.sends("later");
        assert_eq!(client.reads_bytes(13), b"3\r\nbye\r\n0\r\n\r\n");
    }

    fn a_slow_reader_bounds_what_is_read_from_the_origin(driver) {
        let sent = ByteCounter::default();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FAR_MORE}\r\n\r\n");
        let origin = origin().replies(
            Reply::at_once().reads_the_body().sends(head).pours(FAR_MORE, &sent),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let before = gateway.anonymous_bytes();
        let mut client = gateway.client();
        client.gets("/").reads_head();
        let in_flight = sent.settled(MOMENT);
        assert!(in_flight < MAX_IN_FLIGHT, "{in_flight} bytes were taken for a client that reads none");
        let grown = gateway.anonymous_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes of memory for one slow reader");
    }

    fn a_slow_origin_bounds_what_is_read_from_the_client(driver) {
        let origin = origin().replies(Reply::at_once().waits_for(&crate::support::Gate::default()));
        let gateway = gateway(driver).routes_to(&origin).start();
        let before = gateway.anonymous_bytes();
        let mut client = gateway.client();
        client.sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {FAR_MORE}\r\n\r\n"));
        let sent = client.sends_until_full(FAR_MORE) as u64;
        assert!(sent < MAX_IN_FLIGHT, "{sent} bytes were taken for an origin that reads none");
        let grown = gateway.anonymous_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes of memory for one slow origin");
    }

    fn a_stuck_connection_does_not_block_other_clients(driver) {
        let sent = ByteCounter::default();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FAR_MORE}\r\n\r\n");
        let origin = origin().replies_to(
            "/stuck",
            Reply::at_once().sends(head).pours(FAR_MORE, &sent),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut stuck = gateway.client();
        stuck.gets("/stuck").reads_head();
        sent.settled(Duration::from_millis(50));
        let mut neighbour = gateway.client();
        for _ in 0..20 {
            neighbour.gets("/").expects(200);
        }
    }
}

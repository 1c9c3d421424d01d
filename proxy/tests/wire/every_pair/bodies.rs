//! Bodies of every size and none, and how much of them is buffered.

use std::time::Duration;

use crate::support::{
    ByteCounter, Gate, Reply, ok, on_every_pair, origin, pattern, raw, same_bytes,
};

/// More than all buffers between client and origin hold.
const FAR_MORE: usize = 256 << 20;

on_every_pair! {
    fn ten_mebibytes_are_forwarded_both_ways(pair) {
        let body = pattern(10 << 20);
        let origin = origin().replies(ok(&body));
        let gateway = pair.gateway_to(&origin).start();
        let response = pair.client(&gateway).posts("/", &body).expects(200);
        same_bytes(&response.body, &body);
        same_bytes(&origin.only_request().body, &body);
    }

    fn responses_with_bodiless_statuses_have_no_body(pair) {
        let origin = origin()
            .replies_to("/204", raw("HTTP/1.1 204 No\r\n\r\n"))
            .replies_to("/304", raw("HTTP/1.1 304 No\r\nContent-Length: 5\r\nETag: x\r\n\r\n"));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/204").expects(204);
        assert_eq!(client.gets("/304").expects(304).value("etag"), Some("x"));
        client.gets("/").expects(200);
    }

    fn a_client_that_expects_100_gets_it(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends(
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        );
        assert_eq!(client.reads_head().status(), 100);
        client.sends("body").expects(200);
        assert_eq!(origin.only_request().text(), "body");
    }

    fn a_slow_reader_bounds_what_is_read_from_the_origin(pair) {
        let sent = ByteCounter::default();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FAR_MORE}\r\n\r\n");
        let origin = origin().replies_to("/", Reply::at_once().sends(head).pours(FAR_MORE, &sent));
        let gateway = pair.gateway_to(&origin).start();
        let before = gateway.anonymous_bytes();
        let mut client = pair.client(&gateway);
        client.gets("/").reads_head();
        let sent = sent.settled(Duration::from_millis(50));
        assert!(sent < FAR_MORE as u64, "all was read for a client that reads none");
        let grown = gateway.anonymous_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes of memory for one slow client");
        pair.client(&gateway).gets("/neighbour").expects(200);
    }

    fn a_slow_origin_bounds_what_is_read_from_the_client(pair) {
        let origin = origin().replies_to("/", Reply::at_once().waits_for(&Gate::default()));
        let gateway = pair.gateway_to(&origin).start();
        let before = gateway.anonymous_bytes();
        let mut client = pair.client(&gateway);
        client.sends(format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {FAR_MORE}\r\n\r\n"
        ));
        let sent = client.sends_until_full(FAR_MORE);
        assert!(sent < FAR_MORE, "all was taken for an origin that reads none");
        let grown = gateway.anonymous_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes of memory for one slow origin");
        pair.client(&gateway).gets("/neighbour").expects(200);
    }
}

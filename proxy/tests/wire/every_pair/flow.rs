//! Bodies in both directions: data is forwarded as it arrives, and a disconnect of one side cancels
//! the other.

use crate::support::{Gate, Reply, ok, on_every_pair_and_mix, origin, pattern, raw, same_bytes};

on_every_pair_and_mix! {
    fn bodies_are_forwarded_both_ways(pair) {
        let body = pattern(300_000);
        let origin = origin().replies(ok(&body));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        for _ in 0..3 {
            let response = client.posts("/up", &body).expects(200);
            same_bytes(&response.body, &body);
        }
        for request in origin.requests() {
            assert_eq!((request.method(), request.target()), ("POST", "/up"));
            same_bytes(&request.body, &body);
        }
    }

    fn a_body_of_unknown_length_is_forwarded_with_its_trailers(pair) {
        let reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                     5\r\nhello\r\n0\r\nx-sum: 7\r\ncontent-type: not/here\r\n\r\n";
        let origin = origin().replies(raw(reply));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        let response = client
            .sends("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n")
            .sends("3\r\nabc\r\n3\r\ndef\r\n0\r\nx-check: 1\r\nhost: b.test\r\n\r\n")
            .expects(200);
        assert_eq!(response.text(), "hello");
        assert_eq!(response.trailers, [("x-sum".to_owned(), "7".to_owned())]);
        let request = origin.requests().remove(0);
        assert_eq!(request.text(), "abcdef");
        assert_eq!(request.trailers, [("x-check".to_owned(), "1".to_owned())]);
    }

    fn trailers_that_look_like_reserved_fields_are_dropped(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).start();
        pair.client(&gateway)
            .sends("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
            .sends("x_forwarded_for: 192.0.2.1\r\nx-real_ip: 192.0.2.1\r\ncontent_length: 9\r\nx_check: 1\r\n\r\n")
            .expects(200);
        let request = origin.only_request();
        assert_eq!(request.text(), "abc");
        assert_eq!(request.trailers, [("x_check".to_owned(), "1".to_owned())]);
    }

    fn chunks_are_forwarded_as_they_arrive(pair) {
        let gates = [Gate::default(), Gate::default()];
        let origin = origin().replies(
            Reply::at_once()
                .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
                .waits_for(&gates[0])
                .sends("2\r\nbc\r\n")
                .waits_for(&gates[1])
                .sends("3\r\ndef\r\n0\r\n\r\n"),
        );
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/").reads_head();
        assert_eq!(client.reads_bytes(6), b"1\r\na\r\n");
        gates[0].open();
        assert_eq!(client.reads_bytes(7), b"2\r\nbc\r\n");
        gates[1].open();
        assert_eq!(client.reads_bytes(13), b"3\r\ndef\r\n0\r\n\r\n");
    }

    fn a_truncated_response_does_not_look_complete(pair) {
        let origin = origin().replies(
            raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort").resets(),
        );
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        match client.reply_to("GET") {
            Ok(whole) => assert_eq!(whole.status(), 502, "{whole}"),
            Err(cut) => assert!(cut.by_peer(), "{cut}"),
        }
    }

    fn request_and_response_are_forwarded_at_the_same_time(pair) {
        let origin = origin().replies(
            Reply::at_once()
                .reads(5)
                .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
                .reads(5)
                .sends("3\r\nbye\r\n0\r\n\r\n"),
        );
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nfirst");
        assert_eq!(client.reads_head().status(), 200);
        assert_eq!(client.reads_bytes(7), b"2\r\nhi\r\n");
        client.sends("later");
        assert_eq!(client.reads_bytes(13), b"3\r\nbye\r\n0\r\n\r\n");
    }

    fn an_early_response_does_not_wait_for_the_body(pair) {
        let refuse = "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno";
        let origin = origin().replies(Reply::at_once().sends(refuse).stalls());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\nsome");
        assert_eq!(client.expects(413).text(), "no");
        client.resets();
        origin.waits_for_hangup();
    }

    fn a_close_delimited_body_is_forwarded(pair) {
        let origin = origin().replies(raw("HTTP/1.1 200 OK\r\n\r\nto the end").closes());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            assert_eq!(client.gets("/").expects(200).text(), "to the end");
        }
    }

    fn a_client_disconnect_during_the_request_body_cancels_the_upstream_request(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhalf");
        origin.waits_for_requests(1);
        client.resets();
        origin.waits_for_hangup();
        assert!(!origin.only_request().complete);
    }
}

//! A response before the end of the request's body: it arrives, and no part of the body is ever
//! parsed as a request.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, WINDOW_UPDATE, block, frame, get,
    request,
};
use crate::support::pki::authority;
use crate::support::{Reply, gateway, on_both_drivers, origin, pattern, tls};

const REFUSE: &str = "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno";

on_both_drivers! {
    fn an_early_response_arrives_before_the_body_is_sent(driver) {
        let origin = origin().replies(Reply::at_once().sends(REFUSE).stalls());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome");
        assert_eq!(client.expects(413).text(), "no");
    }

    fn a_short_remaining_body_is_drained_or_the_connection_closes(driver) {
        let origin = origin().replies_once(Reply::at_once().sends(REFUSE).reads_the_body());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 46\r\n\r\n");
        let closes = client.expects(413).says_close();
        client.sends("GET /smuggled HTTP/1.1\r\nHost: example.test\r\n\r\n");
        if closes {
            client.expects_end();
        } else {
            client.gets("/next").expects(200);
        }
        let targets: Vec<String> = origin.requests().iter().map(|r| r.target().to_owned()).collect();
        assert!(!targets.contains(&"/smuggled".to_owned()), "{targets:?}");
    }

    fn a_long_remaining_body_closes_the_connection(driver) {
        let origin = origin().replies_once(Reply::at_once().sends(REFUSE).closes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n");
        client.expects(413);
        client.sends(pattern(2_000_000)).gets("/smuggled");
        client.expects_end();
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_connection_with_an_unfinished_request_is_never_pooled(driver) {
        let origin = origin().replies_to("/early", Reply::at_once().sends(REFUSE).stalls());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").expects(413);
        let mut other = gateway.client();
        other.gets("/next").expects(200);
        let requests = origin.waits_for_requests(2);
        assert_ne!(requests[0].connection, requests[1].connection);
    }

    /// Python's `http.client`, Java and PHP write the whole request before they read.
    fn a_client_that_writes_before_it_reads_gets_its_early_response(driver) {
        let origin = origin().replies_to("/conflict", Reply::at_once()
            .sends("HTTP/1.1 409 No\r\nContent-Length: 2\r\n\r\nno").closes());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {value: /conflict}}], backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /limited}}], backendRefs: [{@origin}], name: limited}")
            .policy_of("HTTPRoute/route-0/limited", "limits: {requestBodyBytes: 1000}")
            .start();
        let body = pattern(10_000_000);
        for (path, status) in [("/conflict", 409), ("/limited", 413), ("/none", 404)] {
            let mut client = gateway.client();
            client.posts(path, &body).expects(status);
            client.expects_close();
            // Without a length, it is the body that exceeds the limit.
            let mut client = gateway.client();
            client.sends(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
            client.sends(format!("{:x}\r\n", body.len())).sends(&body).sends("\r\n0\r\n\r\n");
            client.expects(status);
            client.expects_close();
        }
    }

    fn a_client_that_writes_before_it_reads_gets_its_early_response_over_tls(driver) {
        let ca = authority("ca");
        let origin = origin();
        let gateway = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{matches: [{path: {value: /limited}}], backendRefs: [{@origin}], name: limited}")
            .policy_of("HTTPRoute/route-0/limited", "limits: {requestBodyBytes: 1000}")
            .start();
        let body = pattern(10_000_000);
        for (path, status) in [("/limited", 413), ("/none", 404)] {
            let mut client = gateway.tls_client(&tls(&ca, "a.test").offers(&["http/1.1"]));
            client.posts(path, &body).expects(status);
            client.expects_close();
        }
    }

    /// It takes longer than a second, for which all connections once lingered.
    fn a_slow_upload_goes_on_after_its_early_response(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 1000").start();
        let mut client = gateway.client();
        let piece = pattern(100_000);
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1500000\r\n\r\n");
        for _ in 0..15 {
            // The pace of a client at 1 MB/s.
            std::thread::park_timeout(Duration::from_millis(100));
            client.sends(&piece);
        }
        client.expects(413);
        client.expects_close();
    }

    fn a_connection_that_goes_on_silently_after_an_early_response_is_closed(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 1000").start();
        let open_before = gateway.open_files();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1500000\r\n\r\nsome").expects(413);
        client.expects_close();
        gateway.waits_for_open_files_at_most(open_before);
    }

    /// RFC 9113 section 8.1, once the client has sent nothing for a while.
    fn the_rest_of_a_request_in_http_2_is_refused_without_an_error(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 1000").start();
        let mut peer = Peer::client(gateway.address());
        let mut fields = request("POST");
        fields.push(("content-length", "1500000"));
        peer.sends(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
        assert_eq!(peer.next_of(HEADERS).status(), Some(413));
        let reset = peer.next_of(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (1, Some(0)));
        peer.sends(get(3));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
    }

    fn a_connection_gets_any_number_of_early_responses_in_http_2(driver) {
        const REQUESTS: u32 = 600;
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 1000").start();
        let mut peer = Peer::client(gateway.address());
        let mut fields = request("POST");
        fields.push(("content-length", "2000"));
        for nth in 0..REQUESTS {
            let stream = nth * 2 + 1;
            peer.sends(frame(HEADERS, END_HEADERS, stream, &block(&fields)));
            assert_eq!(peer.next_of(HEADERS).stream, stream);
            peer.sends(frame(DATA, END_STREAM, stream, &[b'x'; 2000]));
        }
    }

    /// The resets are the gateway's own: they are no sign of an attack.
    fn hundreds_of_rests_in_http_2_are_refused_without_an_error(driver) {
        const STREAMS: u32 = 90;
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 1000");
        let gateway = gateway.start();
        let mut fields = request("POST");
        fields.push(("content-length", "1500000"));
        let mut peer = Peer::client(gateway.address());
        for batch in 0..4 {
            let streams: BTreeSet<u32> = (0..STREAMS).map(|nth| (batch * STREAMS + nth) * 2 + 1).collect();
            for stream in &streams {
                peer.sends(frame(HEADERS, END_HEADERS, *stream, &block(&fields)));
            }
            let mut reset = BTreeSet::new();
            while reset.len() < streams.len() {
                let frame = peer.next_of(RST_STREAM);
                assert_eq!(frame.code(), Some(0));
                reset.insert(frame.stream);
            }
            assert_eq!(reset, streams);
        }
        peer.sends(get(4 * STREAMS * 2 + 1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
    }

    /// The client of Java 17 and curl before 8 lose a response that a reset follows at once.
    fn a_client_of_http_2_that_writes_before_it_reads_gets_its_early_response(driver) {
        const PIECE: usize = 16_000;
        const PIECES: usize = 30;
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 1000").start();
        let mut peer = Peer::client(gateway.address());
        let mut fields = request("POST");
        let length = (PIECE * PIECES).to_string();
        fields.push(("content-length", &length));
        peer.sends(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
        assert_eq!(peer.next_of(HEADERS).status(), Some(413));
        // Of the stream: the connection has room for all.
        let mut window = 65_535;
        for piece in 1..=PIECES {
            while window < PIECE {
                let update = peer.next().expect("the connection goes on");
                assert_ne!(update.kind, RST_STREAM);
                if update.kind == WINDOW_UPDATE && update.stream == 1 {
                    let bytes = update.payload.first_chunk().expect("an increment");
                    window += usize::try_from(u32::from_be_bytes(*bytes)).expect("31 bits");
                }
            }
            window -= PIECE;
            let flags = if piece == PIECES { END_STREAM } else { 0 };
            peer.sends(frame(DATA, flags, 1, &[b'x'; PIECE]));
        }
        peer.sends(get(3));
        let next = std::iter::from_fn(|| peer.next()).find(|it| [HEADERS, RST_STREAM].contains(&it.kind));
        assert_eq!(next.map(|it| (it.kind, it.stream)), Some((HEADERS, 3)));
    }

    fn a_local_error_response_does_not_wait_for_the_body(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {type: Exact, value: /known}}], backendRefs: [{@origin}]}")
            .start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome").expects(404);
        assert!(origin.requests().is_empty());
    }
}

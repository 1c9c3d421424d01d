//! A response before the end of the request's body: it arrives, and no part of the body is ever
//! parsed as a request.

use crate::support::{Reply, gateway, on_both_drivers, origin, pattern};

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

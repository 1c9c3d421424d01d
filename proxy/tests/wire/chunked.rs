//! Chunked bodies are streamed both ways, piece by piece, and re-framed.

use crate::support::{Framing, Gate, Reply, chunked, gateway, on_both_drivers, origin};

on_both_drivers! {
    fn a_chunk_is_forwarded_before_the_next_one_arrives(driver) {
        let gate = Gate::default();
        let origin = origin().replies(
            Reply::at_once()
                .reads_the_body()
                .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
                .waits_for(&gate)
                .sends("6\r\nsecond\r\n0\r\n\r\n"),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/");
        assert_eq!(client.reads_head().value("transfer-encoding"), Some("chunked"));
        assert_eq!(client.reads_bytes(10), b"5\r\nfirst\r\n");
        gate.open();
        assert_eq!(client.reads_bytes(16), b"6\r\nsecond\r\n0\r\n\r\n");
    }

    fn a_chunk_of_a_request_body_is_forwarded_before_the_next_one_arrives(driver) {
        let origin = origin().replies(
            Reply::at_once().reads(10).sends("HTTP/1.1 103 Early Hints\r\n\r\n").reads_the_body()
                .sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        origin.waits_for_requests(1);
        client.sends("6\r\nsecond\r\n0\r\n\r\n");
        let mut response = client.reads();
        if response.status() == 103 {
            response = client.reads();
        }
        assert_eq!(response.status(), 200);
    }

    fn many_small_chunks_arrive_complete(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for letter in ('a'..='z').cycle().take(2600) {
            client.sends(format!("1;x=y\r\n{letter}\r\n"));
        }
        client.sends("0\r\nX-Sum: 1\r\n\r\n").expects(200);
        let request = origin.only_request();
        assert_eq!(request.framing, Framing::Chunked);
        assert_eq!(request.text(), ('a'..='z').cycle().take(2600).collect::<String>());
        assert_eq!(request.trailers, [("X-Sum".to_owned(), "1".to_owned())]);
    }

    fn a_chunked_response_arrives_complete(driver) {
        let origin = origin().replies(chunked(&["one ", "two ", "three"]));
        let gateway = gateway(driver).routes_to(&origin).start();
        let response = gateway.client().gets("/").expects(200);
        assert_eq!(response.framing, Framing::Chunked);
        assert_eq!(response.text(), "one two three");
    }

    fn trailers_are_forwarded_in_both_directions(driver) {
        let origin = origin().replies(
            Reply::at_once().reads_the_body().sends(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Down: 2\r\n\r\n",
            ),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(
            "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\nX-Up: 1\r\n\r\n",
        );
        assert_eq!(client.expects(200).trailers, [("X-Down".to_owned(), "2".to_owned())]);
        assert_eq!(origin.only_request().trailers, [("X-Up".to_owned(), "1".to_owned())]);
    }

    fn an_http_1_0_client_gets_a_close_delimited_body(driver) {
        let origin = origin().replies(chunked(&["one ", "two"]));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        let response = client.expects(200);
        assert_eq!(response.framing, Framing::UntilClose);
        assert_eq!(response.text(), "one two");
    }
}

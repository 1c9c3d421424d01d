//! `Expect: 100-continue`: the client gets `100 Continue`, and its body arrives once.

use crate::support::{Reply, gateway, on_both_drivers, origin};

const HEAD: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";

on_both_drivers! {
    fn a_client_that_expects_100_gets_it(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(HEAD);
        assert_eq!(client.reads_head().status(), 100);
        client.sends("body").expects(200);
        assert_eq!(origin.only_request().text(), "body");
    }

    fn an_origins_100_is_not_duplicated(driver) {
        let origin = origin().replies(
            Reply::at_once()
                .sends("HTTP/1.1 100 Continue\r\n\r\n")
                .reads_the_body()
                .sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        );
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(HEAD);
        assert_eq!(client.reads_head().status(), 100);
        client.sends("body").expects(200);
        client.gets("/next");
        assert_ne!(client.reads_head().status(), 100, "a late 100 belongs to no request");
    }

    fn a_rejection_replaces_100_continue(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 3").start();
        let mut client = gateway.client();
        client.sends(HEAD).expects(413);
        client.expects_close();
        assert!(origin.requests().is_empty());
    }

    fn no_100_is_sent_without_a_route(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {type: Exact, value: /known}}], backendRefs: [{@origin}]}")
            .start();
        gateway.client().sends(HEAD).expects(404);
        assert!(origin.requests().is_empty());
    }
}

//! `Expect: 100-continue`: the client is told to go on, and its body arrives once.

use crate::support::{gateway, on_both_drivers, origin};

const HEAD: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";

on_both_drivers! {
    fn a_client_that_waits_is_told_to_go_on_once(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(HEAD);
        assert_eq!(client.reads_head().status(), 100);
        client.sends("body").expects(200);
        assert_eq!(origin.only_request().text(), "body");
    }

    fn a_refusal_comes_instead_of_100(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("requestBodyBytes: 3").start();
        let mut client = gateway.client();
        client.sends(HEAD).expects(413);
        client.expects_close();
        assert!(origin.requests().is_empty());
    }

    fn nobody_is_told_to_send_a_body_that_no_route_wants(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {type: Exact, value: /known}}], backendRefs: [{@origin}]}")
            .start();
        gateway.client().sends(HEAD).expects(404);
        assert!(origin.requests().is_empty());
    }
}

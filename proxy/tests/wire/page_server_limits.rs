//! Page servers that hang or are slow: neither the error that waits for a page, nor other requests, nor the server
//! itself suffer by that.

use std::time::Instant;

use super::page_servers::served;
use crate::support::{Reply, gateway, on_both_drivers, origin, status};

on_both_drivers! {
    /// The page would be cut off at the route's timeout.
    fn a_page_of_a_server_takes_no_longer_than_the_timeout_of_the_route(driver) {
        let app = origin().replies(status(502));
        let pages = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .backend("pages", &[pages.address()])
            .backend("origin", &[app.address()])
            .rule("{timeouts: {request: 200ms}, backendRefs: [{@origin}]}")
            .policy(&served("Any"))
            .start();
        let (mut client, begun) = (gateway.client(), Instant::now());
        assert_eq!(client.gets("/").expects(502).text(), "502 Bad Gateway\n");
        assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
        assert_eq!(pages.requests().len(), 1);
    }
}

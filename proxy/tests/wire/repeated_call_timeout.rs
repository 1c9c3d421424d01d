//! A call to an endpoint picker that is made once more has no more time for that.
//!
//! Deadlines skip most of that time on request, in a binary with the feature `test-hooks`.

#![cfg(feature = "test-hooks")]

use std::time::Duration;

use super::h2_liveness::{skip_time, skipping};
use super::inference::{ROUTE, pool_with};
use super::unprocessed_calls::listener;
use crate::support::frames::{DATA, GOAWAY, HEADERS, Peer, frame};
use crate::support::{Gateway, on_both_drivers, origin};

/// Time to skip, in seconds: more than half of the 10 s that a picker has.
const SKIPPED: &str = "6";
/// Less than what would remain of another 10 s.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Skips time, and waits until a client whose request is incomplete has noticed that.
fn skip(gateway: &Gateway) {
    let mut slow = gateway.client();
    slow.sends("GET /__skip/not HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n")
        .expects(302);
    skip_time(gateway);
    slow.expects(408);
}

on_both_drivers! {
    fn both_calls_of_a_picker_share_a_timeout(driver) {
        let ((listener, address), pod) = (listener(), origin());
        let h2c = "appProtocol: kubernetes.io/h2c";
        let pool = pool_with(driver, &[pod.address()], address, "FailClose", h2c);
        let gateway = skipping(pool)
            .environment("GATEWAY_TEST_SKIP_SECONDS", SKIPPED)
            .limits("headTimeout: 5s")
            .rule(ROUTE)
            .start();
        for (body, messages) in [("", 1), ("a body", 2)] {
            let mut client = gateway.client();
            client.posts("/", body);
            let mut former = Peer::server(&listener);
            former.next_of(HEADERS);
            // The timeout counts from the last one.
            for _ in 0..messages {
                former.next_of(DATA);
            }
            skip(&gateway);
            former.sends(frame(GOAWAY, 0, 0, &[0; 8]));
            let mut latter = Peer::server(&listener);
            latter.next_of(HEADERS);
            skip(&gateway);
            client.waits_at_most(AT_ONCE).expects(503);
        }
        assert!(pod.requests().is_empty());
    }
}

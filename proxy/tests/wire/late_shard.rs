//! A lagging shard rejects requests until it has caught up.
//!
//! The binary pretends to lag only when built with the feature `test-hooks` and started with
//! `GATEWAY_TEST_LATE_PATH`: `cargo test -p proxy --features test-hooks --test wire`.

#![cfg(feature = "test-hooks")]

use super::overload::until;
use crate::support::{gateway, on_both_drivers, origin, status};

on_both_drivers! {
    fn a_lagging_shard_rejects_requests_until_it_recovers(driver) {
        let origin = origin().replies(status(204));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .environment("GATEWAY_TEST_LATE_PATH", "/late")
            .start();
        let mut client = gateway.client();
        client.gets("/").expects(204);
        let refused = client.gets("/late").expects(503);
        assert_eq!(refused.value("retry-after"), Some("1"));
        assert!(refused.text().contains("overloaded"), "{refused}");
        // The lower overload steps are reached as well.
        assert!(refused.says_close());
        client.expects_close();
        assert_eq!(origin.requests().len(), 1);
        until(|| gateway.client().gets("/").reads(), |response| response.status() == 204);
    }
}

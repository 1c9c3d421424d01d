//! A shard that stands still is a finding: it is reported, and nobody waits for it.
//!
//! The binary stalls on request only when built with the feature `test-hooks` and started with
//! `GATEWAY_TEST_STALL_PATH`: `cargo test -p proxy --features test-hooks --test wire`.

#![cfg(feature = "test-hooks")]

use super::admin::{asks, json};
use crate::support::{gateway, on_both_drivers, origin};

on_both_drivers! {
    fn a_stuck_shard_is_reported_and_not_waited_for(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin)
            .environment("GATEWAY_TEST_STALL_PATH", "/stall").inspected().start();
        let mut stalled = gateway.client();
        // The shard stands still for two seconds from here on.
        stalled.gets("/stall");
        gateway.waits_for_log("stalled on purpose");
        let tasks = json(&gateway, "/debug/tasks");
        assert_eq!(tasks["shards"][0]["stuck"], true, "{tasks}");
        assert_eq!(asks(&gateway, "readiness", "GET", "/healthz/ready").status(), 200);
        json(&gateway, "/config_dump");
        stalled.expects(200);
        let tasks = json(&gateway, "/debug/tasks");
        assert!(tasks["shards"][0].get("stuck").is_none(), "{tasks}");
    }
}

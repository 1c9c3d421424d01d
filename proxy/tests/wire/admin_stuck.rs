//! A stuck shard is reported, and nothing waits for it.
//!
//! The binary stalls on request only when built with the feature `test-hooks` and started with
//! `GATEWAY_TEST_STALL_PATH`: `cargo test -p proxy --features test-hooks --test wire`.

#![cfg(feature = "test-hooks")]

use super::admin::{asks, json};
use super::admin_dump::with_rules;
use super::admin_trace::watches;
use crate::support::{Signal, gateway, on_both_drivers, origin};

on_both_drivers! {
    fn a_stuck_shard_is_reported_and_not_waited_for(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin)
            .environment("GATEWAY_TEST_STALL_PATH", "/stall").inspected().start();
        let mut stalled = gateway.client();
        // The shard is stuck for two seconds from here on.
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

    fn data_of_a_stuck_shard_is_marked_as_missing(driver) {
        let origin = origin();
        let gateway = gateway(driver).shards(2).routes_to(&origin)
            .environment("GATEWAY_TEST_STALL_PATH", "/stall")
            .environment("GATEWAY_TEST_STALL_SECONDS", "600").inspected().start();
        let dump = json(&gateway, "/config_dump");
        assert_eq!(dump["backends"][0]["endpoints"][0]["shards"], 2, "{dump}");
        gateway.client().gets("/stall");
        gateway.waits_for_log("stalled on purpose");
        let dump = json(&gateway, "/config_dump");
        assert_eq!(dump["backends"][0]["endpoints"][0]["shards"], 1, "{dump}");
        let shards = dump["runtime"]["shards"].as_array().expect("a list").iter();
        let stuck: Vec<_> = shards.filter(|it| it["stuck"] == true).map(|it| &it["id"]).collect();
        assert_eq!(stuck.len(), 1, "{dump}");
        let alone = json(&gateway, "/config_dump?type=runtime");
        let shards = alone["runtime"]["shards"].as_array().expect("a list").iter();
        assert_eq!(shards.filter(|it| it["stuck"] == true).count(), 1, "{alone}");
        let mut watcher = watches(&gateway, "");
        let comment = format!(": shard {} did not respond\n\n", stuck[0]);
        assert_eq!(watcher.reads_bytes(comment.len()), comment.as_bytes());
    }

    fn a_stuck_shard_does_not_prevent_exit(driver) {
        let origin = origin();
        // Longer than every timeout here.
        let mut gateway = gateway(driver).routes_to(&origin)
            .argument("--drain-accept=0s").argument("--drain-deadline=100ms")
            .environment("GATEWAY_TEST_STALL_PATH", "/stall")
            .environment("GATEWAY_TEST_STALL_SECONDS", "600").start();
        gateway.client().gets("/stall");
        gateway.waits_for_log("stalled on purpose");
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn a_scrape_of_many_routes_needs_no_shard(driver) {
        let origin = origin();
        let builder = gateway(driver).backend("origin", &[origin.address()]).rule("{backendRefs: [{@origin}]}");
        let gateway = with_rules(builder, 300)
            .environment("GATEWAY_TEST_STALL_PATH", "/stall").inspected().start();
        let mut stalled = gateway.client();
        stalled.gets("/stall");
        gateway.waits_for_log("stalled on purpose");
        let text = asks(&gateway, "metrics", "GET", "/metrics").text();
        let active = text.lines().filter(|line| line.starts_with("gateway_active_requests{"));
        assert_eq!(active.count(), 301);
        stalled.expects(200);
    }
}

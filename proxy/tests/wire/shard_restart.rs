//! A dead shard is restarted, and queued connections are accepted.
//!
//! The binary ends a shard on request only when built with the feature `test-hooks`.

#![cfg(feature = "test-hooks")]

use crate::support::{Driver, gateway, on_both_drivers, origin};

on_both_drivers! {
    fn a_dead_shard_loses_only_its_own_connections(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .environment("GATEWAY_TEST_DEATH_PATH", "/__death")
            .expecting_panics()
            .start();
        for round in 1..=2 {
            let mut persistent = gateway.client();
            persistent.gets("/").expects(200);
            persistent.gets("/__death");
            // It may have responded: its shard has ended, and its connection is closed.
            match persistent.reply_to("GET") {
                Ok(_) => drop(persistent.expects_end()),
                Err(cut) => assert!(cut.by_peer(), "{cut}"),
            }
            // Pending accepts of its ring may drop some connections (`limits::ACCEPT_LOOPS`).
            let lost = if driver == Driver::IoUring { 4 } else { 0 };
            let _lost: Vec<_> = (0..lost).map(|_| gateway.client()).collect();
            let mut waiting: Vec<_> = (0..20).map(|_| gateway.client()).collect();
            for client in &mut waiting {
                client.gets("/").expects(200);
            }
            gateway.waits_for_log_times("the shard ended and is restarted", round);
        }
    }
}

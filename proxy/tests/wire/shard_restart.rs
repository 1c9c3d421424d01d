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

    /// Its tasks are not dropped, and so give nothing back themselves.
    fn a_dead_shard_gives_back_the_connections_that_it_has_counted(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .shards(1)
            .routes_to(&origin)
            .limits("clientConnections: 12, endpointConnections: 1, connectTimeout: 5s")
            .environment("GATEWAY_TEST_DEATH_PATH", "/__death")
            .expecting_panics()
            .start();
        for round in 1..=3 {
            let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
            for client in &mut clients {
                client.gets("/").expects(200);
            }
            clients[0].gets("/__death");
            gateway.waits_for_log_times("the shard ended and is restarted", round);
            // Pending accepts of its ring may drop some connections (`limits::ACCEPT_LOOPS`).
            let lost = if driver == Driver::IoUring { 4 } else { 0 };
            let _lost: Vec<_> = (0..lost).map(|_| gateway.client()).collect();
        }
    }
}

//! A panic costs one connection; its neighbours on the shard never notice.
//!
//! The binary panics on request only when built with the feature `test-hooks` and started with
//! `GATEWAY_TEST_PANIC_PATH`: `cargo test -p proxy --features test-hooks --test wire`.

#![cfg(feature = "test-hooks")]

use crate::support::{Gate, Reply, gateway, on_both_drivers, origin};

on_both_drivers! {
    fn neighbours_of_a_panic_finish(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        let origin = origin().replies_to("/slow", slow);
        let gateway = gateway(driver)
            .routes_to(&origin)
            .environment("GATEWAY_TEST_PANIC_PATH", "/__panic")
            .expecting_panics()
            .start();
        let mut waiting = gateway.client();
        waiting.gets("/slow");
        origin.waits_for_requests(1);
        let mut kept = gateway.client();
        kept.gets("/").expects(200);

        for _ in 0..20 {
            let mut doomed = gateway.client();
            match doomed.gets("/__panic").reply_to("GET") {
                Ok(answer) => assert_eq!(answer.status(), 500),
                Err(cut) => assert!(cut.by_peer(), "{cut}"),
            }
        }
        gate.open();
        assert_eq!(waiting.expects(200).text(), "slow");
        kept.gets("/").expects(200);
        gateway.client().gets("/").expects(200);
        gateway.waits_for_log("panicked");
    }
}

//! A panic ends one connection; others of the shard are not affected.
//!
//! The binary panics on request only when built with the feature `test-hooks` and started with
//! `GATEWAY_TEST_PANIC_PATH`: `cargo test -p proxy --features test-hooks --test wire`.

#![cfg(feature = "test-hooks")]

use crate::support::frames::{
    END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, block, frame, get, request,
};
use crate::support::{Gate, Gateway, Reply, Signal, gateway, on_both_drivers, origin};

/// Sends a request that panics.
#[track_caller]
fn panics(gateway: &Gateway) {
    let mut doomed = gateway.client();
    match doomed.gets("/__panic").reply_to("GET") {
        Ok(answer) => assert_eq!(answer.status(), 500),
        Err(cut) => assert!(cut.by_peer(), "{cut}"),
    }
}

on_both_drivers! {
    fn a_panic_does_not_affect_other_requests(driver) {
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
        let mut persistent = gateway.client();
        persistent.gets("/").expects(200);

        for _ in 0..20 {
            panics(&gateway);
        }
        gate.open();
        assert_eq!(waiting.expects(200).text(), "slow");
        persistent.gets("/").expects(200);
        gateway.client().gets("/").expects(200);
    }

    fn streams_after_a_panic_are_served(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .environment("GATEWAY_TEST_PANIC_PATH", "/__panic")
            .expecting_panics()
            .start();
        let mut peer = Peer::client(gateway.address());
        for stream in (1..40).step_by(4) {
            let mut doomed = request("GET");
            for field in &mut doomed {
                if field.0 == ":path" {
                    field.1 = "/__panic";
                }
            }
            peer.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&doomed)));
            assert_eq!(peer.next_of(RST_STREAM).stream, stream);
            // In the task of the stream that panicked.
            peer.sends(get(stream + 2));
            let answer = peer.next_of(HEADERS);
            assert_eq!((answer.stream, answer.status()), (stream + 2, Some(200)));
        }
    }

    fn a_panic_is_logged_before_its_consequences(driver) {
        for (variable, has_backtrace) in [("0", false), ("1", true)] {
            let gateway = gateway(driver)
                .environment("GATEWAY_TEST_PANIC_PATH", "/__panic")
                .environment("RUST_BACKTRACE", variable)
                .expecting_panics()
                .start();
            panics(&gateway);
            gateway.waits_for_log("please report the message above");
            let log = gateway.log();
            let (_, panic) = log.split_once("ERROR proxy::panic: panicked at ").expect("a line of it");
            let (panic, came_of_it) = panic.split_once("ERROR proxy::panic: ").expect("another line of it");
            assert!(panic.contains("test_hooks.rs:"), "{log}");
            assert!(panic.contains(": a test asked for this panic thread=\"shard-0\""), "{log}");
            assert_eq!(panic.contains("panic_if_requested"), has_backtrace, "{log}");
            assert!(came_of_it.starts_with("a connection's task panicked"), "{log}");
        }
    }

    fn a_panic_does_not_wait_for_a_blocked_log(driver) {
        let origin = origin();
        let mut gateway = gateway(driver)
            .routes_to(&origin)
            .argument("--drain-accept=100ms")
            .environment("GATEWAY_TEST_PANIC_PATH", "/__panic")
            .expecting_panics()
            .start();
        let mut persistent = gateway.client();
        persistent.gets("/").expects(200);
        gateway.clogs_log();
        for _ in 0..3 {
            panics(&gateway);
            persistent.gets("/").expects(200);
            gateway.client().gets("/").expects(200);
        }
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0));
    }
}

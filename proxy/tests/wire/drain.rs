//! Drain: accepted requests are served, then the process exits with 0.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::unprocessed_calls::{listener, relay};
use crate::support::{
    Gate, GatewayBuilder, Origin, Reply, Signal, gateway, ok, on_both_drivers, origin, out_of_h2,
};

fn with_short_drain(builder: GatewayBuilder, origin: &Origin) -> GatewayBuilder {
    builder
        .routes_to(origin)
        .argument("--drain-accept=300ms")
        .argument("--drain-deadline=20s")
}

fn reply_after_gate(gate: &Gate) -> Reply {
    Reply::at_once()
        .reads_the_body()
        .waits_for(gate)
        .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
}

on_both_drivers! {
    fn sigterm_finishes_requests_in_flight(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let mut gateway = with_short_drain(gateway(driver), &origin).start();
        let mut client = gateway.client();
        client.gets("/");
        origin.waits_for_requests(1);
        gateway.signal(Signal::Term);
        gateway.waits_until_refused_on(gateway.address());
        gate.open();
        let answer = client.expects(200);
        assert_eq!(answer.text(), "late");
        assert!(answer.says_close());
        client.expects_close();
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn a_client_that_sends_the_rest_of_its_request_is_not_waited_for(driver) {
        // It would have 30 s, and 5 s between two pieces.
        for deadline in ["4s", "500ms"] {
            let origin = origin();
            let mut gateway = gateway(driver)
                .routes_to(&origin)
                .limits("requestBodyBytes: 1000")
                .argument("--drain-accept=100ms")
                .argument(&format!("--drain-deadline={deadline}"))
                .start();
            let mut client = gateway.client();
            client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1500000\r\n\r\nsome").expects(413);
            gateway.signal(Signal::Term);
            assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
            assert!(!gateway.log().contains("drain deadline exceeded"), "{}", gateway.log());
        }
    }

    fn a_request_that_waits_for_an_http_2_connection_is_served_during_the_drain(driver) {
        let (pod, (listener, address)) = (origin().replies(ok("served")), listener());
        let mut gateway = gateway(driver)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .rule("{backendRefs: [{@origin}]}")
            .argument("--drain-accept=300ms")
            .argument("--drain-deadline=20s")
            .start();
        let mut client = gateway.client();
        client.gets("/");
        // Before the server's SETTINGS, the connection is not usable.
        let (connection, _) = listener.accept().expect("a connection");
        gateway.signal(Signal::Term);
        gateway.waits_until_refused_on(gateway.address());
        relay(connection, out_of_h2(pod.address()), Arc::default());
        assert_eq!(client.expects(200).text(), "served");
        client.expects_close();
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn sighup_is_ignored(driver) {
        let origin = origin();
        let mut gateway = with_short_drain(gateway(driver), &origin).start();
        gateway.client().gets("/").expects(200);
        gateway.signal(Signal::Hup);
        gateway.waits_for_log("ignoring SIGHUP");
        gateway.client().gets("/").expects(200);
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn connections_are_still_accepted_for_a_while_after_sigterm(driver) {
        let origin = origin();
        let mut gateway = gateway(driver).routes_to(&origin)
            .argument("--drain-accept=5s").argument("--drain-deadline=20s").start();
        gateway.signal(Signal::Term);
        gateway.client().gets("/").expects(200);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn idle_connections_do_not_delay_the_exit(driver) {
        let origin = origin();
        let mut gateway = with_short_drain(gateway(driver), &origin).start();
        let mut idle: Vec<_> = (0..20).map(|_| gateway.client()).collect();
        for client in &mut idle {
            client.gets("/").expects(200);
        }
        let started = Instant::now();
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
        assert!(started.elapsed() < Duration::from_secs(15), "waited for idle connections");
        for client in &mut idle {
            client.expects_end();
        }
    }

    fn many_idle_connections_are_closed_gradually(driver) {
        let origin = origin();
        let mut gateway = with_short_drain(gateway(driver), &origin).start();
        let mut idle: Vec<_> = (0..300).map(|_| gateway.client()).collect();
        for client in &mut idle {
            client.gets("/").expects(200);
        }
        // Those that are idle have no buffer; the last ones by now, too.
        gateway.client().expects_silence_for(Duration::from_millis(1_300));
        let ends: Vec<_> = idle.into_iter().map(|mut client| std::thread::spawn(move || {
            client.expects_close();
            Instant::now()
        })).collect();
        gateway.signal(Signal::Term);
        let mut ends: Vec<_> = ends.into_iter().map(|end| end.join().expect("it ends")).collect();
        ends.sort_unstable();
        let spread = ends[ends.len() - 1] - ends[0];
        assert!(spread > Duration::from_millis(250), "within {spread:?}");
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn sigint_skips_the_accept_period_of_the_drain(driver) {
        let origin = origin();
        let mut gateway = gateway(driver).routes_to(&origin).argument("--drain-accept=60s").start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        gateway.signal(Signal::Int);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn a_second_signal_exits_immediately(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let mut gateway = gateway(driver).routes_to(&origin)
            .argument("--drain-accept=60s").argument("--drain-deadline=120s").start();
        let mut client = gateway.client();
        client.gets("/");
        origin.waits_for_requests(1);
        gateway.signal(Signal::Term);
        // Two signals of one kind that come together are one.
        gateway.waits_for_log("draining");
        gateway.signal(Signal::Term);
        gateway.waits_for_exit();
        client.expects_end();
    }

    fn the_deadline_resets_remaining_connections(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let mut gateway = gateway(driver).routes_to(&origin)
            .argument("--drain-accept=0s").argument("--drain-deadline=1s").start();
        let mut client = gateway.client();
        client.gets("/");
        origin.waits_for_requests(1);
        let started = Instant::now();
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
        assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
        client.expects_end();
    }

    fn no_request_is_lost_under_load(driver) {
        let origin = origin();
        let mut gateway = with_short_drain(gateway(driver), &origin).shards(2).start();
        let address = gateway.address();
        let working: Vec<_> = (0..4)
            .map(|_| {
                let mut client = crate::support::client(address);
                std::thread::spawn(move || {
                    // Until the gateway says that the connection ends, every request is answered.
                    while !client.gets("/").expects(200).says_close() {}
                    client.expects_end();
                })
            })
            .collect();
        origin.waits_for_requests(100);
        gateway.signal(Signal::Term);
        for worker in working {
            worker.join().expect("every request was answered");
        }
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }
}

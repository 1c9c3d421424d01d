//! Connections to a service are limited; requests queue for one in order, for a limited time.

use std::time::{Duration, Instant};

use super::metrics::waits_for_count;
use crate::support::{Client, Gate, Reply, gateway, ok, on_both_drivers, origin, out_of_h2};

/// Responds once the gate is open.
fn reply_after_gate(gate: &Gate) -> Reply {
    Reply::at_once()
        .waits_for(gate)
        .sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

on_both_drivers! {
    fn requests_queue_for_the_only_connection(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver).routes_to(&origin).limits("upstreamConnections: 1").start();
        let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(1);
        clients[2].expects_silence();
        assert_eq!(origin.requests().len(), 1, "the others wait");
        gate.open();
        for client in &mut clients {
            client.expects(200);
        }
        assert_eq!(origin.connections(), 1);
    }

    fn a_raised_limit_reaches_requests_that_wait(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let with = |max: u32| {
            let limits = format!("upstreamConnections: {max}, connectTimeout: 1m");
            gateway(driver).routes_to(&origin).limits(&limits)
        };
        let gateway = with(1).start();
        let mut clients: Vec<Client> = (0..4).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(1);
        clients[3].expects_silence();
        gateway.reconfigure(&with(3));
        origin.waits_for_requests(3);
        clients[3].expects_silence();
        assert_eq!(origin.connections(), 3);
        gate.open();
        for client in &mut clients {
            client.expects(200);
        }
    }

    fn a_connection_that_is_not_reused_frees_its_slot(driver) {
        let origin = origin().replies(ok("ok").closes());
        let gateway = gateway(driver).routes_to(&origin).limits("upstreamConnections: 1").start();
        let mut clients: Vec<Client> = (0..5).map(|_| gateway.client()).collect();
        for _ in 0..5 {
            for client in &mut clients {
                client.gets("/");
            }
            for client in &mut clients {
                client.expects(200);
            }
        }
    }

    fn an_idle_connection_to_another_endpoint_frees_its_slot(driver) {
        let origins = [origin().replies(ok("a")), origin().replies(ok("b"))];
        let gateway = gateway(driver)
            .backend("both", &[origins[0].address(), origins[1].address()])
            .rule("{backendRefs: [{@both}]}")
            .limits("upstreamConnections: 1")
            .start();
        let mut client = gateway.client();
        let answers: Vec<String> = (0..50).map(|_| client.gets("/").expects(200).text()).collect();
        assert!(answers.contains(&"a".to_owned()) && answers.contains(&"b".to_owned()));
    }

    /// A rollout replaces all endpoints of a service, whose idle connections use all its slots.
    fn an_idle_connection_to_a_removed_endpoint_frees_its_slot(driver) {
        let (old, new) = (origin().replies(ok("old")), origin().replies(ok("new")));
        let at = |endpoint| {
            gateway(driver)
                .backend("app", &[endpoint])
                .rule("{backendRefs: [{@app}]}")
                .limits("upstreamConnections: 1, connectTimeout: 300ms")
        };
        let gateway = at(old.address()).start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(200).text(), "old");
        gateway.reconfigure(&at(new.address()));
        gateway.waits_for_applied(2);
        assert_eq!(client.gets("/").expects(200).text(), "new");
    }

    fn an_idle_http_2_connection_to_another_endpoint_frees_its_slot(driver) {
        let origins = [origin().replies(ok("a")), origin().replies(ok("b"))];
        let addresses = origins.each_ref().map(|origin| out_of_h2(origin.address()));
        let gateway = gateway(driver)
            .backend("both", &addresses)
            .speaks("both", "H2C")
            .rule("{backendRefs: [{@both}]}")
            .limits("upstreamConnections: 1")
            .start();
        let mut client = gateway.client();
        let answers: Vec<String> = (0..50).map(|_| client.gets("/").expects(200).text()).collect();
        assert!(answers.contains(&"a".to_owned()) && answers.contains(&"b".to_owned()));
    }

    /// As above, for a rollout of an HTTP/2 service.
    fn an_http_2_connection_to_a_removed_endpoint_frees_its_slot(driver) {
        let (old, new) = (origin().replies(ok("old")), origin().replies(ok("new")));
        let at = |endpoint| {
            gateway(driver)
                .shards(1)
                .backend("app", &[out_of_h2(endpoint)])
                .speaks("app", "H2C")
                .rule("{backendRefs: [{@app}]}")
                .limits("upstreamConnections: 1")
        };
        let (old_form, new_form) = (at(old.address()), at(new.address()));
        let gateway = old_form.start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(200).text(), "old");
        // The connection is idle.
        gateway.reconfigure(&new_form);
        gateway.waits_for_applied(2);
        assert_eq!(client.gets("/").expects(200).text(), "new");
    }

    fn a_busy_http_2_connection_to_a_removed_endpoint_frees_its_slot_when_done(driver) {
        let (gate, new) = (Gate::default(), origin().replies(ok("new")));
        let old = origin().replies(reply_after_gate(&gate));
        let at = |endpoint| {
            gateway(driver)
                .shards(1)
                .backend("app", &[out_of_h2(endpoint)])
                .speaks("app", "H2C")
                .rule("{backendRefs: [{@app}]}")
                .limits("upstreamConnections: 1, connectTimeout: 10s")
                .inspected()
        };
        let gateway = at(old.address()).start();
        let mut busy = gateway.client();
        busy.gets("/");
        old.waits_for_requests(1);
        gateway.reconfigure(&at(new.address()));
        gateway.waits_for_applied(2);
        let mut next = gateway.client();
        next.gets("/");
        waits_for_count(&gateway, "gateway_upstream_pending_requests", "", 1.0);
        gate.open();
        busy.expects(200);
        assert_eq!(next.expects(200).text(), "new");
    }

    fn requests_beyond_the_queue_limit_are_rejected_immediately(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("upstreamConnections: 1, upstreamPending: 1")
            .policy("accessLog: {sample: 1}")
            .start();
        let mut first = gateway.client();
        first.gets("/");
        origin.waits_for_requests(1);
        let (mut second, mut third) = (gateway.client(), gateway.client());
        second.gets("/").expects_silence();
        let refused = third.gets("/").expects(503);
        assert_eq!(refused.value("retry-after"), Some("1"));
        gateway.waits_for_access_log("reason=upstream_full");
        gate.open();
        first.expects(200);
        second.expects(200);
        third.gets("/").expects(200);
    }

    fn no_request_waits_longer_than_the_connect_timeout(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("upstreamConnections: 1, connectTimeout: 300ms")
            .start();
        let mut first = gateway.client();
        first.gets("/");
        origin.waits_for_requests(1);
        let (begun, mut second) = (Instant::now(), gateway.client());
        let refused = second.gets("/").expects(503);
        assert!(refused.has("retry-after"));
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }

    fn a_limit_of_the_backend_overrides_the_gateways(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("upstreamConnections: 1")
            .policy_of("Backend/origin", "limits: {upstreamConnections: 2}")
            .start();
        let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(2);
        clients[2].expects_silence();
        assert_eq!(origin.connections(), 2);
        gate.open();
        for client in &mut clients {
            client.expects(200);
        }
    }
}

//! What becomes of requests that are under way when a policy changes: policies decide once about each, and what they
//! have admitted is not touched.

use crate::support::{
    Client, Gate, Reply, gateway, ok, on_both_drivers, on_every_pair, origin, status,
};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A policy that refuses every request.
const NOBODY: &str = "networks: {allow: [192.0.2.0/24]}\n  authorization: {deny: [{when: 'true'}]}";

/// A policy that counts the requests of a day.
fn limit(requests: u32) -> String {
    format!("rateLimit: {{rules: [{{name: all, requests: {requests}, per: Day}}]}}")
}

on_both_drivers! {
    fn a_tunnel_counts_once_and_is_not_touched_by_a_change(driver) {
        let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
        let with = |policy: &str| gateway(driver).routes_to(&origin).policy(policy);
        let gateway = with(&limit(1)).start();
        let mut tunnel = gateway.client();
        assert_eq!(tunnel.sends(ASK).reads_head().status(), 101);
        let exchange = |tunnel: &mut Client| {
            for message in ["one", "two", "three"] {
                assert_eq!(tunnel.sends(message).reads_bytes(message.len()), message.as_bytes());
            }
        };
        exchange(&mut tunnel);
        gateway.client().sends(ASK).expects(429);
        gateway.reconfigure(&with(NOBODY));
        gateway.waits_for_applied(2);
        gateway.client().sends(ASK).expects(403);
        exchange(&mut tunnel);
    }
}

on_every_pair! {
    fn a_request_counts_once_however_often_it_is_sent_to_a_backend(pair) {
        let origin = origin().replies(ok("ok"));
        origin.next_replies([status(503), status(503)]);
        let gateway = pair
            .backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{retry: {codes: [503], attempts: 3}, backendRefs: [{@origin}]}")
            .policy(&limit(2))
            .start();
        let mut client = pair.client(&gateway);
        for expected in [200, 200, 429] {
            client.gets("/").expects(expected);
        }
        assert_eq!(origin.requests().len(), 4);
    }

    /// It waits for the only connection that its endpoint may have, or its response.
    fn a_request_that_waits_is_served_by_the_policies_that_have_admitted_it(pair) {
        let gate = Gate::default();
        let held = || Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let origin = origin().replies(held());
        let base = pair
            .gateway_to(&origin)
            .shards(1)
            .policy_of("Backend/origin", "limits: {endpointConnections: 1, connectTimeout: 1m}");
        let with = |policy: &str| base.clone().policy(policy);
        let gateway = with(&limit(2)).start();
        let [mut first, mut waiting] = [(); 2].map(|()| pair.client(&gateway));
        first.gets("/");
        origin.waits_for_requests(1);
        waiting.gets("/").expects_silence();
        gateway.reconfigure(&with(NOBODY));
        gateway.waits_for_applied(2);
        pair.client(&gateway).gets("/").expects(403);
        gate.open();
        first.expects(200);
        waiting.expects(200);
    }
}

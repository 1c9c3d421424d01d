//! A request or connection that lasts keeps its rule, and not the configuration that it began with: a
//! tenant with an idle response for each change would otherwise fill the memory of all.

use crate::metrics::waits_for_sum;
use crate::support::frames::{HEADERS, PREFACE, Peer, SETTINGS, frame, get};
use crate::support::{
    Gate, Gateway, GatewayBuilder, Reply, client, gateway, ok, on_both_drivers, origin, status,
};

/// Changes, each with something that lasts.
const CHANGES: usize = 24;

/// Rules that each change compiles again: some megabytes.
const RULES: usize = 640;

/// A listener whose requests an authorization server decides about first.
const ASKING: &str = "protocol: HTTP, filters: {requests: [{type: ExternalAuth, externalAuth: {protocol: HTTP, \
                      http: {}, backendRef: {group: gateway-system.io, kind: Backend, name: auth}}}]}";

/// Payload of a SETTINGS frame: `SETTINGS_INITIAL_WINDOW_SIZE` of 0.
const TAKES_NOTHING: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// The start of a tunnel.
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: own\r\nConnection: upgrade\r\n\r\n";

/// The head of a response whose body does not end by itself, and its end.
const ENDLESS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const LAST: &str = "4\r\nlast\r\n0\r\n\r\n";

fn rules(builder: GatewayBuilder) -> GatewayBuilder {
    let to = "backendRefs: [{group: gateway-system.io, kind: Backend, name: origin}]";
    (0..RULES / 16).fold(builder, |builder, route| {
        let rules = (0..16).map(|rule| {
            let path = format!("/{route}/{rule}");
            format!("  - {{matches: [{{path: {{value: {path}}}}}], {to}}}\n")
        });
        builder.document(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: many-{route}}}\nspec:\n  parentRefs: [{{name: gw}}]\n  rules:\n{}",
            rules.collect::<String>()
        ))
    })
}

/// Changes a setting of every rule.
fn change(gateway: &Gateway, base: &GatewayBuilder, number: usize) {
    let limits = format!("responseHeadTimeout: {}s", 100 + number);
    gateway.reconfigure(&base.clone().limits(&limits));
    gateway.waits_for_applied(number + 2);
}

on_both_drivers! {
    fn requests_keep_no_configuration_while_a_listeners_server_decides(driver) {
        let gate = Gate::default();
        let auth = origin().replies(Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        let app = origin().replies(ok("served"));
        let base = gateway(driver)
            .backend("origin", &[app.address()])
            .backend("auth", &[auth.address()])
            .listener_with("asking", ASKING)
            .inspected();
        let base = rules(base);
        let gateway = base.clone().start();
        let mut waiting = Vec::new();
        for number in 0..3 {
            let mut client = client(gateway.address_of(1));
            client.gets("/1/1");
            auth.waits_for_requests(number + 1);
            waiting.push(client);
            change(&gateway, &base, number);
        }
        waits_for_sum(&gateway, "gateway_configuration_replaced_in_use", &[], 0.0);
        gate.open();
        for mut client in waiting {
            assert_eq!(client.expects(200).text(), "served", "by the rule as it is now");
        }
    }

    fn no_listener_serves_a_request_that_its_servers_have_not_decided_about(driver) {
        let (gate, app) = (Gate::default(), origin());
        let allowing = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let (first, second) = (origin().replies(allowing), origin().replies(status(401)));
        let asking = |server: &str| {
            gateway(driver)
                .backend("auth", &[first.address()])
                .backend("other", &[second.address()])
                .backend("app", &[app.address()])
                .listener_with("asking", &ASKING.replace("name: auth", &format!("name: {server}")))
                .rule_of("asking", "{backendRefs: [{@app}]}")
        };
        let gateway = asking("auth").start();
        let mut waiting = client(gateway.address_of(1));
        waiting.gets("/");
        first.waits_for_requests(1);
        gateway.reconfigure(&asking("other"));
        gateway.waits_for_applied(2);
        gate.open();
        waiting.expects(403);
        client(gateway.address_of(1)).gets("/").expects(401);
        assert_eq!(app.requests().len(), 0);
    }

    fn responses_to_slow_readers_keep_no_configuration(driver) {
        let origin = origin();
        let base = gateway(driver)
            .backend("origin", &[origin.address()])
            .listener_with("named", "protocol: HTTP, hostname: named.test")
            .inspected();
        let base = rules(base);
        let gateway = base.clone().start();
        let mut peer = Peer::silent(gateway.address_of(1));
        peer.sends(PREFACE)
            .sends(frame(SETTINGS, 0, 0, &TAKES_NOTHING))
            .sends(get(1));
        // No listener serves the host: 404, whose text the client does not take.
        peer.next_of(HEADERS);
        change(&gateway, &base, 0);
        waits_for_sum(&gateway, "gateway_configuration_replaced_in_use", &[], 0.0);
    }

    fn idle_responses_keep_their_rules_but_no_configuration(driver) {
        let gate = Gate::default();
        let idle = Reply::at_once().sends(ENDLESS).waits_for(&gate).sends(LAST);
        let waiting = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwaited");
        let tunnel = Reply::at_once().sends(SWITCH).waits_for(&gate).sends("bye");
        let origin = origin()
            .replies_to("/1/1/idle", idle)
            .replies_to("/2/2/waiting", waiting)
            .replies_to("/3/3/tunnel", tunnel);
        let base = rules(gateway(driver).backend("origin", &[origin.address()]).inspected());
        let gateway = base.clone().start();
        let (mut idle, mut waiting, mut tunnels) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = Vec::new();
        for number in 0..CHANGES {
            let mut client = gateway.client();
            client.gets("/1/1/idle").reads_head();
            idle.push(client);
            let mut client = gateway.client();
            client.gets("/2/2/waiting");
            waiting.push(client);
            let mut client = gateway.client();
            client.sends("GET /3/3/tunnel HTTP/1.1\r\nHost: a\r\nUpgrade: own\r\nConnection: upgrade\r\n\r\n");
            assert_eq!(client.reads_head().status(), 101);
            tunnels.push(client);
            origin.waits_for_requests(3 * (number + 1));
            change(&gateway, &base, number);
            bytes.push(gateway.anonymous_bytes());
        }
        waits_for_sum(&gateway, "gateway_configuration_replaced_in_use", &[], 0.0);
        // By then everything was allocated once.
        let (before, after) = (bytes[CHANGES / 3], gateway.anonymous_bytes());
        assert!(after.saturating_sub(before) < 6 << 20, "{bytes:?}, then {after}");
        gate.open();
        for mut client in idle {
            assert_eq!(client.reads_bytes(LAST.len()), LAST.as_bytes());
        }
        for mut client in waiting {
            assert_eq!(client.expects(200).text(), "waited");
        }
        for mut client in tunnels {
            assert_eq!(client.reads_bytes(3), b"bye");
        }
    }
}

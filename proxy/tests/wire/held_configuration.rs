//! A request or connection that lasts keeps its rule, and not the configuration that it began with: a
//! tenant with an idle response for each change would otherwise fill the memory of all.

use crate::metrics::waits_for_sum;
use crate::support::{Gate, Gateway, GatewayBuilder, Reply, gateway, on_both_drivers, origin};

/// Changes, each with something that lasts.
const CHANGES: usize = 24;

/// Rules that each change compiles again: some megabytes.
const RULES: usize = 640;

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

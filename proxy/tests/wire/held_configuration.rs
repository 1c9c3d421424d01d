//! A request or connection that lasts keeps its rule, and not the configuration that it began with: a
//! tenant with an idle response for each change would otherwise fill the memory of all.

use crate::metrics::waits_for_sum;
use crate::support::frames::{HEADERS, PREFACE, Peer, SETTINGS, frame, get};
use crate::support::pki::authority;
use crate::support::{
    Client, Driver, Gate, Gateway, GatewayBuilder, Origin, Reply, client, gateway, ok,
    on_both_drivers, origin, status,
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

/// A listener whose authorization server takes its time, and allows everything.
struct Asking {
    driver: Driver,
    gate: Gate,
    server: Origin,
    app: Origin,
}

/// A gateway whose configuration was changed while the server decided.
struct Changed {
    gateway: Gateway,
    /// Whose request the server has decided about.
    waiting: Client,
}

impl Asking {
    fn new(driver: Driver) -> Self {
        let gate = Gate::default();
        let allowing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let server = origin().replies(Reply::at_once().waits_for(&gate).sends(allowing));
        Self {
            driver,
            gate,
            server,
            app: origin(),
        }
    }

    fn gateway(&self) -> GatewayBuilder {
        self.gateway_of(ASKING)
    }

    /// A gateway with these fields of the listener.
    fn gateway_of(&self, listener: &str) -> GatewayBuilder {
        gateway(self.driver)
            .backend("auth", &[self.server.address()])
            .backend("app", &[self.app.address()])
            .listener_with("asking", listener)
            .rule_of("asking", "{backendRefs: [{@app}]}")
            .inspected()
    }

    /// Begins a request, and changes the configuration before the server has decided about it.
    fn answers_after(&self, before: GatewayBuilder, change: &GatewayBuilder) -> Changed {
        let gateway = before.start();
        let mut waiting = client(gateway.address_of(1));
        waiting.sends("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
        self.server.waits_for_requests(1);
        gateway.reconfigure(change);
        gateway.waits_for_applied(2);
        self.gate.open();
        Changed { gateway, waiting }
    }
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

    fn networks_that_a_gateway_enforces_while_a_server_decides_refuse_the_request(driver) {
        let everywhere = "networks: {allow: [0.0.0.0/0, '::/0']}";
        let elsewhere = "precedence: Overrides\n  networks: {allow: [192.0.2.0/24]}";
        for before in [everywhere.to_owned(), elsewhere.replace("Overrides", "Defaults")] {
            let asking = Asking::new(driver);
            let of_route = |gateway: GatewayBuilder| gateway.policy_of("HTTPRoute/route-0", everywhere);
            let mut changed = asking.answers_after(
                of_route(asking.gateway().policy(&before)),
                &of_route(asking.gateway().policy(elsewhere)),
            );
            let refused = changed.waiting.expects(403);
            assert_eq!(refused.text(), "this request is not allowed\n");
            assert_eq!(asking.app.requests().len(), 0);
        }
    }

    fn rules_that_a_gateway_enforces_while_a_server_decides_count_the_request_once(driver) {
        let rule = |name: &str, requests: u32| {
            format!("{{name: {name}, key: [{{clientAddress: {{}}}}], requests: {requests}, per: Day}}")
        };
        let (first, second) = (rule("first", 2), rule("second", 1));
        let limiting = |rules: &str| format!("precedence: Overrides\n  rateLimit: {{rules: [{rules}]}}");
        let asking = Asking::new(driver);
        let mut changed = asking.answers_after(
            asking.gateway().policy(&limiting(&first)),
            &asking.gateway().policy(&limiting(&format!("{first}, {second}"))),
        );
        changed.waiting.expects(200);
        let counted = |rule, result, count| {
            waits_for_sum(&changed.gateway, "gateway_rate_limit_total", &[rule, result], count);
        };
        counted("rule=\"first\"", "result=\"allowed\"", 1.0);
        counted("rule=\"second\"", "result=\"allowed\"", 1.0);
        client(changed.gateway.address_of(1)).gets("/").expects(429);
        counted("rule=\"second\"", "result=\"limited\"", 1.0);
        assert_eq!(asking.app.requests().len(), 1);
    }

    fn a_rule_that_stops_overriding_while_a_server_decides_counts_the_request_once(driver) {
        let limits = "rateLimit: {rules: [{name: each, key: [{clientAddress: {}}], requests: 2, per: Day}]}";
        let asking = Asking::new(driver);
        let mut changed = asking.answers_after(
            asking.gateway().policy(&format!("precedence: Overrides\n  {limits}")),
            &asking.gateway().policy(limits),
        );
        changed.waiting.expects(200);
        for expected in [200, 429] {
            client(changed.gateway.address_of(1)).gets("/").expects(expected);
        }
        for (result, count) in [("result=\"allowed\"", 2.0), ("result=\"limited\"", 1.0)] {
            waits_for_sum(&changed.gateway, "gateway_rate_limit_total", &[result], count);
        }
    }

    fn a_server_that_has_decided_about_another_client_admits_nothing(driver) {
        let (trusting, refused) = ("trustedHops: 1", "external authorization failed\n");
        for (after, expected) in [("accessLog: {format: json}", Some(refused)), ("trustedHops: 2", None)] {
            let asking = Asking::new(driver);
            let gateway = |policy| asking.gateway().policy(policy);
            let mut changed = asking.answers_after(gateway(trusting), &gateway(after));
            let answer = changed.waiting.expects(if expected.is_some() { 403 } else { 200 });
            assert!(expected.is_none_or(|text| answer.text() == text), "{answer}");
            assert_eq!(asking.app.requests().len(), usize::from(expected.is_none()));
        }
    }

    fn a_listener_that_requires_tls_when_its_server_has_decided_serves_no_plain_request(driver) {
        let (asking, pair) = (Asking::new(driver), authority("ca").server(&["a.test"]));
        let https = "protocol: HTTPS, tls: {certificateRefs: [{name: pair}]}";
        let sealed = asking.gateway_of(&ASKING.replacen("protocol: HTTP", https, 1));
        let mut changed = asking.answers_after(asking.gateway(), &sealed.secret("pair", &pair));
        changed.waiting.expects(421);
        assert_eq!(asking.app.requests().len(), 0);
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

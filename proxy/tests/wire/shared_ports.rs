//! Ports that a Gateway shares with ListenerSets: their policies have no say in what belongs to a port.

use crate::support::{
    Driver, Gateway, GatewayBuilder, Origin, client, gateway, on_both_drivers, origin,
};

const FORGED: &str = "X-Forwarded-For: 203.0.113.7\r\n";

/// A ListenerSet with a listener on this port, and a policy of it.
fn tenant(port: u16, policy: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: tenant}}\n\
         spec: {{parentRef: {{name: gw}}, listeners: [{{name: http, port: {port}, protocol: HTTP, \
         hostname: tenant.test}}]}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: tenant}}\n\
         spec:\n  parentRefs: [{{kind: ListenerSet, name: tenant}}]\n  rules: \
         [{{backendRefs: [{{group: gateway-system.io, kind: Backend, name: origin}}]}}]\n---\n\
         apiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: tenant}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: ListenerSet, name: tenant}}]\n  \
         {policy}\n"
    )
}

/// A gateway whose own route is for one client address.
fn shared(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{backendRefs: [{@origin}]}")
        .gateway_field("allowedListeners: {namespaces: {from: Same}}")
        .policy_of(
            "HTTPRoute/route-0",
            "authorization: {allow: [{when: \"client.address == '203.0.113.7'\"}]}",
        )
}

/// Starts it, and adds a tenant with this policy.
fn with_tenant(origin: &Origin, driver: Driver, policy: &str) -> Gateway {
    let base = shared(origin, driver);
    let gateway = base.clone().start();
    let port = gateway.ports()[0];
    gateway.reconfigure(&base.document(&tenant(port, policy)));
    gateway.waits_for_applied(2);
    gateway
}

fn status(gateway: &Gateway, host: &str, lines: &str) -> u16 {
    let mut client = client(gateway.address());
    client.sends(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"));
    client.reads().status()
}

on_both_drivers! {
    fn a_listener_set_does_not_forge_client_addresses_of_others(driver) {
        let origin = origin();
        for policy in ["trustedSources: [0.0.0.0/0]", "trustedHops: 1"] {
            let gateway = with_tenant(&origin, driver, policy);
            assert_eq!(status(&gateway, "a.test", FORGED), 403, "{policy}");
            assert_eq!(status(&gateway, "tenant.test", FORGED), 200, "{policy}");
            let request = origin.requests().pop().expect("the tenant's");
            assert_eq!(request.value("x-forwarded-for"), Some("127.0.0.1"));
        }
    }

    fn a_listener_set_does_not_close_the_connections_of_others(driver) {
        let origin = origin();
        let policy = "proxyProtocol: {in: Required}\n  limits: {headBytes: 512, requestBodyBytes: 1}";
        let gateway = with_tenant(&origin, driver, policy);
        let long = format!("X-Long: {}\r\n", "a".repeat(2000));
        assert_eq!(status(&gateway, "a.test", &long), 403);
        assert_eq!(status(&gateway, "tenant.test", &long), 200);
        gateway.waits_for_log("spec.proxyProtocol: this belongs to the port");
        gateway.waits_for_log("ask the owner of Gateway default/gw");
        // What is known per request stays in force.
        let mut client = client(gateway.address());
        client.sends("POST / HTTP/1.1\r\nHost: tenant.test\r\nContent-Length: 2\r\n\r\nab");
        assert_eq!(client.reads().status(), 413);
    }

    fn a_listener_set_does_not_silence_the_log_of_unclaimed_requests(driver) {
        let origin = origin();
        let base = shared(&origin, driver).policy("accessLog: {format: json}");
        let gateway = base.clone().start();
        let port = gateway.ports()[0];
        gateway.reconfigure(&base.document(&tenant(port, "accessLog: {disabled: true}")));
        gateway.waits_for_applied(2);
        assert_eq!(status(&gateway, "tenant.test", ""), 200);
        let mut client = client(gateway.address());
        client.sends("GET /malformed HTTP/1.1\r\nHost: tenant.test\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.reads().status(), 400);
        let log = gateway.waits_for_access_log("malformed_head");
        assert!(!log.contains("tenant.test\",\"path\":\"/\""), "{log}");
    }
}

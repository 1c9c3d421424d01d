//! Errors in a configuration: each is reported with its file, line and object, and valid objects
//! keep working.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;

use crate::support::{Gateway, GatewayBuilder, Ports, gateway, on_both_drivers, origin};

/// A gateway that serves, with one more, invalid document.
fn with(builder: GatewayBuilder, document: &str) -> Gateway {
    let origin = origin();
    let gateway = builder.routes_to(&origin).document(document).start();
    gateway.client().gets("/").expects(200);
    gateway
}

const ROUTE: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                     metadata: {name: wrong}\nspec:\n  parentRefs: [{name: gw}]\n";

on_both_drivers! {
    fn invalid_yaml_is_reported_with_file_and_line(driver) {
        let failure = gateway(driver).fails_with("kind: Gateway\nmetadata: [unclosed\n");
        assert_ne!(failure.code, Some(0));
        assert!(failure.log.contains("gateway.yaml:"), "file and line:\n{}", failure.log);
    }

    fn a_missing_file_is_named(driver) {
        let failure = gateway(driver).argument("--config=/nowhere/at-all.yaml").fails_with("");
        assert_ne!(failure.code, Some(0));
        assert!(failure.log.contains("/nowhere/at-all.yaml"), "{}", failure.log);
    }

    fn a_device_is_named_and_not_read(driver) {
        let failure = gateway(driver).argument("--config=/dev/zero").fails_with("");
        assert_ne!(failure.code, Some(0));
        assert!(failure.log.contains("/dev/zero: cannot be read"), "{}", failure.log);
    }

    fn an_unknown_kind_is_ignored_with_a_log_line(driver) {
        let gateway = with(
            gateway(driver),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {}",
        );
        gateway.waits_for_log("Deployment");
    }

    fn an_unknown_field_is_named_with_its_place(driver) {
        let gateway = with(gateway(driver), &format!("{ROUTE}  ruels: []\n"));
        gateway.waits_for_log("ruels");
        gateway.waits_for_log("gateway.yaml");
    }

    fn an_object_with_an_unknown_field_keeps_its_previous_version(driver) {
        let origin = origin();
        let good = gateway(driver).routes_to(&origin);
        let gateway = good.clone().start();
        let misspelled = |yaml: String| yaml.replace("backendRefs", "backendRef");
        gateway.rewrite(&misspelled(good.yaml(gateway.ports())));
        gateway.waits_for_log("backendRef: unknown field (did you mean `backendRefs`?)");
        gateway.waits_for_log("the previous version of HTTPRoute default/route-0 stays in effect");
        gateway.client().gets("/").expects(200);
    }

    fn an_object_with_an_unknown_field_is_accepted_if_newer_definitions_are_expected(driver) {
        let origin = origin();
        let newer = format!("{ROUTE}  newer: 1\n  hostnames: [newer.test]\n  rules: [{{name: a}}]\n");
        for (choice, status) in [("refuse", 404), ("warn", 500)] {
            let gateway = gateway(driver)
                .backend("origin", &[origin.address()])
                .argument(&format!("--unknown-fields={choice}"))
                .document(&newer)
                .start();
            gateway.waits_for_log("spec.newer: unknown field");
            let mut client = gateway.client();
            client.sends("GET / HTTP/1.1\r\nHost: newer.test\r\n\r\n");
            client.expects(status);
        }
    }

    fn a_field_of_the_wrong_type_is_named_with_its_object(driver) {
        let gateway = with(gateway(driver), &format!("{ROUTE}  hostnames: 7\n"));
        gateway.waits_for_log("hostnames");
        gateway.waits_for_log("wrong");
    }

    fn a_regular_expression_that_does_not_compile_is_named(driver) {
        let rule = "  rules: [{matches: [{path: {type: RegularExpression, value: \"/a(\"}}]}]\n";
        let gateway = with(gateway(driver), &format!("{ROUTE}{rule}"));
        gateway.waits_for_log("wrong");
    }

    fn a_regular_expression_that_is_too_long_is_named(driver) {
        let long = "a".repeat(1100);
        let rule = format!(
            "  rules: [{{matches: [{{headers: [{{type: RegularExpression, name: X, value: \"{long}\"}}]}}]}}]\n"
        );
        let gateway = with(gateway(driver), &format!("{ROUTE}{rule}"));
        gateway.waits_for_log("wrong");
    }

    fn a_duplicate_object_is_named(driver) {
        let twice = "apiVersion: gateway-system.io/v1alpha1\nkind: Backend\n\
                     metadata: {name: origin}\nspec: {addresses: [{host: 127.0.0.1, port: 1}]}";
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).document(twice).start();
        gateway.waits_for_log("origin");
        gateway.client().gets("/").reads();
    }

    fn a_dangling_reference_is_reported(driver) {
        let rule = "  rules: [{matches: [{path: {value: /void}}], backendRefs: [{name: nobody, port: 80}]}]\n";
        let gateway = with(gateway(driver), &format!("{ROUTE}{rule}"));
        gateway.waits_for_log("nobody");
        gateway.client().gets("/void").expects(500);
    }

    fn a_port_in_use_is_named_and_the_rest_works(driver) {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        let gateway = with(
            gateway(driver),
            &format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: late}}\n\
                 spec: {{gatewayClassName: gateway, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}"
            ),
        );
        gateway.waits_for_log(&port.to_string());
    }

    fn a_start_without_any_port_does_not_announce_a_retry(driver) {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        let failure = gateway(driver).fails_with(&gateway(driver).yaml(&[port]));
        assert_eq!(failure.code, Some(1));
        assert!(failure.log.contains("the port is in use by another process"), "{}", failure.log);
        assert!(!failure.log.contains("tried again"), "it ended:\n{}", failure.log);
    }

    fn a_port_conflict_is_named_and_the_older_gateway_keeps_the_port(driver) {
        let (older, newer) = (origin(), origin());
        let builder = gateway(driver).routes_to(&older).backend("newer", &[newer.address()]);
        let gateway = builder.clone().start();
        let port = gateway.ports()[0];
        let second = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: late}}\n\
             spec: {{gatewayClassName: gateway, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}\n\
             ---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: late}}\n\
             spec: {{parentRefs: [{{name: late}}], rules: [{{backendRefs: [\
             {{group: gateway-system.io, kind: Backend, name: newer}}]}}]}}"
        );
        gateway.reconfigure(&builder.document(&second));
        gateway.waits_for_log("Gateway default/late");
        gateway.waits_for_log(&format!("port {port}"));
        gateway.client().gets("/").expects(200);
        assert_eq!((older.requests().len(), newer.requests().len()), (1, 0));
    }

    fn a_port_without_the_privilege_names_the_port_offset(driver) {
        let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        if first.is_ok_and(|port| port.trim().parse().is_ok_and(|port: u16| port <= 80)) {
            eprintln!("SKIPPED: anybody may use port 80 on this machine");
            return;
        }
        let unprivileged = match std::fs::metadata("/proc/self").expect("procfs").uid() {
            0 => gateway(driver).launched_by(&["setpriv", "--bounding-set", "-net_bind_service"]),
            _ => gateway(driver),
        };
        let failure = unprivileged.fails_with(&gateway(driver).yaml(&[80]));
        assert_eq!(failure.code, Some(1));
        assert!(failure.log.contains("--port-offset"), "{}", failure.log);
        assert!(!failure.log.contains("tried again"), "it ended:\n{}", failure.log);
    }

    fn a_missing_secret_is_named_and_the_rest_works(driver) {
        let ports = Ports::free(1);
        let port = ports[0];
        let gateway = with(
            gateway(driver),
            &format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: late}}\n\
                 spec: {{gatewayClassName: gateway, listeners: [{{name: https, port: {port}, protocol: HTTPS, \
                 tls: {{certificateRefs: [{{name: no-such-secret}}]}}}}]}}"
            ),
        );
        gateway.waits_for_log("no-such-secret");
        gateway.waits_for_log("Gateway default/late");
    }

    fn a_limit_out_of_range_is_named(driver) {
        let gateway = with(
            gateway(driver),
            "apiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: odd}\n\
             spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}]\n  \
             limits: {headTimeout: fast}",
        );
        gateway.waits_for_log("headTimeout");
        gateway.waits_for_log("odd");
    }
}

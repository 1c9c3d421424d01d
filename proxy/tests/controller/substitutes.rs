//! What a proxy rejects without a previous version refuses its requests: a wider rule or listener, which may
//! be less protected, does not get them.

use std::net::SocketAddr;

use tempfile::TempDir;
use xds::delta::{Encoded, Version};
use xds::model::Kind;

use crate::server::controller;
use crate::source;
use crate::support::{GatewayBuilder, Ports, Signal, client, gateway, on_both_drivers, origin};

/// A route to one path, beside the builder's.
fn narrow(builder: GatewayBuilder, path: &str) -> GatewayBuilder {
    narrow_at(builder, path, &["http"])
}

/// The same at these listeners.
fn narrow_at(builder: GatewayBuilder, path: &str, listeners: &[&str]) -> GatewayBuilder {
    let parents = listeners.iter();
    let parents = parents.map(|name| format!("{{name: gw, sectionName: {name}}}"));
    let parents = parents.collect::<Vec<_>>().join(", ");
    builder.document(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: narrow}}\n\
         spec:\n  parentRefs: [{parents}]\n  hostnames: [narrow.test]\n  rules:\n  \
         - matches: [{{path: {{value: {path}}}}}]\n    \
         backendRefs: [{{group: gateway-system.io, kind: Backend, name: origin}}]\n"
    ))
}

/// Makes a message unreadable after these of its bytes.
fn spoil(encoded: &mut Encoded, key: &str, bytes: impl FnOnce(&[u8]) -> &[u8]) {
    if encoded.key.key.starts_with(key) {
        // Field 1, which is a text, as a number.
        let spoiled = [bytes(&encoded.bytes), &[0x08, 0x01]].concat();
        encoded.version = Version::of(&spoiled);
        encoded.bytes = spoiled.into();
    }
}

/// The fields of a route before its order: key and listeners.
fn without_rule(bytes: &[u8]) -> &[u8] {
    let mut at = 0;
    while bytes.get(at).is_some_and(|tag| matches!(tag, 0x0a | 0x4a)) {
        at += 2 + usize::from(bytes[at + 1]);
    }
    &bytes[..at]
}

fn status(gateway: &crate::support::Gateway, host: &str, path: &str) -> u16 {
    status_at(gateway.address(), host, path)
}

fn status_at(listener: SocketAddr, host: &str, path: &str) -> u16 {
    let mut client = client(listener);
    client.sends(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.reads().status()
}

on_both_drivers! {
    fn a_rejected_rule_without_a_previous_version_refuses_its_requests(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver).inspected().routes_to(&origin)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let both = narrow(base.clone(), "/admin");
        controller.publish_with(&both, &ports, |it| spoil(it, "HTTPRoute/default/narrow", |all| all));
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| !seen.refused.is_empty());
        let refusal = controller.seen().refused[0].clone();
        assert_eq!(refusal.key.kind, Kind::Route);
        assert!(refusal.text.contains("its requests get status 500"), "{refusal:?}");
        assert_eq!(source(&gateway)["problems"], 1);
        for (host, path, expected) in [
            ("narrow.test", "/admin/x", 500), ("narrow.test", "/", 200), ("a.test", "/admin", 200),
        ] {
            assert_eq!(status(&gateway, host, path), expected, "{host}{path}");
        }
        controller.publish(&both, &ports);
        gateway.waits_for_applied(2);
        assert_eq!(status(&gateway, "narrow.test", "/admin/x"), 200);
        assert_eq!(source(&gateway)["problems"], 0);
    }

    fn a_rejected_version_of_a_rule_refuses_its_requests_at_listeners_that_are_new_to_it(driver) {
        let origin = origin();
        let ports = Ports::free(2);
        let controller = controller();
        let base = gateway(driver).routes_to(&origin)
            .listener("other")
            .rule_of("other", "{backendRefs: [{@origin}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&narrow(base.clone(), "/admin"), &ports);
        let gateway = base.clone().start_with("", &ports);
        let both = narrow_at(base.clone(), "/admin", &["http", "other"]);
        controller.publish_with(&both, &ports, |it| spoil(it, "HTTPRoute/default/narrow", |all| all));
        controller.waits_until(|seen| !seen.refused.is_empty());
        let refusal = controller.seen().refused[0].clone();
        assert!(refusal.text.contains("no previous version at some of its listeners"), "{refusal:?}");
        for (listener, host, path, expected) in [
            (0, "narrow.test", "/admin", 200),
            (1, "narrow.test", "/admin", 500),
            (1, "narrow.test", "/", 200),
            (1, "a.test", "/admin", 200),
        ] {
            let status = status_at(gateway.address_of(listener), host, path);
            assert_eq!(status, expected, "{listener} {host}{path}");
        }
        controller.publish(&both, &ports);
        gateway.waits_for_applied(3);
        assert_eq!(status_at(gateway.address_of(1), "narrow.test", "/admin"), 200);
    }

    fn a_rejected_rule_with_unknown_matches_refuses_its_hosts(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver).routes_to(&origin)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let both = narrow(base.clone(), "/admin");
        controller.publish_with(&both, &ports, |it| spoil(it, "HTTPRoute/default/narrow", without_rule));
        let gateway = base.clone().start_with("", &ports);
        controller.waits_until(|seen| !seen.refused.is_empty());
        assert_eq!(status(&gateway, "narrow.test", "/admin"), 500);
        assert_eq!(status(&gateway, "narrow.test", "/"), 500);
        assert_eq!(status(&gateway, "a.test", "/"), 200);
        controller.publish(&base, &ports);
        gateway.waits_for_applied(2);
        assert_eq!(status(&gateway, "narrow.test", "/"), 200, "it was removed");
    }

    fn a_rejected_listener_without_a_previous_version_refuses_its_host(driver) {
        let origin = origin();
        let ports = Ports::free(2);
        let controller = controller();
        let base = gateway(driver).routes_to(&origin)
            .listener_beside("http", "narrow", "protocol: HTTP, hostname: narrow.test")
            .rule_of("narrow", "{backendRefs: [{@origin}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish_with(&base, &ports, |it| spoil(it, "Gateway/default/gw/narrow", |all| all));
        let gateway = base.clone().start_with("", &ports);
        controller.waits_until(|seen| !seen.refused.is_empty());
        let refusal = controller.seen().refused[0].clone();
        assert!(refusal.text.contains("requests for its host get status 403"), "{refusal:?}");
        assert_eq!(status(&gateway, "narrow.test", "/"), 403);
        assert_eq!(status(&gateway, "a.test", "/"), 200);
        controller.publish(&base, &ports);
        gateway.waits_for_applied(2);
        assert_eq!(status(&gateway, "narrow.test", "/"), 200);
    }

    fn what_refuses_requests_in_place_of_a_rejected_rule_follows_it_after_a_restart(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let folder = TempDir::new().expect("a temporary folder");
        let cache = folder.path().join("cache");
        let mut controller = controller();
        let base = gateway(driver).inspected().routes_to(&origin).configured_by(&[
            "--xds", &controller.url(), "--gateway", "default/gw",
            "--xds-cache", cache.to_str().expect("UTF-8"),
        ]);
        let rejects = |controller: &crate::server::Controller, path| {
            let both = narrow(base.clone(), path);
            controller.publish_with(&both, &ports, |it| spoil(it, "HTTPRoute/default/narrow", |all| all));
        };
        rejects(&controller, "/admin");
        let mut first = base.clone().start_with("", &ports);
        controller.waits_until(|seen| seen.refused.len() == 1);
        assert_eq!(status(&first, "narrow.test", "/admin"), 500);
        controller.stop();
        first.signal(Signal::Int);
        first.waits_for_exit();

        let second = base.clone().start_with("", &ports);
        assert_eq!(status(&second, "narrow.test", "/admin"), 500);
        rejects(&controller, "/secret");
        controller.start(None);
        controller.waits_until(|seen| seen.refused.len() == 2);
        second.waits_for_applied(2);
        assert_eq!(status(&second, "narrow.test", "/secret"), 500);
        assert_eq!(status(&second, "narrow.test", "/admin"), 200);
        controller.publish(&narrow(base.clone(), "/secret"), &ports);
        second.waits_for_applied(3);
        assert_eq!(status(&second, "narrow.test", "/secret"), 200);
        assert_eq!(client(second.address()).gets("/").expects(200).status(), 200);
    }
}

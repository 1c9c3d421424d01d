//! Unusable resources are rejected by name, and everything else is served.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use xds::delta::{Encoded, Version};
use xds::model::{Kind, Pattern};

use crate::server::controller;
use crate::support::{Driver, Gate, Ports, Reply, TIMEOUT, gateway, ok, on_both_drivers, origin};
use crate::{is_ready, source, type_state};

/// Makes a resource undecodable.
fn spoil(encoded: &mut Encoded, key: &str) {
    if encoded.key.key.starts_with(key) {
        encoded.bytes = vec![0xff].into();
        encoded.version = Version::of(&encoded.bytes);
    }
}

/// Gives the first policy a value that a proxy rejects: `limits` with a largest head of 0 bytes.
fn spoil_policy(encoded: &mut Encoded) {
    if encoded
        .key
        .key
        .starts_with("TrafficPolicy/default/policy-0/")
    {
        // An access log without a format.
        let bytes = [&*encoded.bytes, &[0x1a, 0x00]].concat();
        encoded.version = Version::of(&bytes);
        encoded.bytes = bytes.into();
    }
}

/// Routes whose expressions take more than half of what those of a process may. `set` tells them from
/// others.
fn large_routes(set: &str) -> String {
    let route = |number: usize| {
        let matches = (0..36).map(|one| {
            let regex = format!("{set}{number}-{one}[A-Za-z0-9+/=_-]{{20,512}}");
            format!("{{headers: [{{name: x, type: RegularExpression, value: '{regex}'}}]}}")
        });
        let matches: Vec<String> = matches.collect();
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: {set}-{number}, namespace: default}}\nspec:\n  parentRefs: [{{name: gw}}]\n  \
             hostnames: ['{number}.{set}.test']\n  rules:\n  - matches: [{}]\n    backendRefs: \
             [{{group: gateway-system.io, kind: Backend, name: fast}}]\n",
            matches.join(", ")
        )
    };
    (0..ROUTES).map(route).collect::<Vec<_>>().join("---\n")
}

/// Of 36 expressions of 54 KiB each.
const ROUTES: usize = Pattern::MAX_PROCESS_BYTES * 6 / 10 / (36 * 54 * 1024);

on_both_drivers! {
    fn what_had_no_room_is_applied_once_an_earlier_configuration_is_gone(driver) {
        let (fast, slow, gate) = (origin(), origin(), Gate::default());
        let slow = slow.replies(Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .backend("fast", &[fast.address()])
            .backend("slow", &[slow.address()])
            .rule("{matches: [{path: {value: /slow}}], backendRefs: [{@slow}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base.clone().document(&large_routes("before")), &ports);
        let gateway = base.start_with("", &ports);
        let mut pinning = gateway.client();
        pinning.sends("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
        slow.waits_for_requests(1);
        controller.publish(&base.clone().document(&large_routes("after")), &ports);
        controller.waits_until(|seen| !seen.refused.is_empty());
        let refused = controller.seen().refused.clone();
        assert!(refused.iter().all(|it| it.text.contains("the limit of a proxy")), "{refused:?}");
        gate.open();
        pinning.expects(200);

        let deadline = Instant::now() + 2 * TIMEOUT;
        let value = format!("-0{}", "x".repeat(20));
        for number in 0..ROUTES {
            let request = format!(
                "GET / HTTP/1.1\r\nHost: {number}.after.test\r\nX: after{number}{value}\r\n\r\n"
            );
            let mut client = gateway.client();
            loop {
                client.sends(&request);
                if client.reads().status() == 200 {
                    break;
                }
                assert!(Instant::now() < deadline, "route {number}\n{}", gateway.log());
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
    }

    fn a_bad_resource_keeps_its_previous_version_and_the_rest_applies(driver) {
        let (old, new) = (origin().replies(ok("old")), origin().replies(ok("new")));
        let ports = Ports::free(2);
        let controller = controller();
        let base = gateway(driver)
            .inspected()
            .listener("other")
            .backend("old", &[old.address()])
            .backend("new", &[new.address()])
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        // Both backends stay in use.
        let always = |backend: &str| {
            format!("{{matches: [{{path: {{value: /{backend}}}}}], backendRefs: [{{@{backend}}}]}}")
        };
        let rules = |backend: &str| {
            let rule = format!("{{backendRefs: [{{@{backend}}}]}}");
            let rules = base.clone().rule(&rule).rule_of("other", &rule);
            rules.rule_of("other", &always("old")).rule_of("other", &always("new"))
        };
        controller.publish(&rules("old"), &ports);
        let gateway = base.start_with("", &ports);
        controller.publish_with(&rules("new"), &ports, |it| spoil(it, "HTTPRoute/default/route-0"));
        gateway.waits_for_applied(2);
        let answers = [0, 1].map(|listener| {
            let address = gateway.address_of(listener);
            crate::support::client(address).gets("/").expects(200).text()
        });
        assert_eq!(answers, ["old", "new"]);

        controller.waits_until(|seen| !seen.refused.is_empty());
        let refused = controller.seen().refused.clone();
        let [refusal] = &*refused else {
            panic!("one was bad: {refused:?}");
        };
        assert_eq!(refusal.key.kind, Kind::Route);
        assert!(refusal.key.key.starts_with("HTTPRoute/default/route-0/"), "{refusal:?}");
        assert!(refusal.text.contains("no Route message"), "{refusal:?}");
        let routes = type_state(&gateway, "routes");
        assert_eq!(routes["nacks"], 1, "{routes}");
        let rejection = routes["refused"].as_str().expect("it is refused");
        assert!(rejection.contains("HTTPRoute/default/route-0/"), "{rejection}");
        assert_eq!(source(&gateway)["problems"], 1);

        controller.publish(&rules("new"), &ports);
        gateway.waits_for_applied(3);
        assert_eq!(gateway.client().gets("/").expects(200).text(), "new");
        controller.waits_until(|seen| seen.accepted_of(Kind::Route) == 2);
        assert!(type_state(&gateway, "routes")["refused"].is_null());
    }

    /// As one whose controller is newer may have it. Without a previous version, its target would be open.
    fn a_rejected_restriction_closes_its_target_until_it_is_corrected(driver) {
        let origin = origin();
        let ports = Ports::free(2);
        let controller = controller();
        let base = gateway(driver)
            .listener("other")
            .backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
            .rule_of("other", "{backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0", "authorization: {allow: [{when: \"request.method == 'GET'\"}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish_with(&base, &ports, spoil_policy);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| !seen.refused.is_empty());
        let refusal = controller.seen().refused[0].clone();
        assert_eq!(refusal.key.kind, Kind::Policy);
        assert!(refusal.text.contains("status 503 (policy_invalid)"), "{refusal:?}");
        let answer = gateway.client().gets("/").expects(503);
        assert_eq!(answer.text(), "a policy that protects this is invalid\n");
        crate::support::client(gateway.address_of(1)).gets("/").expects(200);

        controller.publish(&base, &ports);
        gateway.waits_for_applied(2);
        gateway.client().gets("/").expects(200);
        gateway.client().posts("/", "").expects(403);
    }

    /// Whatever the policies of routes allow.
    fn a_rejected_overriding_policy_closes_its_gateway_or_keeps_its_previous_version(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let controller = controller();
        let private = "precedence: Overrides\n  authorization: {deny: [{when: \"request.path == '/private'\"}]}";
        let base = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
            .policy(private)
            .policy_of("HTTPRoute/route-0", "authorization: {allow: [{when: 'true'}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish_with(&base, &ports, spoil_policy);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| !seen.refused.is_empty());
        gateway.client().gets("/").expects(503);

        controller.publish(&base, &ports);
        gateway.waits_for_applied(2);
        gateway.client().gets("/").expects(200);
        gateway.client().gets("/private").expects(403);

        controller.publish_with(&base, &ports, spoil_policy);
        controller.waits_until(|seen| seen.refused.len() > 1);
        gateway.client().gets("/").expects(200);
        gateway.client().gets("/private").expects(403);
    }

    /// Its previous version is one that routes replace.
    fn a_rejected_version_that_begins_to_override_closes_its_gateway(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let nobody = "authorization: {deny: [{when: 'true'}]}";
        let with = |policy: &str| {
            let everybody = "authorization: {allow: [{when: 'true'}]}";
            base.clone().policy(policy).policy_of("HTTPRoute/route-0", everybody)
        };
        let (replaceable, enforced) = (with(nobody), with(&format!("precedence: Overrides\n  {nobody}")));
        controller.publish(&replaceable, &ports);
        let gateway = base.clone().start_with("", &ports);
        gateway.client().gets("/").expects(200);

        controller.publish_with(&enforced, &ports, spoil_policy);
        controller.waits_until(|seen| !seen.refused.is_empty());
        let answer = gateway.client().gets("/").expects(503);
        assert_eq!(answer.text(), "a policy that protects this is invalid\n");
        controller.publish(&enforced, &ports);
        gateway.waits_for_applied(3);
        gateway.client().gets("/").expects(403);
        controller.publish(&replaceable, &ports);
        gateway.waits_for_applied(4);
        gateway.client().gets("/").expects(200);
    }
}

#[test]
fn a_partly_rejected_first_configuration_makes_the_gateway_ready() {
    let origin = origin();
    let ports = Ports::free(2);
    let controller = controller();
    let base = gateway(Driver::Auto)
        .inspected()
        .listener("other")
        .routes_to(&origin)
        .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
    controller.publish_with(&base, &ports, |it| spoil(it, "Gateway/default/gw/other"));
    let gateway = base.start_with("", &ports);
    gateway.client().gets("/").expects(200);
    controller.waits_until(|seen| !seen.refused.is_empty());
    assert!(is_ready(&gateway), "{}", gateway.log());
}

#[test]
fn an_unusable_certificate_is_rejected() {
    let pair = crate::support::pki::authority("a").server(&["localhost"]);
    let ports = Ports::free(2);
    let controller = controller();
    let base = gateway(Driver::Auto)
        .https("secure", None, &[&pair])
        .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
    // The key of another certificate is a well-formed message.
    let other = crate::support::pki::authority("b").server(&["localhost"]);
    let chain = pair.der();
    let key = other.key();
    controller.publish_with(&base, &ports, |encoded| {
        if &*encoded.key.key == "Gateway/default/gw/secure" {
            let resource = xds::decode::resource(Kind::Listener, &encoded.bytes);
            let Ok(xds::model::Resource::Listener(listener)) = resource else {
                panic!("it is a listener");
            };
            let mut listener = (*listener).clone();
            let xds::model::ListenerProtocol::Https(server) = &mut listener.protocol else {
                panic!("of HTTPS");
            };
            let mismatched = xds::model::Certificate {
                chain: vec![xds::model::Der::new(&chain)],
                key: xds::model::PrivateKey::new(key.secret_der()),
            };
            server.certificates = vec![mismatched.into()];
            *encoded = Encoded::new(&listener.into());
        }
    });
    let gateway = base.start_with("", &ports);
    controller.waits_until(|seen| !seen.refused.is_empty());
    let refusal = controller.seen().refused[0].clone();
    assert_eq!(
        &*refusal.key.key, "Gateway/default/gw/secure",
        "{refusal:?}"
    );
    gateway.client().gets("/").expects(404);
}

#[test]
fn a_port_in_use_is_rejected_until_it_is_free() {
    let origin = origin();
    let ports = Ports::free(2);
    let controller = controller();
    let base = gateway(Driver::Auto)
        .inspected()
        .listener("other")
        .routes_to(&origin)
        .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
    let taken = TcpListener::bind(("0.0.0.0", ports[1])).expect("our own port");
    controller.publish(&base, &ports);
    let gateway = base.start_with("", &ports);
    gateway.client().gets("/").expects(200);
    controller.waits_until(|seen| !seen.refused.is_empty());
    let refusal = controller.seen().refused[0].clone();
    assert_eq!(
        &*refusal.key.key,
        &*format!("tcp/{}/default/gw", ports[1]),
        "{refusal:?}"
    );
    assert!(
        refusal
            .text
            .contains("the port is in use by another process"),
        "{refusal:?}"
    );
    drop(taken);
    // The proxy reports it on a new stream, whose initial versions lack this resource.
    controller.waits_until(|seen| seen.accepted_of(Kind::Bind) == 1);
    assert!(type_state(&gateway, "binds")["refused"].is_null());
}

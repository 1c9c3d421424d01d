//! Invalid JWT policies: requests are rejected, and never allowed.

use super::admin::waits_for_readiness;
use super::jwt::{bearer, claims};
use crate::support::{
    Client, Gate, Gateway, GatewayBuilder, Origin, Reply, Signer, client, gateway, key_set,
    on_both_drivers, origin,
};

/// A `TrafficPolicy` of this version and these target fields, whose one provider has a key of the
/// signer.
fn policy(version: &str, targets: &str, signer: &Signer) -> String {
    let keys = key_set(&[signer.jwk("key")]);
    format!(
        "apiVersion: gateway-system.io/{version}\nkind: TrafficPolicy\nmetadata: {{name: tokens}}\n\
         spec:\n  {targets}\n  jwt: {{providers: [{{name: idp, issuer: 'https://issuer.test', \
         audiences: [api], jwks: {{inline: '{keys}'}}}}]}}\n"
    )
}

/// Version and target fields of each form of policy that was once ignored, so that every request
/// was allowed.
const FORMS: [(&str, &str); 9] = [
    ("v1alpha1", "targetRefs: [{kind: HTTPRoute, name: route-0}]"),
    (
        "v1alpha1",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0, sectionName: 1}]",
    ),
    (
        "v1alpha1",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: HttpRoute, name: route-0}]",
    ),
    (
        "v1alpha1",
        "targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0}",
    ),
    (
        "v1alpha1",
        "targetRefs: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0}",
    ),
    (
        "v1beta9",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0}]",
    ),
    (
        "v1alpha1",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0, sectionName: gone}]",
    ),
    (
        "v1alpha1",
        "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute}]",
    ),
    ("v1alpha1", "targets: []"),
];

fn gateway_to(origin: &Origin, driver: crate::support::Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// Every request is rejected, even with a valid token.
#[track_caller]
fn assert_all_requests_are_rejected(gateway: &Gateway, signer: &Signer, form: &str) {
    let mut client = gateway.client();
    for lines in [Vec::new(), bearer(&signer.signs("key", &claims()))] {
        let answer = super::jwt::asks(&mut client, "/", &lines);
        assert_eq!(answer.status(), 503, "{form}: {answer}");
    }
}

on_both_drivers! {
    fn a_rejected_jwt_policy_rejects_every_request(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        for (version, targets) in FORMS {
            let document = policy(version, targets, &signer);
            let gateway = gateway_to(&origin, driver).document(&document).start();
            assert_all_requests_are_rejected(&gateway, &signer, targets);
        }
        assert_eq!(origin.requests().len(), 0);
    }

    fn a_rejected_jwt_policy_closes_a_previously_open_route(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let open = gateway_to(&origin, driver);
        for (version, targets) in FORMS {
            let gateway = open.clone().start();
            gateway.client().gets("/").expects(200);
            gateway.reconfigure(&open.clone().document(&policy(version, targets, &signer)));
            gateway.waits_for_applied(2);
            assert_all_requests_are_rejected(&gateway, &signer, targets);
        }
        assert_eq!(origin.requests().len(), FORMS.len());
    }

    fn a_policy_rejected_at_reload_breaks_no_stream_and_admits_no_request(driver) {
        let (gate, signer) = (Gate::default(), Signer::p256());
        let long = Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfour");
        let origin = origin().replies_to("/long", long.waits_for(&gate).sends("more"));
        let base = gateway_to(&origin, driver)
            .listener("open")
            .rule_of("open", "{backendRefs: [{@origin}]}");
        let good = super::jwt::policy("Strict", &signer, "");
        let gateway = base.clone().policy_of("HTTPRoute/route-0", &good).start();
        let token = bearer(&signer.signs("key", &claims()));
        let mut stream = gateway.client();
        stream.sends(format!("GET /long HTTP/1.1\r\nHost: a.test\r\n{}\r\n\r\n", token[0]));
        let head = stream.reads_head();
        let mut idle = gateway.client();
        assert_eq!(super::jwt::asks(&mut idle, "/", &token).status(), 200);
        // Its keys are at a backend that does not exist.
        let keys = "remote: {path: /, backendRef: {group: gateway-system.io, kind: Backend, name: gone}}";
        let refused = format!(
            "jwt: {{providers: [{{name: idp, issuer: 'https://issuer.test', audiences: [api], jwks: {{{keys}}}}}]}}"
        );
        gateway.reconfigure(&base.policy_of("HTTPRoute/route-0", &refused));
        gateway.waits_for_applied(2);
        let served = origin.requests().len();
        let nobody_passes = |client: &mut Client| {
            for lines in [&token[..], &[]] {
                let status = super::jwt::asks(client, "/", lines).status();
                assert!([401, 503].contains(&status), "{status}");
            }
        };
        nobody_passes(&mut idle);
        nobody_passes(&mut gateway.client());
        assert_eq!(origin.requests().len(), served);
        client(gateway.address_of(1)).gets("/").expects(200);
        gate.open();
        assert_eq!(stream.reads_body_of(head).text(), "fourmore");
        nobody_passes(&mut stream);
    }

    fn an_unreadable_document_that_may_be_a_policy_prevents_readiness(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let targets = "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0}]";
        let good = policy("v1alpha1", targets, &signer);
        let open = gateway_to(&origin, driver).inspected();
        for bad in [
            good.replace("TrafficPolicy", "TrafficPolicies"),
            good.replace("TrafficPolicy", "AccessPolicy"),
            good.replace("gateway-system.io", "gateway-systm.io"),
            good.replace("name: tokens", "nam: tokens"),
            good.replace("spec:", "spec: ["),
        ] {
            let gateway = open.clone().document(&bad).start();
            let pending = "not ready, pending: recognisable configuration";
            waits_for_readiness(&gateway, 503, pending);
            gateway.waits_for_log("it may be a policy that restricts access");
            gateway.reconfigure(&open.clone().document(&good));
            waits_for_readiness(&gateway, 200, "ready");
            // Once ready, it stays ready: the recognised configuration stays in force.
            gateway.reconfigure(&open.clone().document(&bad));
            gateway.waits_for_log("the previous version of ");
            waits_for_readiness(&gateway, 200, "ready");
        }
    }

    fn an_unknown_field_that_may_restrict_access_is_not_ignored(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let target = "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0}]";
        let good = policy("v1alpha1", target, &signer);
        let open = gateway_to(&origin, driver).argument("--unknown-fields=warn");
        for slip in ["jwtt: {", "basicCredentials: {", "jwt: {realms: x, "] {
            let document = good.replace("jwt: {", slip);
            let gateway = open.clone().document(&document).start();
            gateway.waits_for_log("it may restrict access");
            assert_all_requests_are_rejected(&gateway, &signer, slip);
        }
        // Others are.
        let document = good.replace("jwt: {", "limitz: {}\n  jwt: {");
        let gateway = open.document(&document).start();
        gateway.waits_for_log("it has no effect");
        let token = bearer(&signer.signs("key", &claims()));
        let answer = super::jwt::asks(&mut gateway.client(), "/", &token);
        assert_eq!(answer.status(), 200);
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_duplicate_policy_name_rejects_every_request_of_its_targets(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let target = |rule: &str| format!(
            "targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-0, sectionName: {rule}}}]"
        );
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: first, matches: [{path: {value: /first}}], backendRefs: [{@origin}]}")
            .rule("{name: second, backendRefs: [{@origin}]}")
            .document(&policy("v1alpha1", &target("first"), &signer))
            .document(&policy("v1alpha1", &target("second"), &signer))
            .start();
        gateway.waits_for_log("until then its targets refuse every request");
        let mut client = gateway.client();
        let token = bearer(&signer.signs("key", &claims()));
        for (path, lines, status) in [
            ("/first", &[][..], 401),
            ("/first", &token, 200),
            ("/second", &[], 503),
            ("/second", &token, 503),
        ] {
            let answer = super::jwt::asks(&mut client, path, lines);
            assert_eq!(answer.status(), status, "{path}");
        }
        assert_eq!(origin.requests().len(), 1);
    }
}

//! Which requests are let through, by their claims and by what they say of themselves.

use serde_json::json;

use super::jwt::{asks, bearer, claims, policy};
use crate::support::{Driver, GatewayBuilder, Origin, Signer, gateway, on_both_drivers, origin};

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// A token of somebody in this group.
fn of_group(signer: &Signer, group: &str) -> Vec<String> {
    let mut claims = claims();
    claims["group"] = json!(group);
    claims["typ"] = json!("Bearer");
    bearer(&signer.signs("key", &claims))
}

on_both_drivers! {
    fn a_claim_decides_who_is_let_through(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver)
            .policy(&policy("Strict", &signer, ""))
            .policy_of(
                "HTTPRoute/route-0",
                "authorization: {deny: [{when: \"claims.typ != 'Bearer'\"}], \
                 allow: [{name: admins, when: \"claims.group == 'admins'\"}]}",
            )
            .inspected()
            .start();
        let mut client = gateway.client();
        for _ in 0..2 {
            // The second time from the cache of tokens.
            assert_eq!(asks(&mut client, "/", &of_group(&signer, "admins")).status(), 200);
            let refused = asks(&mut client, "/", &of_group(&signer, "users"));
            assert_eq!(refused.status(), 403, "{refused}");
            assert_eq!(refused.text(), "this request is not allowed\n");
        }
        let metrics = super::admin::asks(&gateway, "metrics", "GET", "/metrics").text();
        for series in ["result=\"allowed\",reason=\"allowed\"", "result=\"denied\",reason=\"allowed_by_no_rule\""] {
            let line = format!("gateway_authorization_results_total{{{series}}} 2");
            assert!(metrics.contains(&line), "{line} is missing: {metrics}");
        }
        let without = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/", &without).status(), 403, "it lacks both claims");
        assert_eq!(asks(&mut client, "/", &[]).status(), 401, "tokens come first");
        assert_eq!(origin.requests().len(), 2);
    }

    fn requests_without_tokens_are_judged_by_what_they_say(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy(
                "authorization: {deny: [{when: \"request.path.startsWith('/private/')\"}], \
                 allow: [{when: \"request.method == 'GET' && request.headers['x-team'] == 'red'\"}]}",
            )
            .start();
        let mut client = gateway.client();
        let red = ["X-Team: red".to_owned()];
        assert_eq!(asks(&mut client, "/", &red).status(), 200);
        assert_eq!(asks(&mut client, "/private/x", &red).status(), 403);
        assert_eq!(asks(&mut client, "/a/../private/x", &red).status(), 403, "in its normal form");
        assert_eq!(asks(&mut client, "/", &[]).status(), 403);
        client.posts("/", "a short body");
        assert_eq!(client.reads().status(), 403);
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_rule_of_a_route_goes_before_that_of_its_gateway(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", "authorization: {deny: [{when: 'true'}]}")
            .policy_of("HTTPRoute/route-0", "authorization: {allow: [{when: 'true'}]}")
            .start();
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 200);
    }
}

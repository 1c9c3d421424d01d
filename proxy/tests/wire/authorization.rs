//! Which requests are allowed, by their claims and their attributes.

use serde_json::json;

use super::admin_trace::{events, watches};
use super::jwt::{asks, bearer, claims, policy};
use crate::support::{Driver, GatewayBuilder, Origin, Signer, gateway, on_both_drivers, origin};

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// A token of a user in this group.
fn of_group(signer: &Signer, group: &str) -> Vec<String> {
    let mut claims = claims();
    claims["group"] = json!(group);
    claims["typ"] = json!("Bearer");
    bearer(&signer.signs("key", &claims))
}

on_both_drivers! {
    fn a_claim_decides_whether_a_request_is_allowed(driver) {
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

    fn requests_without_tokens_are_evaluated_by_their_attributes(driver) {
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

    fn a_rule_of_a_route_overrides_that_of_its_gateway(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", "authorization: {deny: [{when: 'true'}]}")
            .policy_of("HTTPRoute/route-0", "authorization: {allow: [{when: 'true'}]}")
            .start();
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 200);
    }

    fn a_cors_preflight_is_not_authorized(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{filters: [{type: CORS, cors: {allowOrigins: ['https://app.test']}}], backendRefs: [{@origin}]}")
            .policy("authorization: {deny: [{when: 'true'}]}")
            .inspected()
            .start();
        let mut client = gateway.client();
        let mut watcher = watches(&gateway, "");
        client.sends(
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://app.test\r\nAccess-Control-Request-Method: GET\r\n\r\n",
        );
        let preflight = client.reads();
        assert!(matches!(preflight.status(), 200 | 204), "{preflight}");
        let events = events(&mut watcher);
        let policies = events.iter().map(|event| &event["message"]).filter(|it| it["type"] == "policy");
        let traced: Vec<_> = policies.filter(|it| it["kind"] == "authorization").collect();
        assert!(matches!(traced[..], [skipped] if skipped.to_string().contains("preflight")), "{events:?}");
        // An OPTIONS request without the fields of a preflight is not one.
        let from_app = "Host: a\r\nOrigin: https://app.test";
        for request in [
            format!("OPTIONS / HTTP/1.1\r\n{from_app}\r\n\r\n"),
            format!("GET / HTTP/1.1\r\n{from_app}\r\nAccess-Control-Request-Method: GET\r\n\r\n"),
        ] {
            let refused = client.sends(request).expects(403);
            assert_eq!(refused.value("access-control-allow-origin"), Some("https://app.test"));
        }
        assert!(origin.requests().is_empty());
    }

    fn a_trace_shows_the_deciding_rule_and_evaluation_errors(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver)
            .policy(&policy("Strict", &signer, ""))
            .policy_of(
                "HTTPRoute/route-0",
                "authorization: {deny: [{name: guests, when: \"claims.group == 'guests'\"}], \
                 allow: [{name: admins, when: \"claims.group == 'admins'\"}]}",
            )
            .inspected()
            .start();
        let mut client = gateway.client();
        let without = bearer(&signer.signs("key", &claims()));
        for (lines, allowed, parts) in [
            (of_group(&signer, "admins"), true, &["admins"][..]),
            (of_group(&signer, "guests"), false, &["denied_by_rule", "guests"]),
            (of_group(&signer, "users"), false, &["allowed_by_no_rule"]),
            (without, false, &["rule_not_evaluated", "guests", "group"]),
        ] {
            let mut watcher = watches(&gateway, "");
            let status = asks(&mut client, "/", &lines).status();
            assert_eq!(status, if allowed { 200 } else { 403 });
            let events = events(&mut watcher);
            let mut results = events.iter().map(|event| &event["message"]);
            let result = results.find(|it| it["by"] == "authorization TrafficPolicy/default/policy-1").expect("a result");
            assert_eq!(result["allowed"], allowed, "{result}");
            for part in parts {
                assert!(result["detail"].to_string().contains(part), "{part} is missing: {result}");
            }
            assert!(!format!("{events:?}").contains("eyJ"), "a token is shown: {events:?}");
        }
    }
}

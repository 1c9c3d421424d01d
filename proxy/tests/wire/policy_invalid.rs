//! Policies that restrict access and are invalid: which requests are refused, and how; and that what
//! they would hide stays hidden.

use super::admin_trace::{events, message, watches};
use super::jwt::{asks, bearer, claims, policy};
use crate::support::{
    Driver, GatewayBuilder, Message, Origin, Signer, client, gateway, on_both_drivers, origin,
};

/// A policy with an unknown field at its top level, which may be a newer way to authenticate.
const UNKNOWN: &str = "jwks: {providers: []}";

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

#[track_caller]
fn expect_policy_invalid(answer: &Message) {
    assert_eq!(answer.status(), 503, "{answer}");
    assert_eq!(answer.text(), "a policy that protects this is invalid\n");
    assert_eq!(answer.value("www-authenticate"), None);
}

on_both_drivers! {
    fn a_routes_own_policy_does_not_lift_an_invalid_one_of_its_gateway(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver)
            .policy_of("HTTPRoute/route-0", &policy("Optional", &signer, ""))
            .policy_of("Gateway/gw", UNKNOWN)
            .policy("accessLog: {format: json}")
            .start();
        let mut client = gateway.client();
        for lines in [Vec::new(), bearer(&signer.signs("key", &claims()))] {
            expect_policy_invalid(&asks(&mut client, "/", &lines));
        }
        assert_eq!(origin.requests().len(), 0);
        gateway.waits_for_access_log("policy_invalid");
    }

    fn an_invalid_policy_of_a_backend_closes_nothing_else(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .backend("guarded", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /guarded}}], backendRefs: [{@guarded}]}")
            // Nobody can ask for tokens there.
            .policy_of("Backend/guarded", &policy("Strict", &signer, ""))
            .start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &[]).status(), 200);
        expect_policy_invalid(&asks(&mut client, "/guarded", &[]));
        assert_eq!(origin.requests().len(), 1);
    }

    fn an_empty_restriction_refuses_every_request(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let forms = [
            "jwt:",
            "jwt:\n  limits: {connectTimeout: 1s}",
            "authorization: {allow: [{when: 'true'}], deny: null}",
            "authorization:",
        ];
        for form in forms {
            let open = gateway_to(&origin, driver);
            let gateway = open.clone().policy(form).start();
            expect_policy_invalid(&asks(&mut gateway.client(), "/", &[]));
            gateway.waits_for_log("is empty, and may restrict access");
        }
        assert_eq!(origin.requests().len(), 0);
        // The previous version stays.
        let with = |fields: &str| gateway_to(&origin, driver).policy(fields);
        let gateway = with(&policy("Strict", &signer, "")).start();
        gateway.reconfigure(&with("jwt:"));
        gateway.waits_for_log("the previous version of ");
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 401);
        let token = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut gateway.client(), "/", &token).status(), 200);
    }

    fn a_preflight_lets_a_browser_read_the_refusal(driver) {
        let origin = origin();
        let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test']}}";
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(&format!("{{filters: [{cors}], backendRefs: [{{@origin}}]}}"))
            .policy(UNKNOWN)
            .start();
        let asks = |method: &str, line: &str| {
            let mut client = gateway.client();
            client.sends(format!(
                "{method} / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://a.test\r\n{line}\r\n"
            ));
            client.reads()
        };
        let preflight = asks("OPTIONS", "Access-Control-Request-Method: GET\r\n");
        assert!(preflight.status() < 300, "{preflight}");
        let refusal = asks("GET", "");
        expect_policy_invalid(&refusal);
        let allowed = refusal.value("access-control-allow-origin");
        assert_eq!(allowed, Some("https://a.test"));
        assert_eq!(origin.requests().len(), 0);
    }

    fn tokens_stay_hidden_while_their_policy_is_invalid(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let from = |name: &str| policy("Strict", &signer, &format!(", from: {{query: {name}}}"));
        let broken = from("who").replace("audiences", "audience");
        let with = |fields: &str| {
            let log = "accessLog: {format: json}";
            gateway_to(&origin, driver).inspected().policy(fields).policy(log)
        };
        let gateway = with(&broken).start();
        expect_policy_invalid(&asks(&mut gateway.client(), "/first?who=hush", &[]));
        // An invalid version beside a valid one.
        gateway.reconfigure(&with(&from("it")));
        gateway.waits_for_applied(2);
        gateway.reconfigure(&with(&broken));
        gateway.waits_for_applied(3);
        for target in ["/second?who=hush", "/third?it=hush"] {
            let mut watcher = watches(&gateway, "?timeout=20s");
            assert_eq!(asks(&mut gateway.client(), target, &[]).status(), 401);
            let traced = events(&mut watcher);
            let snapshot = message(&traced, "requestSnapshot");
            let path = snapshot["path"].as_str().expect("text");
            assert!(path.ends_with("=***"), "{path}");
        }
        let log = gateway.waits_for_access_log("/third");
        assert!(!log.contains("hush"), "{log}");
        assert!(!gateway.log().contains("hush"), "{}", gateway.log());
        assert_eq!(origin.requests().len(), 0);
    }

    fn traces_hide_what_a_valid_policy_reads(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let from = ", from: {query: who, header: {name: x-who}}";
        let gateway = gateway_to(&origin, driver)
            .inspected()
            .policy(&policy("Strict", &signer, from))
            .start();
        let mut watcher = watches(&gateway, "?timeout=20s");
        let lines = ["X-Who: hush", "Referer: https://a.test/?w=1&%77ho=hush"];
        let lines = lines.map(str::to_owned);
        asks(&mut gateway.client(), "/a?b=c&who=hush", &lines);
        let traced = events(&mut watcher);
        let text = serde_json::to_string(&traced).expect("JSON");
        assert!(!text.contains("hush"), "{text}");
        let path = &message(&traced, "requestSnapshot")["path"];
        assert_eq!(path, "/a?b=c&who=***");
    }

    fn a_refusal_by_an_invalid_policy_is_traced_and_counted(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver).inspected().policy(UNKNOWN).start();
        let mut watcher = watches(&gateway, "?timeout=20s");
        expect_policy_invalid(&asks(&mut gateway.client(), "/", &[]));
        let traced = events(&mut watcher);
        let result = message(&traced, "authorizationResult");
        assert_eq!(result["allowed"], false);
        assert!(result["by"].as_str().is_some_and(|it| it.starts_with("TrafficPolicy/")), "{result}");
        assert_eq!(message(&traced, "requestFinished")["reason"], "policy_invalid");
        let metrics = client(gateway.server("metrics")).gets("/metrics").reads();
        assert!(metrics.text().contains("reason=\"policy_invalid\""), "{}", metrics.text());
    }
}

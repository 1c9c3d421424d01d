//! How many requests of a client pass. Limits are per day, so that no test waits for one to pass.

use serde_json::json;

use super::admin_trace::{events, message, watches};
use super::jwt::{asks, bearer, claims, policy};
use crate::support::{
    Client, Driver, GatewayBuilder, Message, Origin, Signer, gateway, on_both_drivers,
    on_every_pair, origin,
};

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// A rule of so many requests of each client in a day; `more` is put into it.
fn each(requests: u32, more: &str) -> String {
    format!("{{name: each, key: [{{clientAddress: {{}}}}], requests: {requests}, per: Day{more}}}")
}

fn rules(rules: &str) -> String {
    format!("rateLimit: {{rules: [{rules}]}}")
}

/// Statuses of so many requests with these lines.
fn statuses(client: &mut Client, target: &str, lines: &[&str], requests: usize) -> Vec<u16> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    (0..requests)
        .map(|_| asks(client, target, &lines).status())
        .collect()
}

#[track_caller]
fn expect_too_many(answer: &Message) {
    assert_eq!(answer.status(), 429, "{answer}");
    assert_eq!(answer.text(), "too many requests\n");
    assert!(answer.has("retry-after"), "{answer}");
}

on_every_pair! {
    fn a_client_gets_its_requests_and_then_429(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).policy(&rules(&each(2, ""))).start();
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            client.gets("/").expects(200);
        }
        let refused = client.gets("/").expects(429);
        expect_too_many(&refused);
        // Two in a day are one in 12 hours.
        let wait = refused.value("retry-after").and_then(|it| it.parse::<u32>().ok());
        assert!(wait.is_some_and(|it| (43_100..=43_200).contains(&it)), "{wait:?}");
        // Another connection is the same client, and the connection goes on.
        pair.client(&gateway).gets("/").expects(429);
        client.gets("/").expects(429);
        assert_eq!(origin.requests().len(), 2);
    }

    fn a_grpc_call_too_many_is_resource_exhausted(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).policy(&rules(&each(0, ""))).start();
        let answer = pair.client(&gateway)
            .sends("POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
                    TE: trailers\r\nContent-Length: 0\r\n\r\n")
            .expects(200);
        assert_eq!(answer.value("grpc-status"), Some("8"), "{answer}");
        assert_eq!(answer.value("grpc-message"), Some("too many requests"));
        assert!(!answer.has("retry-after"), "none is ever allowed");
        assert!(origin.requests().is_empty());
    }

    fn the_response_tells_what_is_left(pair) {
        let origin = origin();
        let with = |headers: &str| {
            let limit = format!("rateLimit: {{headers: {headers}, rules: [{}]}}", each(3, ""));
            pair.gateway_to(&origin).policy(&limit)
        };
        let gateway = with("Legacy").start();
        let mut client = pair.client(&gateway);
        let told = |answer: &Message| {
            let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
            names.map(|name| answer.value(name).unwrap_or_default().to_owned())
        };
        let first = told(&client.gets("/").expects(200));
        assert_eq!((&*first[0], &*first[1]), ("3", "2"));
        assert!(first[2].parse::<u32>().is_ok_and(|it| it <= 28_800), "{first:?}");
        client.gets("/").expects(200);
        client.gets("/").expects(200);
        let refused = told(&client.gets("/").expects(429));
        assert_eq!((&*refused[0], &*refused[1]), ("3", "0"));
        let gateway = with("Draft").start();
        let answer = pair.client(&gateway).gets("/").expects(200);
        assert_eq!(answer.value("ratelimit-policy"), Some("\"each\";q=3;w=86400"));
        let left = answer.value("ratelimit").unwrap_or_default().to_owned();
        assert!(left.starts_with("\"each\";r=2;t="), "{left}");
    }
}

on_both_drivers! {
    fn what_a_key_names_is_counted_separately(driver) {
        let origin = origin();
        let key = "{name: tenant, key: [{header: X-Tenant}, {cookie: sid}, {path: {}}], requests: 1, per: Day}";
        let gateway = gateway_to(&origin, driver).policy(&rules(key)).start();
        let mut client = gateway.client();
        for (target, lines) in [
            ("/", &["X-Tenant: a"][..]),
            ("/", &["X-Tenant: b"]),
            ("/b", &["X-Tenant: b"]),
            ("/", &["X-Tenant: b", "Cookie: x=1; sid=a"]),
            // What is missing counts as empty.
            ("/", &[]),
        ] {
            assert_eq!(statuses(&mut client, target, lines, 2), [200, 429], "{target} {lines:?}");
        }
        // The path is normalised, and has no query.
        assert_eq!(statuses(&mut client, "/a/../b?c=d", &["X-Tenant: b"], 1), [429]);
        assert_eq!(statuses(&mut client, "/", &["X-Tenant:"], 1), [429]);
    }

    fn all_shards_count_together(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver).shards(2).policy(&rules(&each(20, ""))).start();
        let passed = (0..60).filter(|_| asks(&mut gateway.client(), "/", &[]).status() == 200);
        assert_eq!(passed.count(), 20);
        assert_eq!(origin.requests().len(), 20);
    }

    fn changes_of_the_configuration_keep_counts(driver) {
        let origin = origin();
        let with = |rule: &str| gateway_to(&origin, driver).policy(&rules(rule));
        let gateway = with(&each(2, "")).start();
        let mut client = gateway.client();
        assert_eq!(statuses(&mut client, "/", &[], 3), [200, 200, 429]);
        for (version, rule) in [
            // Another rule beside it, more keys, and a larger number of requests.
            format!("{{name: other, requests: 1000}}, {}", each(2, "")),
            each(2, ", maxKeys: 131072"),
            each(3, ", maxKeys: 1024"),
        ].iter().enumerate() {
            gateway.reconfigure(&with(rule));
            gateway.waits_for_applied(version + 2);
            // Of three in a day, two thirds of a day are still owed, and the debt is not forgiven.
            assert_eq!(statuses(&mut client, "/", &[], 2), [429, 429], "{rule}");
        }
        // Under another name it is another rule.
        gateway.reconfigure(&with(&each(2, "").replace("each", "all")));
        gateway.waits_for_applied(5);
        assert_eq!(statuses(&mut client, "/", &[], 3), [200, 200, 429]);
    }

    /// A flood costs no signature, and a browser's preflight no request.
    fn rules_without_claims_come_before_tokens_and_after_preflights(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test']}}";
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(&format!("{{filters: [{cors}], backendRefs: [{{@origin}}]}}"))
            .policy(&format!("{}\n  {}", policy("Strict", &signer, ""), rules(&each(1, ""))))
            .start();
        let mut client = gateway.client();
        let from = "Origin: https://a.test";
        for _ in 0..3 {
            client.sends(format!(
                "OPTIONS / HTTP/1.1\r\nHost: a\r\n{from}\r\nAccess-Control-Request-Method: GET\r\n\r\n"
            ));
            assert!(client.reads().status() < 300);
        }
        let from = [from.to_owned()];
        assert_eq!(asks(&mut client, "/", &from).status(), 401);
        let refused = asks(&mut client, "/", &from);
        expect_too_many(&refused);
        assert_eq!(refused.value("access-control-allow-origin"), Some("https://a.test"));
    }

    fn rules_with_claims_come_after_authorization(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let limit = rules("{name: plan, when: \"claims.plan == 'free'\", key: [{claim: sub}], requests: 1, per: Day}");
        let guests = "authorization: {deny: [{when: \"claims.plan == 'none'\"}]}";
        let gateway = gateway_to(&origin, driver)
            .policy(&format!("{}\n  {guests}\n  {limit}", policy("Strict", &signer, "")))
            .start();
        let mut client = gateway.client();
        let of = |sub: &str, plan: &str| {
            let mut claims = claims();
            claims["sub"] = json!(sub);
            claims["plan"] = json!(plan);
            bearer(&signer.signs("key", &claims))
        };
        for (sub, plan, expected) in [
            ("a", "none", 403),
            ("a", "paid", 200),
            ("a", "paid", 200),
            ("a", "free", 200),
            ("a", "free", 429),
            ("b", "free", 200),
        ] {
            assert_eq!(asks(&mut client, "/", &of(sub, plan)).status(), expected, "{sub} {plan}");
        }
        assert_eq!(asks(&mut client, "/", &[]).status(), 401);
    }

    /// As in `authorization`, but there is nothing to protect from a rule that should not apply.
    fn a_rule_whose_condition_cannot_be_evaluated_applies(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let limit = rules("{name: plan, when: \"claims.plan == 'free'\", requests: 1, per: Day}");
        let gateway = gateway_to(&origin, driver)
            .policy(&format!("{}\n  {limit}", policy("Strict", &signer, "")))
            .start();
        let mut client = gateway.client();
        let without = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/", &without).status(), 200);
        expect_too_many(&asks(&mut client, "/", &without));
    }

    /// Whoever may not come in at all uses nothing of what others share.
    fn networks_come_before_rate_limits(driver) {
        let origin = origin();
        let all = rules("{name: all, requests: 1, per: Day}");
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", "trustedHops: 1")
            .policy(&format!("networks: {{deny: [203.0.113.0/24]}}\n  {all}"))
            .start();
        let mut client = gateway.client();
        let mut from = |address: &str| {
            let line = format!("X-Forwarded-For: {address}");
            statuses(&mut client, "/", &[&line], 1)[0]
        };
        let all = ["203.0.113.1", "203.0.113.2", "192.0.2.1", "203.0.113.3", "192.0.2.1"].map(&mut from);
        assert_eq!(all, [403, 403, 200, 403, 429]);
    }

    /// Each condition has networks of its own, beside those of the authorization.
    fn conditions_name_networks(driver) {
        let origin = origin();
        let inside = "cidr('10.0.0.0/8').contains(client.address)";
        let office = format!("{{name: office, when: \"{inside}\", requests: 2, per: Day}}");
        let others = format!("{{name: others, when: \"!({inside})\", requests: 1, per: Day}}");
        let allow = "cidr('10.0.0.0/8').contains(client.address) || cidr('192.0.2.0/24').contains(client.address)";
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", "trustedHops: 1")
            .policy(&format!(
                "authorization: {{allow: [{{when: \"{allow}\"}}]}}\n  {}",
                rules(&format!("{office}, {others}"))
            ))
            .start();
        let mut client = gateway.client();
        for (address, expected) in [
            ("10.1.2.3", &[200, 200, 429][..]),
            ("192.0.2.9", &[200, 429]),
            ("198.51.100.1", &[429]),
        ] {
            let line = format!("X-Forwarded-For: {address}");
            assert_eq!(statuses(&mut client, "/", &[&line], expected.len()), expected, "{address}");
        }
    }

    /// A header that is made of a claim cannot be chosen by the client.
    fn a_key_of_a_header_made_of_a_claim_waits_for_the_token(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let tokens = policy("Strict", &signer, ", claimsToHeaders: [{claim: sub, header: x-user}]");
        let limit = rules("{name: user, key: [{header: x-user}], requests: 1, per: Day}");
        let gateway = gateway_to(&origin, driver).policy(&format!("{tokens}\n  {limit}")).start();
        let mut client = gateway.client();
        let mut lines = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/", &lines).status(), 200);
        lines.push("X-User: another".to_owned());
        expect_too_many(&asks(&mut client, "/", &lines));
    }

    fn a_nearer_policy_replaces_the_gateways_and_routes_share_that(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {value: /a}}], backendRefs: [{@origin}]}")
            .rule("{matches: [{path: {value: /b}}], backendRefs: [{@origin}]}")
            .rule("{name: own, matches: [{path: {value: /own}}], backendRefs: [{@origin}]}")
            .policy_of("Gateway/gw", &rules(&each(2, "")))
            .policy_of("HTTPRoute/route-0/own", &rules("{name: own, requests: 3, per: Day}"))
            .start();
        let mut client = gateway.client();
        assert_eq!(statuses(&mut client, "/a", &[], 1), [200]);
        assert_eq!(statuses(&mut client, "/b", &[], 2), [200, 429]);
        assert_eq!(statuses(&mut client, "/own", &[], 4), [200, 200, 200, 429]);
    }

    fn refusals_are_logged_counted_and_traced(driver) {
        let origin = origin();
        let dry = "{name: tried, requests: 0, dryRun: true}";
        let gateway = gateway_to(&origin, driver)
            .policy(&rules(&format!("{dry}, {}", each(1, ""))))
            .policy_of("Gateway/gw", "accessLog: {format: json}")
            .inspected()
            .start();
        let mut client = gateway.client();
        for allowed in [true, false] {
            let mut watcher = watches(&gateway, "?timeout=20s");
            let status = asks(&mut client, "/", &[]).status();
            assert_eq!(status, if allowed { 200 } else { 429 });
            let traced = events(&mut watcher);
            let result = message(&traced, "authorizationResult");
            assert_eq!((&result["by"], &result["allowed"]), (&json!("rateLimit"), &json!(allowed)));
            let detail = result["detail"].as_str().expect("text");
            let expected = if allowed { "`each` allows it: 0 of 1 left" } else { "`each` refuses it: the next request is allowed in" };
            assert!(detail.contains(expected), "{detail}");
            assert!(detail.contains("`tried` would refuse it without dryRun"), "{detail}");
        }
        gateway.waits_for_access_log("rate_limited");
        let metrics = super::admin::asks(&gateway, "metrics", "GET", "/metrics").text();
        for (rule, result, count) in [
            ("each", "allowed", 1),
            ("each", "limited", 1),
            ("each", "replaced", 0),
            ("tried", "allowed", 0),
            ("tried", "would_limit", 2),
        ] {
            let labels = format!("rule=\"{rule}\",result=\"{result}\"}} {count}");
            let mut lines = metrics.lines().filter(|it| it.starts_with("gateway_rate_limit_total{policy=\"TrafficPolicy/"));
            assert!(lines.any(|line| line.ends_with(&labels)), "{labels} is missing: {metrics}");
        }
        assert!(metrics.contains("reason=\"rate_limited\""), "{metrics}");
    }

    fn some_requests_are_counted_or_blocked(driver) {
        let origin = origin();
        let old = "{name: old, when: \"request.path.startsWith('/old/')\", requests: 0}";
        let posts = "{name: posts, when: \"request.method == 'POST'\", requests: 1, per: Day}";
        let limit = format!("rateLimit: {{status: 503, rules: [{old}, {posts}]}}");
        let gateway = gateway_to(&origin, driver)
            .policy(&limit)
            .policy_of("Gateway/gw", "accessLog: {format: json}")
            .start();
        let mut client = gateway.client();
        assert_eq!(statuses(&mut client, "/", &[], 3), [200, 200, 200]);
        let blocked = asks(&mut client, "/old/x", &[]);
        assert_eq!((blocked.status(), blocked.has("retry-after")), (503, false));
        client.posts("/", "body");
        assert_eq!(client.reads().status(), 200);
        client.posts("/", "body");
        assert_eq!(client.reads().status(), 503);
        gateway.waits_for_access_log("rate_limited");
    }

    /// A request that one rule refuses takes nothing from another.
    fn a_refused_request_counts_nowhere(driver) {
        let origin = origin();
        let all = "{name: all, requests: 4, per: Day}";
        let tenant = "{name: tenant, key: [{header: X-Tenant}], requests: 1, per: Day}";
        let gateway = gateway_to(&origin, driver).policy(&rules(&format!("{all}, {tenant}"))).start();
        let mut client = gateway.client();
        assert_eq!(statuses(&mut client, "/", &["X-Tenant: a"], 9)[..2], [200, 429]);
        for tenant in ["X-Tenant: b", "X-Tenant: c", "X-Tenant: d"] {
            assert_eq!(statuses(&mut client, "/", &[tenant], 1), [200]);
        }
        assert_eq!(statuses(&mut client, "/", &["X-Tenant: e"], 1), [429]);
    }

    fn an_invalid_rate_limit_closes_its_target(driver) {
        let origin = origin();
        for invalid in [
            "rateLimit:",
            "rateLimit: {rules: []}",
            "ratelimit: {rules: [{name: a, requests: 1}]}",
            "rateLimit: {rules: [{name: a, requests: 1, per: Week}]}",
            "rateLimit: {rules: [{name: a, requests: 1, per: Day, burst: 31}]}",
            "rateLimit: {rules: [{name: a, requests: 1, when: 'claims.'}]}",
        ] {
            let gateway = gateway_to(&origin, driver).policy(invalid).start();
            let answer = asks(&mut gateway.client(), "/", &[]);
            assert_eq!(answer.status(), 503, "{invalid}: {answer}");
            assert_eq!(answer.text(), "a policy that protects this is invalid\n");
        }
        // The previous version stays.
        let gateway = gateway_to(&origin, driver).policy(&rules(&each(1, ""))).start();
        gateway.reconfigure(&gateway_to(&origin, driver).policy("rateLimit: {rules: []}"));
        gateway.waits_for_log("the previous version of ");
        assert_eq!(statuses(&mut gateway.client(), "/", &[], 2), [200, 429]);
    }
}

//! Issuers that are slow, hang or are unavailable: what requests and changes wait for, and what others do not.

use proxy::limits::{JWKS_FETCHES, JWKS_WAITING};

use crate::support::{
    Gate, Reply, Signer, client, gateway, key_set, ok, on_both_drivers, origin, origin_on, refused,
    status,
};

use super::jwks::{by_url, gateway_to, keys_of, policy, policy_of, status_of, waits_for_status};
use super::jwt::{asks, bearer, claims};
use super::metrics::waits_for_sum;

on_both_drivers! {
    fn a_new_key_waits_for_a_slow_issuer_but_not_for_long(driver) {
        let (app, signer, gate) = (origin(), Signer::p256(), Gate::default());
        let keys = origin().replies(ok(key_set(&[signer.jwk("key")])));
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        let both = key_set(&[signer.jwk("key"), signer.jwk("new")]);
        let slow = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{both}", both.len());
        keys.now_replies(Reply::at_once().waits_for(&gate).sends(slow));
        let late = asks(&mut gateway.client(), "/", &bearer(&signer.signs("new", &claims())));
        assert_eq!((late.status(), late.value("retry-after")), (503, Some("1")), "{late}");
        assert_eq!(status_of(&gateway, &signer, "key"), 200, "others do not wait");
        let mut waiting = gateway.client();
        let token = signer.signs("new", &claims());
        waiting.sends(format!("GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {token}\r\n\r\n"));
        gate.open();
        assert_eq!(waiting.reads().status(), 200);
    }

    fn requests_that_wait_for_a_hanging_issuer_leave_places_for_others(driver) {
        let (app, old, new) = (origin(), Signer::p256(), Signer::ed25519());
        let keys = || origin().replies(ok(key_set(&[old.jwk("old")])));
        let [hanging, other] = [keys(), keys()];
        let mut builder = gateway(driver).shards(1).backend("app", &[app.address()]);
        for (name, keys) in [("hanging", &hanging), ("other", &other)] {
            builder = builder
                .rule(&format!("{{name: {name}, matches: [{{path: {{value: /{name}}}}}], backendRefs: [{{@app}}]}}"))
                .policy_of(&format!("HTTPRoute/route-0/{name}"), &by_url(keys));
        }
        let gateway = builder.start();
        hanging.now_replies(Reply::at_once().stalls());
        other.now_replies(ok(key_set(&[new.jwk("new")])));
        let token = bearer(&new.signs("new", &claims()));
        // More than may wait in all.
        let waiting = (0..JWKS_WAITING + 8).map(|_| {
            let mut client = gateway.client();
            client.sends(format!("GET /hanging HTTP/1.1\r\nHost: a.test\r\n{}\r\n\r\n", token[0]));
            client
        });
        let mut waiting: Vec<_> = waiting.collect();
        let last = waiting.last_mut().expect("there are many");
        let answer = last.reads();
        assert_eq!((answer.status(), answer.value("retry-after")), (503, Some("1")), "{answer}");
        let answer = asks(&mut gateway.client(), "/other", &token);
        assert_eq!(answer.status(), 200, "{answer}");
    }

    fn a_request_that_waits_for_a_key_ends_when_its_policy_is_replaced(driver) {
        let (app, old, new) = (origin(), Signer::p256(), Signer::ed25519());
        let gate = Gate::default();
        let keys = origin().replies(ok(key_set(&[old.jwk("old")])));
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &old, "old"), 200);
        keys.now_replies(Reply::at_once().waits_for(&gate).stalls());
        let token = bearer(&new.signs("new", &claims()));
        let mut waiting = gateway.client();
        waiting.sends(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n\r\n", token[0]));
        keys.waits_for_requests(2);
        let elsewhere = policy_of("https://other.test", &format!("url: 'http://{}/keys'", keys.address()));
        gateway.reconfigure(&gateway_to(&app, driver).policy(&elsewhere));
        gateway.waits_for_applied(2);
        let status = waiting.reads().status();
        assert!([401, 503].contains(&status), "{status}");
        assert_eq!(status_of(&gateway, &old, "old"), 401, "of an issuer that is not trusted any more");
        assert_eq!(app.requests().len(), 1);
    }

    fn a_new_key_of_an_unavailable_issuer_gets_503(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let keys = keys_of(&signer);
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &signer, "key"), 200);
        keys.stop();
        assert_eq!(status_of(&gateway, &signer, "new"), 503);
        assert_eq!(status_of(&gateway, &signer, "key"), 200, "the last good keys stay");
    }

    fn an_issuer_unavailable_at_startup_is_retried(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let (socket, address) = refused();
        let gateway = gateway_to(&app, driver)
            .policy(&policy(&format!("url: 'http://{address}/keys'")))
            .start();
        let token = bearer(&signer.signs("key", &claims()));
        let answer = asks(&mut gateway.client(), "/", &token);
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.value("retry-after"), Some("1"));
        assert!(!answer.has("www-authenticate"), "{answer}");
        gateway.waits_for_log("cannot fetch keys");
        let _keys = origin_on(socket).replies(ok(key_set(&[signer.jwk("key")])));
        waits_for_status(&gateway, &signer, "key", 200);
        assert_eq!(app.requests().len(), 1);
    }

    fn a_slow_issuer_delays_no_other_request(driver) {
        let (app, signer, gate) = (origin(), Signer::p256(), Gate::default());
        let keys = key_set(&[signer.jwk("key")]);
        let slow = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{keys}", keys.len());
        let keys = origin().replies(Reply::at_once().waits_for(&gate).sends(slow));
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &signer, "key"), 503);
        gate.open();
        waits_for_status(&gateway, &signer, "key", 200);
    }

    fn a_hanging_issuer_is_requested_again(driver) {
        let (app, signer, gate) = (origin(), Signer::p256(), Gate::default());
        let keys = keys_of(&signer);
        keys.next_replies([Reply::at_once().waits_for(&gate)]);
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &signer, "key"), 503);
        gateway.waits_for_log("no complete response within 5 seconds");
        waits_for_status(&gateway, &signer, "key", 200);
        assert_eq!(keys.requests().len(), 2);
    }

    fn a_hanging_issuer_delays_no_change(driver) {
        let (app, changed, signer) = (origin(), origin().replies(status(204)), Signer::p256());
        let stalled = origin().replies(Reply::at_once().stalls());
        let base = gateway(driver)
            .inspected()
            .backend("app", &[app.address()])
            .backend("changed", &[changed.address()])
            .rule("{name: closed, matches: [{path: {value: /closed}}], backendRefs: [{@app}]}");
        let before = base.clone().rule("{name: open, backendRefs: [{@app}]}");
        let own = policy(&format!("url: 'http://{}/keys'", stalled.address()));
        let after = base.rule("{name: open, backendRefs: [{@changed}]}");
        let gateway = before.start();
        gateway.reconfigure(&after.policy_of("HTTPRoute/route-0/closed", &own));
        gateway.waits_for_applied(2);
        gateway.client().gets("/").expects(204);
        assert!(!gateway.log().contains("applied before all keys are fetched"), "{}", gateway.log());
        let token = bearer(&signer.signs("key", &claims()));
        let refused = asks(&mut gateway.client(), "/closed", &token);
        assert_eq!((refused.status(), refused.value("retry-after")), (503, Some("1")));
        assert_eq!(app.requests().len(), 0);
        waits_for_sum(&gateway, "gateway_jwks_missing", &[], 1.0);
    }

    fn requests_that_wait_for_hanging_issuers_of_one_namespace_leave_places_for_others(driver) {
        const ISSUERS: usize = 12;
        let (app, old, new) = (origin(), Signer::p256(), Signer::ed25519());
        let keys = || origin().replies(ok(key_set(&[old.jwk("old")])));
        let [hanging, quiet] = [keys(), keys()];
        let mut tenant = vec!["apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {name: hanging, namespace: tenant}\nspec:\n  \
             parentRefs: [{name: gw, namespace: default, sectionName: shared}]\n  rules:\n".to_owned()];
        let rule = |rule| format!("  - {{name: rule-{rule}, matches: [{{path: {{value: /{rule}}}}}]}}\n");
        tenant.extend((0..ISSUERS).map(rule));
        for rule in 0..ISSUERS {
            let source = format!("url: 'http://{}/{rule}'", hanging.address());
            tenant.push(format!("---\napiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\n\
                 metadata: {{name: hanging-{rule}, namespace: tenant}}\nspec:\n  targetRefs:\n  \
                 - {{group: gateway.networking.k8s.io, kind: HTTPRoute, name: hanging, sectionName: rule-{rule}}}\n  \
                 {}\n", policy(&source)));
        }
        let gateway = gateway_to(&app, driver)
            .shards(1)
            .listener_with("shared", "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}")
            .document(&tenant.concat())
            .policy_of("HTTPRoute/route-0", &by_url(&quiet))
            .start();
        hanging.now_replies(Reply::at_once().stalls());
        quiet.now_replies(ok(key_set(&[new.jwk("new")])));
        let token = bearer(&new.signs("new", &claims()));
        // More than may wait in all.
        let waiting = (0..JWKS_WAITING + 8).map(|number| {
            let mut client = client(gateway.address_of(1));
            let path = number % ISSUERS;
            client.sends(format!("GET /{path} HTTP/1.1\r\nHost: a.test\r\n{}\r\n\r\n", token[0]));
            client
        });
        let mut waiting: Vec<_> = waiting.collect();
        let last = waiting.last_mut().expect("there are many");
        assert_eq!(last.reads().status(), 503);
        let answer = asks(&mut gateway.client(), "/", &token);
        assert_eq!(answer.status(), 200, "{answer}");
    }

    fn many_hanging_issuers_of_one_namespace_keep_no_other_from_being_fetched(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let (keys, hanging) = (keys_of(&signer), origin().replies(Reply::at_once().stalls()));
        let mut tenant = vec!["apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {name: hanging, namespace: tenant}\nspec:\n  \
             parentRefs: [{name: gw, namespace: default, sectionName: shared}]\n  rules:\n".to_owned()];
        let rule = |rule| format!("  - {{name: rule-{rule}, matches: [{{path: {{value: /{rule}}}}}]}}\n");
        tenant.extend((0..4).map(rule));
        for rule in 0..4 {
            let provider = |number| format!(
                "{{name: p{number}, issuer: 'https://issuer.test/{number}', \
                 jwks: {{remote: {{url: 'http://{}/{rule}/{number}'}}}}}}", hanging.address());
            let providers: Vec<String> = (0..16).map(provider).collect();
            tenant.push(format!("---\napiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\n\
                 metadata: {{name: hanging-{rule}, namespace: tenant}}\nspec:\n  targetRefs:\n  \
                 - {{group: gateway.networking.k8s.io, kind: HTTPRoute, name: hanging, sectionName: rule-{rule}}}\n  \
                 jwt: {{providers: [{}]}}\n", providers.join(", ")));
        }
        let gateway = gateway_to(&app, driver)
            .listener_with("shared", "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}")
            .document(&tenant.concat())
            .policy(&by_url(&keys))
            .start();
        // Half of the places; each of them hangs for longer than this test waits.
        hanging.waits_for_requests(JWKS_FETCHES / 2);
        waits_for_status(&gateway, &signer, "key", 200);
    }
}

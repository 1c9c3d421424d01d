//! API keys: which requests are allowed, what backends get, and that a key is nowhere else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::admin::asks as asks_admin;
use super::admin_trace::{events, watches};
use super::external_auth::{allow, gateway_with_auth};
use super::jwt::{asks, bearer, claims, policy as tokens};
use super::metrics::waits_for_sum;
use crate::support::{
    GatewayBuilder, Message, Signer, gateway, ok, on_both_drivers, on_every_pair, origin,
};

/// A Secret with these entries.
fn secret(name: &str, entries: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{{entries}}}\n")
}

/// A policy with the keys of the Secret `keys`, and `more` of its fields.
fn keys(more: &str) -> String {
    format!("apiKeys: {{secretRefs: [{{name: keys}}]{more}}}")
}

fn with_key(key: &str) -> Vec<String> {
    vec![format!("X-Api-Key: {key}")]
}

trait WithKeys {
    /// Two clients with a key each.
    fn with_keys(self) -> Self;
}

impl WithKeys for GatewayBuilder {
    fn with_keys(self) -> Self {
        self.document(&secret(
            "keys",
            "acme: hush-acme-0123456789, other: \"hush-other-0123456789\\n\"",
        ))
    }
}

#[track_caller]
fn expect_refused(answer: &Message, text: &str) {
    assert_eq!(answer.status(), 401, "{answer}");
    assert_eq!(answer.text(), text);
    assert_eq!(
        answer.value("www-authenticate"),
        Some("Bearer realm=\"gateway\"")
    );
}

#[track_caller]
fn expect_needed(answer: &Message) {
    expect_refused(answer, "credentials are needed\n");
}

#[track_caller]
fn expect_wrong(answer: &Message) {
    expect_refused(answer, "valid credentials are required\n");
}

on_every_pair! {
    fn the_key_of_a_client_is_accepted_and_tells_its_name(pair) {
        let origin = origin();
        let policy = keys(", clientHeader: X-Client");
        let gateway = pair.gateway_to(&origin).with_keys().policy(&policy).start();
        let mut client = pair.client(&gateway);
        for (lines, name) in [
            (with_key("hush-acme-0123456789"), "acme"),
            (bearer("hush-acme-0123456789"), "acme"),
            (with_key("hush-other-0123456789"), "other"),
        ] {
            let mut lines = lines;
            lines.extend(["X-Client: root", "X_Client: root"].map(str::to_owned));
            assert_eq!(asks(&mut client, "/", &lines).status(), 200, "{lines:?}");
            let request = origin.take().0.remove(0);
            assert_eq!(request.values("X-Client"), [name]);
            for gone in ["X_Client", "X-Api-Key", "Authorization"] {
                assert!(!request.has(gone), "{gone} in {request}");
            }
        }
        expect_needed(&asks(&mut client, "/", &[]));
        expect_needed(&asks(&mut client, "/", &["Authorization: Basic eDp5".to_owned()]));
        for wrong in [with_key("hush"), with_key("acme"), with_key("hush-acme2-0123456789"), bearer("hush-acme-0123456789\"")] {
            expect_wrong(&asks(&mut client, "/", &wrong));
        }
        let twice = [with_key("hush-acme-0123456789"), bearer("hush-acme-0123456789")].concat();
        let answer = asks(&mut client, "/", &twice);
        assert_eq!((answer.status(), &*answer.text()), (400, "the request has more than one credential of a kind\n"));
        assert!(origin.requests().is_empty());
    }
}

on_both_drivers! {
    fn rules_and_rate_limits_know_the_client(driver) {
        let origin = origin();
        let policy = format!(
            "{}\n  authorization: {{deny: [{{when: \"claims.auth != 'key' || claims.sub == 'other'\"}}]}}\n  \
             rateLimit: {{rules: [{{name: each, key: [{{claim: sub}}], requests: 1, per: Day}}]}}",
            keys("")
        );
        let gateway = gateway(driver).shards(1).routes_to(&origin).with_keys().policy(&policy).start();
        let mut client = gateway.client();
        let mut status = |key: &str| asks(&mut client, "/", &with_key(key)).status();
        assert_eq!([status("hush-acme-0123456789"), status("hush-acme-0123456789"), status("hush-other-0123456789")], [200, 429, 403]);
    }

    fn one_of_a_token_and_a_key_suffices_and_each_has_to_be_valid(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let good = bearer(&signer.signs("key", &claims()));
        let (key, wrong) = (with_key("hush-acme-0123456789"), with_key("hush"));
        for (more, of_one) in [("", 200), ("\n  requireAll: true", 401)] {
            let policy = format!("{}\n  {}{more}", tokens("Strict", &signer, ""), keys(""));
            let gateway = gateway(driver).routes_to(&origin).with_keys().policy(&policy).start();
            let mut client = gateway.client();
            let mut status = |lines: &[&[String]]| asks(&mut client, "/", &lines.concat()).status();
            assert_eq!(status(&[]), 401);
            assert_eq!([status(&[&good]), status(&[&key])], [of_one; 2], "{more}");
            assert_eq!(status(&[&good, &key]), 200);
            assert_eq!([status(&[&good, &wrong]), status(&[&bearer("x"), &key])], [401; 2]);
            // A key is no token, and read from its own header alone.
            assert_eq!(status(&[&bearer("hush-acme-0123456789")]), 401);
        }
        let rule = "authorization: {allow: [{when: \"claims.auth == 'jwt' && claims.sub == 'alice'\"}]}";
        let policy = format!("{}\n  {}\n  {rule}", tokens("Strict", &signer, ""), keys(""));
        let gateway = gateway(driver).routes_to(&origin).with_keys().policy(&policy).start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &[good.clone(), key.clone()].concat()).status(), 200);
        assert_eq!(asks(&mut client, "/", &key).status(), 403);
    }

    /// Who has no valid token must not learn whether a key is one.
    fn where_both_are_needed_a_key_is_not_looked_at_without_a_valid_token(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let policy = format!("{}\n  {}\n  requireAll: true", tokens("Strict", &signer, ""), keys(""));
        let gateway = gateway(driver).routes_to(&origin).with_keys().policy(&policy).inspected().start();
        let mut client = gateway.client();
        let other = Signer::p256();
        for token in [vec![], bearer("x"), bearer(&other.signs("key", &claims()))] {
            let parts = |answer: &Message| {
                (answer.status(), answer.values("www-authenticate").join("; "), answer.text())
            };
            let answers = ["hush-acme-0123456789", "hush-wrong-0123456789", "\"", ""]
                .map(|key| parts(&asks(&mut client, "/", &[token.clone(), with_key(key)].concat())));
            let without = parts(&asks(&mut client, "/", &token));
            for answer in answers {
                assert_eq!(answer, without, "{token:?}");
            }
        }
        waits_for_sum(&gateway, "gateway_api_key_results_total", &[], 0.0);
    }

    fn a_redirect_does_not_repeat_credentials(driver) {
        let signer = Signer::p256();
        let policy = format!(
            "{}\n  {}",
            tokens("Strict", &signer, ", from: {query: token}"),
            keys(", from: {query: key}, forward: true")
        );
        let filter = "filters: [{type: RequestRedirect, requestRedirect: {hostname: else.example, port: 80}}]";
        let gateway = gateway(driver).rule(&format!("{{{filter}}}")).with_keys().policy(&policy).start();
        let mut client = gateway.client();
        let key = "key=hush-acme-0123456789";
        let token = format!("token={}", signer.signs("key", &claims()));
        for (target, location) in [
            (format!("/a?b=1&{key}&c=2"), "/a?b=1&c=2"),
            (format!("/a?%6b{}", &key[1..]), "/a"),
            (format!("/a?{token}&{key}&keys=1"), "/a?keys=1"),
        ] {
            let answer = asks(&mut client, &target, &[]);
            let location = format!("http://else.example{location}");
            assert_eq!((answer.status(), answer.value("location")), (302, Some(&*location)), "{target}");
        }
    }

    fn a_key_that_can_be_guessed_and_a_secret_for_something_else_admit_nobody(driver) {
        let origin = origin();
        let typed = "apiVersion: v1\nkind: Secret\nmetadata: {name: certificate}\ntype: kubernetes.io/tls\n\
                     stringData: {acme: hush-public-0123456789, tls.crt: '', tls.key: ''}\n";
        let policy = "apiKeys: {secretRefs: [{name: keys}, {name: certificate}]}";
        let gateway = gateway(driver)
            .routes_to(&origin)
            .document(&secret("keys", "ok: hi, short: hush-short, even: aaaaaaaaaaaaaaaaaaaa, good: hush-acme-0123456789"))
            .document(typed)
            .policy(policy)
            .start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &with_key("hush-acme-0123456789")).status(), 200);
        for key in ["hi", "hush-short", "aaaaaaaaaaaaaaaaaaaa", "hush-public-0123456789"] {
            assert_eq!(asks(&mut client, "/", &with_key(key)).status(), 503, "{key}");
        }
        let log = gateway.log();
        for text in [
            "entry `short` of Secret default/keys can be guessed: a key has at least 16 bytes",
            "Secret default/certificate has the type `kubernetes.io/tls`",
        ] {
            assert!(log.contains(text), "{text}: {log}");
        }
    }

    fn a_key_is_removed_from_its_place_or_kept(driver) {
        for (from, target, line, stripped_target, stripped_line) in [
            ("header: {name: X-Key}", "/", "X-Key: hush-acme-0123456789", "/", None),
            ("header: {name: Authorization, prefix: 'Key '}", "/", "authorization: key hush-acme-0123456789", "/", None),
            ("query: key", "/?a=1&key=hush-acme-0123456789&b=2", "X: 1", "/?a=1&b=2", Some("X: 1")),
            ("cookie: key", "/", "Cookie: a=1; key=hush-acme-0123456789; b=2", "/", Some("Cookie: a=1; b=2")),
        ] {
            for forward in [false, true] {
                let origin = origin();
                let policy = keys(&format!(", from: {{{from}}}, forward: {forward}"));
                let gateway = gateway(driver).routes_to(&origin).with_keys().policy(&policy).start();
                let answer = asks(&mut gateway.client(), target, &[line.to_owned()]);
                assert_eq!(answer.status(), 200, "{from}");
                let request = origin.only_request();
                let (expected, expected_line) = if forward {
                    (target, Some(line))
                } else {
                    (stripped_target, stripped_line)
                };
                assert_eq!(request.target(), expected, "{from}");
                let (name, _) = line.split_once(": ").expect("a field line");
                let value = expected_line.and_then(|line| line.split_once(": "));
                assert_eq!(request.value(name), value.map(|(_, value)| value), "{from}");
            }
        }
    }

    fn a_token_and_a_key_in_cookies_are_both_removed(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let policy = format!(
            "{}\n  {}",
            tokens("Strict", &signer, ", from: {cookie: token}"),
            keys(", from: {cookie: key}")
        );
        let gateway = gateway(driver).routes_to(&origin).with_keys().policy(&policy).start();
        let token = signer.signs("key", &claims());
        let cookie = format!("Cookie: a=1; token={token}; key=hush-acme-0123456789; b=2");
        assert_eq!(asks(&mut gateway.client(), "/", &[cookie]).status(), 200);
        assert_eq!(origin.only_request().values("Cookie"), ["a=1; b=2"]);
    }

    fn keys_may_be_kept_as_their_hashes(driver) {
        let origin = origin();
        let hash = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let hashes = secret("keys", &format!("acme: {hash}, damaged: xyz"));
        let gateway = gateway(driver).routes_to(&origin).document(&hashes).policy(&keys(", hashed: true")).start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &with_key("0123456789abcdef")).status(), 200);
        for wrong in [hash, "xyz"] {
            expect_wrong(&asks(&mut client, "/", &with_key(wrong)));
        }
        assert!(gateway.log().contains("entry `damaged` of Secret default/keys is not a SHA-256"), "{}", gateway.log());
    }

    fn the_hash_of_nothing_admits_nobody(driver) {
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let hash = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let hashes = secret("keys", &format!("acme: {hash}, unset: {nothing}"));
        let origin = origin();
        let policy = keys(", hashed: true, from: {query: key}");
        let gateway = gateway(driver).routes_to(&origin).document(&hashes).policy(&policy).start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/?key=0123456789abcdef", &[]).status(), 200);
        for target in ["/?key=", "/?key"] {
            let answer = asks(&mut client, target, &[]);
            assert_eq!(answer.status(), 401, "{target}: {answer}");
        }
        assert!(gateway.log().contains("entry `unset` of Secret default/keys is empty"), "{}", gateway.log());
    }

    fn an_authorization_server_gets_no_key(driver) {
        for (forward, seen) in [(false, "/a?b=1"), (true, "/a?b=1&key=hush-acme-0123456789")] {
            let (auth, app) = (origin().replies(allow("")), origin().replies(ok("app")));
            let policy = keys(&format!(", from: {{query: key}}, forward: {forward}"));
            let gateway = gateway_with_auth(driver, &auth, &app, "").with_keys().policy(&policy).start();
            let answer = asks(&mut gateway.client(), "/a?b=1&key=hush-acme-0123456789", &[]);
            assert_eq!(answer.status(), 200, "{answer}");
            for (side, request) in [("server", auth.only_request()), ("backend", app.only_request())] {
                assert_eq!(request.target(), seen, "{side}");
            }
        }
    }

    fn the_same_key_of_two_clients_admits_neither(driver) {
        let origin = origin();
        let twice = secret("keys", "a: hush-1-0123456789, b: hush-1-0123456789, c: hush-2-0123456789");
        let gateway = gateway(driver).routes_to(&origin).document(&twice).policy(&keys("")).start();
        let mut client = gateway.client();
        expect_wrong(&asks(&mut client, "/", &with_key("hush-1-0123456789")));
        assert_eq!(asks(&mut client, "/", &with_key("hush-2-0123456789")).status(), 200);
        let log = gateway.log();
        assert!(log.contains("these entries have the same key") && !log.contains("hush-"), "{log}");
    }

    fn without_one_of_its_secrets_a_policy_admits_the_clients_of_the_others(driver) {
        let origin = origin();
        let policy = "apiKeys: {secretRefs: [{name: keys}, {name: later}]}";
        let with = |builder: GatewayBuilder| builder.routes_to(&origin).with_keys().policy(policy);
        let gateway = with(gateway(driver)).inspected().start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &with_key("hush-acme-0123456789")).status(), 200);
        expect_needed(&asks(&mut client, "/", &[]));
        let answer = asks(&mut client, "/", &with_key("hush-later-0123456789"));
        assert_eq!((answer.status(), answer.value("retry-after")), (503, Some("1")), "{answer}");
        assert_eq!(answer.text(), "credentials cannot be checked at the moment\n");
        for (reason, count) in [("credentials_missing", 1.0), ("no_credentials", 1.0)] {
            waits_for_sum(&gateway, "gateway_requests_total", &[&format!("reason=\"{reason}\"")], count);
        }
        waits_for_sum(&gateway, "gateway_api_key_results_total", &["reason=\"keys_missing\""], 1.0);
        let log = gateway.log();
        assert!(log.contains("Secret default/later does not exist: create it"), "{log}");
        // It takes effect at once, and none of it does once it is gone.
        let later = secret("later", "later: hush-later-0123456789");
        gateway.reconfigure(&with(crate::support::gateway(driver)).document(&later));
        gateway.waits_for_applied(2);
        assert_eq!(asks(&mut client, "/", &with_key("hush-later-0123456789")).status(), 200);
        expect_wrong(&asks(&mut client, "/", &with_key("hush")));
        gateway.reconfigure(&with(crate::support::gateway(driver)));
        gateway.waits_for_applied(3);
        assert_eq!(asks(&mut client, "/", &with_key("hush-later-0123456789")).status(), 503);
    }

    /// The new key comes beside the old one, which goes once nobody uses it.
    fn a_key_is_replaced_without_a_failed_request(driver) {
        let origin = origin();
        let policy = "apiKeys: {secretRefs: [{name: old}, {name: new}]}";
        let old = secret("old", "acme: hush-old-0123456789");
        let new = secret("new", "acme: hush-new-0123456789");
        let with = |secrets: &[&String]| {
            let builder = gateway(driver).shards(2).routes_to(&origin).policy(policy);
            secrets.iter().fold(builder, |builder, secret| builder.document(secret))
        };
        let empty = secret("new", "");
        let gateway = with(&[&old, &empty]).start();
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut client = gateway.client();
            let client = scope.spawn({
                let has_ended = &has_ended;
                move || {
                    let mut served = 0;
                    while !has_ended.load(Ordering::Relaxed) {
                        let answer = asks(&mut client, "/", &with_key("hush-old-0123456789"));
                        assert_eq!(answer.status(), 200, "{answer}");
                        served += 1;
                    }
                    served
                }
            });
            let mut other = gateway.client();
            for version in 2..=6 {
                let has_new = version % 2 == 0;
                gateway.reconfigure(&with(&[&old, if has_new { &new } else { &empty }]));
                gateway.waits_for_applied(version);
                let status = asks(&mut other, "/", &with_key("hush-new-0123456789")).status();
                assert_eq!(status, if has_new { 200 } else { 503 }, "{version}");
            }
            has_ended.store(true, Ordering::Relaxed);
            assert!(client.join().expect("no failed request") > 0);
        });
        gateway.reconfigure(&with(&[&secret("old", "other: hush-other-0123456789"), &new]));
        gateway.waits_for_applied(7);
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &with_key("hush-new-0123456789")).status(), 200);
        expect_wrong(&asks(&mut client, "/", &with_key("hush-old-0123456789")));
    }

    fn a_key_is_in_no_log_dump_or_trace(driver) {
        let origin = origin();
        let policy = format!(
            "{}\n  accessLog: {{format: json, sample: 1}}",
            keys(", from: {header: {name: X-Key}, query: key}")
        );
        let gateway = gateway(driver).routes_to(&origin).with_keys().policy(&policy).inspected().start();
        let mut client = gateway.client();
        for (target, lines, status) in [
            ("/?key=hush-acme-0123456789", vec![], 200),
            ("/?key=hush-wrong-0123456789", vec![], 401),
            ("/", vec!["X-Key: hush-other-0123456789".to_owned()], 200),
            ("/last", vec!["X-Key: hush-wrong-0123456789".to_owned()], 401),
        ] {
            let mut watcher = watches(&gateway, "");
            assert_eq!(asks(&mut client, target, &lines).status(), status, "{target}");
            let traced = serde_json::to_string(&events(&mut watcher)).expect("JSON");
            assert!(traced.contains("apiKeys TrafficPolicy/default/"), "{traced}");
            assert!(!traced.contains("hush-"), "{traced}");
        }
        let log = gateway.waits_for_access_log("/last");
        assert!(log.contains("\"user\":\"acme\"") && log.contains("\"reason\":\"wrong_credentials\""), "{log}");
        let dump = asks_admin(&gateway, "admin", "GET", "/config_dump").text();
        assert!(dump.contains("\"clients\":[\"acme\",\"other\"]"), "{dump}");
        for (place, text) in [("access log", &log), ("log", &gateway.log()), ("dump", &dump)] {
            assert!(!text.contains("hush-") && !text.contains("aHVzaC"), "{place}: {text}");
        }
        for request in origin.requests() {
            assert!(!request.to_string().contains("hush-"), "{request}");
        }
    }

    fn credentials_of_one_target_take_the_place_of_those_of_a_wider_one(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let token = bearer(&signer.signs("key", &claims()));
        let key = with_key("hush-acme-0123456789");
        for (precedence, of_token, of_key) in [("Defaults", 200, 401), ("Overrides", 401, 200)] {
            let gateway = gateway(driver)
                .backend("origin", &[origin.address()])
                .rule("{name: rule, backendRefs: [{@origin}]}")
                .with_keys()
                .policy(&format!("precedence: {precedence}\n  {}", keys("")))
                .policy_of("HTTPRoute/route-0", &tokens("Strict", &signer, ""))
                .start();
            let mut client = gateway.client();
            assert_eq!(asks(&mut client, "/", &token).status(), of_token, "{precedence}");
            assert_eq!(asks(&mut client, "/", &key).status(), of_key, "{precedence}");
            assert_eq!(asks(&mut client, "/", &[]).status(), 401);
        }
    }

    fn an_invalid_policy_of_keys_opens_nothing(driver) {
        for fields in [
            "apiKeys:",
            "apiKeys: {}",
            "apiKeys: {secretRefs: []}",
            "apiKeys: {secretRefs: [{name: keys}, {name: keys}]}",
            "apiKeys: {secretRefs: [{name: keys}], form: {query: key}}",
            "apiKeys: {secretRefs: [{name: keys}]}\n  requireAll: true",
            "apiKey: {secretRefs: [{name: keys}]}",
        ] {
            let origin = origin();
            let gateway = gateway(driver).routes_to(&origin).with_keys().policy(fields).start();
            let answer = asks(&mut gateway.client(), "/", &with_key("hush-acme-0123456789"));
            assert_eq!(answer.status(), 503, "{fields}: {answer}");
            assert!(origin.requests().is_empty());
        }
    }
}

//! Passwords: which requests are allowed, what backends get, and that a password is nowhere else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::admin::asks as asks_admin;
use super::admin_trace::{events, watches};
use super::external_auth::{allow, gateway_with_auth};
use super::jwt::{asks, bearer, claims, policy as tokens};
use super::metrics::waits_for_sum;
use crate::support::{
    GatewayBuilder, Message, Signer, gateway, ok, on_both_drivers, on_every_pair, origin,
};

/// As `htpasswd -nbB -C 4 alice hush-alice`, and `htpasswd -nbm bob hush-bob` print them.
const ALICE: &str = "alice:$2y$04$Qa061VXcP1phlQVRR5b4TOiOIqfMOCJQoGNr5eK.p60NBxD7zphRu";
const BOB: &str = "bob:$apr1$wyyU8NqI$LW3/Zog3wKWNE2tVHviXm/";

/// A line of `htpasswd -nbs`.
fn sha1(name: &str, password: &str) -> String {
    let algorithm = &ring::digest::SHA1_FOR_LEGACY_USE_ONLY;
    let digest = ring::digest::digest(algorithm, password.as_bytes());
    format!("{name}:{{SHA}}{}", STANDARD.encode(digest))
}

/// A Secret with these lines.
fn secret(name: &str, lines: &[&str]) -> String {
    let file = lines.join("\\n");
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{auth: \"{file}\"}}\n"
    )
}

/// A policy with the users of the Secret `users`, and `more` of its fields.
fn users(more: &str) -> String {
    format!("basicAuth: {{secretRefs: [{{name: users}}], realm: shop{more}}}")
}

fn with_password(name: &str, password: &str) -> Vec<String> {
    let pair = STANDARD.encode(format!("{name}:{password}"));
    vec![format!("Authorization: Basic {pair}")]
}

fn of_alice() -> Vec<String> {
    with_password("alice", "hush-alice")
}

trait WithUsers {
    /// Three users, each with a password hashed in another way.
    fn with_users(self) -> Self;
}

impl WithUsers for GatewayBuilder {
    fn with_users(self) -> Self {
        let carol = sha1("carol", "hush-carol");
        self.document(&secret("users", &[ALICE, "", "# old ones", BOB, &carol]))
    }
}

#[track_caller]
fn expect_refused(answer: &Message, text: &str) {
    assert_eq!(answer.status(), 401, "{answer}");
    assert_eq!(answer.text(), text);
    assert_eq!(
        answer.value("www-authenticate"),
        Some("Basic realm=\"shop\", charset=\"UTF-8\"")
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
    fn the_password_of_a_user_is_accepted_and_tells_its_name(pair) {
        let origin = origin();
        let policy = users(", userHeader: X-User");
        let gateway = pair.gateway_to(&origin).with_users().policy(&policy).start();
        let mut client = pair.client(&gateway);
        for name in ["alice", "bob", "carol", "alice"] {
            let mut lines = with_password(name, &format!("hush-{name}"));
            lines.extend(["X-User: root", "X_User: root"].map(str::to_owned));
            assert_eq!(asks(&mut client, "/", &lines).status(), 200, "{name}");
            let request = origin.take().0.remove(0);
            assert_eq!(request.values("X-User"), [name]);
            for gone in ["X_User", "Authorization"] {
                assert!(!request.has(gone), "{gone} in {request}");
            }
        }
        expect_needed(&asks(&mut client, "/", &[]));
        expect_needed(&asks(&mut client, "/", &bearer("x")));
        for (name, password) in [
            ("alice", "hush-bob"), ("alice", ""), ("Alice", "hush-alice"), ("dave", "hush-alice"), ("", ""),
        ] {
            for _ in 0..2 {
                expect_wrong(&asks(&mut client, "/", &with_password(name, password)));
            }
        }
        for malformed in ["Basic", "Basic hush", "Basic YWxpY2U=", "Basic YTpiCg=="] {
            expect_wrong(&asks(&mut client, "/", &[format!("Authorization: {malformed}")]));
        }
        let twice = asks(&mut client, "/", &[of_alice(), of_alice()].concat());
        assert_eq!(twice.status(), 400, "{twice}");
        assert_eq!(twice.text(), "the request has more than one credential of a kind\n");
        assert!(origin.requests().is_empty());
    }
}

on_both_drivers! {
    fn rules_and_rate_limits_know_the_user(driver) {
        let origin = origin();
        let policy = format!(
            "{}\n  authorization: {{deny: [{{when: \"claims.auth != 'basic' || claims.sub == 'bob'\"}}]}}\n  \
             rateLimit: {{rules: [{{name: each, key: [{{claim: sub}}], requests: 1, per: Day}}]}}",
            users("")
        );
        let gateway = gateway(driver).shards(1).routes_to(&origin).with_users().policy(&policy).start();
        let mut client = gateway.client();
        let mut status = |name: &str| {
            asks(&mut client, "/", &with_password(name, &format!("hush-{name}"))).status()
        };
        assert_eq!([status("alice"), status("alice"), status("bob"), status("carol")], [200, 429, 403, 200]);
    }

    fn where_it_is_optional_only_a_wrong_password_is_refused(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).with_users().policy(&users(", mode: Optional")).start();
        let mut client = gateway.client();
        let mut status = |lines: &[String]| asks(&mut client, "/", lines).status();
        assert_eq!([status(&[]), status(&bearer("x")), status(&of_alice())], [200; 3]);
        assert_eq!(status(&with_password("alice", "x")), 401);
        let requests = origin.requests();
        // What is no password passes as it is.
        let has = |it: &Message| it.has("Authorization");
        assert_eq!(requests.iter().map(has).collect::<Vec<_>>(), [false, true, false]);
    }

    /// The second request of a pair is served by whatever shard it comes to, without a check.
    fn a_password_is_checked_once_for_all_shards(driver) {
        let origin = origin();
        let gateway = gateway(driver).shards(2).routes_to(&origin).with_users().policy(&users("")).inspected().start();
        for _ in 0..8 {
            assert_eq!(asks(&mut gateway.client(), "/", &of_alice()).status(), 200);
        }
        let sum = |reason: &str, count| {
            waits_for_sum(&gateway, "gateway_basic_auth_results_total", &[reason], count);
        };
        sum("reason=\"verified\"", 1.0);
        sum("reason=\"verified_before\"", 7.0);
        for _ in 0..3 {
            expect_wrong(&asks(&mut gateway.client(), "/", &with_password("alice", "x")));
            expect_wrong(&asks(&mut gateway.client(), "/", &with_password("dave", "x")));
        }
        sum("result=\"denied\"", 6.0);
        // Nor does a typo lock its user out.
        assert_eq!(asks(&mut gateway.client(), "/", &of_alice()).status(), 200);
    }

    fn a_wrong_password_that_is_repeated_is_refused_without_a_check(driver) {
        let origin = origin();
        let gateway = gateway(driver).shards(1).routes_to(&origin).with_users().policy(&users("")).inspected().start();
        let mut client = gateway.client();
        // The first one may have taken more than a second until the second is sent.
        for _ in 0..10 {
            expect_wrong(&asks(&mut client, "/", &with_password("alice", "x")));
        }
        let text = asks_admin(&gateway, "metrics", "GET", "/metrics").text();
        let repeated = text.lines().find(|it| it.contains("reason=\"wrong_before\"") && it.contains("basic_auth"));
        let count = repeated.and_then(|it| it.rsplit(' ').next()?.parse::<f64>().ok());
        assert!(count.is_some_and(|count| count >= 5.0), "{repeated:?}");
    }

    fn each_credential_that_a_request_has_must_be_valid(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let token = signer.signs("key", &claims());
        let token = vec![format!("X-Token: {token}")];
        let (wrong_token, user, wrong) = (vec!["X-Token: x".to_owned()], of_alice(), with_password("alice", "x"));
        for (more, of_one) in [("", 200), ("\n  requireAll: true", 401)] {
            let jwt = tokens("Strict", &signer, ", from: {header: {name: X-Token}}");
            let policy = format!("{jwt}\n  {}{more}", users(""));
            let gateway = gateway(driver).routes_to(&origin).with_users().policy(&policy).start();
            let mut client = gateway.client();
            let mut status = |lines: &[&[String]]| asks(&mut client, "/", &lines.concat()).status();
            assert_eq!(status(&[]), 401);
            assert_eq!([status(&[&token]), status(&[&user])], [of_one; 2], "{more}");
            assert_eq!(status(&[&token, &user]), 200);
            assert_eq!([status(&[&token, &wrong]), status(&[&wrong_token, &user])], [401; 2]);
        }
        let rule = "authorization: {allow: [{when: \"claims.auth == 'jwt' && claims.sub == 'alice'\"}]}";
        let policy = format!("{}\n  {}\n  {rule}", tokens("Strict", &signer, ", from: {header: {name: X-Token}}"), users(""));
        let gateway = gateway(driver).routes_to(&origin).with_users().policy(&policy).start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &[token, user.clone()].concat()).status(), 200);
        assert_eq!(asks(&mut client, "/", &user).status(), 403);
    }

    /// With a hash of cost 13, a check takes half a second of a core. None of it is of the only shard.
    fn a_check_that_takes_long_holds_up_no_other_request(driver) {
        let origin = origin();
        let costly = ALICE.replace("$04$", "$13$");
        let policy = users(", mode: Optional");
        let gateway = gateway(driver).shards(1).routes_to(&origin).document(&secret("users", &[&costly])).policy(&policy);
        let gateway = gateway.start();
        let lines = of_alice().concat();
        let mut guesser = gateway.client();
        guesser.sends(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n\r\n"));
        let mut other = gateway.client();
        for _ in 0..8 {
            assert_eq!(asks(&mut other, "/", &[]).status(), 200);
        }
        guesser.expects_silence_for(Duration::from_millis(1));
    }

    /// Who has no key must not learn whether a password is right.
    fn where_all_are_needed_a_password_is_not_looked_at_without_a_key(driver) {
        let origin = origin();
        let keys = "apiKeys: {secretRefs: [{name: keys}], from: {header: {name: X-Key}}}";
        let policy = format!("{}\n  {keys}\n  requireAll: true", users(""));
        let keys = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {acme: hush-acme-0123456789}\n";
        let gateway =
            gateway(driver).routes_to(&origin).with_users().document(keys).policy(&policy).inspected().start();
        let mut client = gateway.client();
        let parts = |answer: &Message| (answer.status(), answer.values("www-authenticate").join("; "), answer.text());
        for key in [vec![], vec!["X-Key: hush-wrong-0123456789".to_owned()]] {
            let without = parts(&asks(&mut client, "/", &key));
            for user in [of_alice(), with_password("alice", "x"), with_password("dave", "x")] {
                let answer = asks(&mut client, "/", &[key.clone(), user].concat());
                assert_eq!(parts(&answer), without, "{key:?}");
            }
        }
        waits_for_sum(&gateway, "gateway_basic_auth_results_total", &[], 0.0);
        let key = vec!["X-Key: hush-acme-0123456789".to_owned()];
        assert_eq!(asks(&mut client, "/", &key).status(), 401);
        assert_eq!(asks(&mut client, "/", &[key, of_alice()].concat()).status(), 200);
    }

    fn an_authorization_server_gets_no_password(driver) {
        let (auth, app) = (origin().replies(allow("")), origin().replies(ok("app")));
        let gateway = gateway_with_auth(driver, &auth, &app, "").with_users().policy(&users("")).start();
        assert_eq!(asks(&mut gateway.client(), "/", &of_alice()).status(), 200);
        for (side, request) in [("server", auth.only_request()), ("backend", app.only_request())] {
            assert!(!request.has("Authorization"), "{side}: {request}");
        }
    }

    fn lines_that_are_no_users_admit_nobody_and_are_named_by_number(driver) {
        let origin = origin();
        let (carol, twice) = (sha1("carol", "hush-carol"), sha1("dave", "hush-dave"));
        let lines = [ALICE, "erin:hush-erin", &twice, &carol, "hush-frank", &twice];
        let gateway = gateway(driver)
            .routes_to(&origin)
            .document(&secret("users", &lines))
            .policy(&users(""))
            .start();
        let mut client = gateway.client();
        let mut status = |name: &str| {
            asks(&mut client, "/", &with_password(name, &format!("hush-{name}"))).status()
        };
        assert_eq!([status("alice"), status("carol")], [200; 2]);
        assert_eq!([status("dave"), status("erin"), status("frank")], [401; 3]);
        let log = gateway.log();
        for text in [
            "line 2 has no hash of bcrypt, apr1 or SHA-1",
            "lines 3 and 6 are of the same user",
            "line 5 has no colon",
        ] {
            assert!(log.contains(text), "{text}: {log}");
        }
        assert!(!log.contains("hush-"), "{log}");
    }

    fn users_of_an_unreadable_secret_stay_and_those_of_a_deleted_one_end(driver) {
        let origin = origin();
        let policy = "basicAuth: {secretRefs: [{name: users}, {name: next}], realm: shop}";
        let next = |lines: &[&str]| secret("next", lines);
        let with = |documents: &[&String]| {
            let builder = gateway(driver).routes_to(&origin).with_users().policy(policy);
            documents.iter().fold(builder, |builder, document| builder.document(document))
        };
        let dave = sha1("dave", "hush-dave");
        let gateway = with(&[&next(&[&dave])]).start();
        let mut client = gateway.client();
        let mut status = |name: &str| {
            let answer = asks(&mut client, "/", &with_password(name, &format!("hush-{name}")));
            if answer.status() == 503 {
                assert_eq!(answer.text(), "credentials cannot be checked at the moment\n");
            }
            answer.status()
        };
        assert_eq!([status("alice"), status("dave"), status("erin")], [200, 200, 401]);
        gateway.reconfigure(&with(&[&next(&["hush-garbage"])]));
        gateway.waits_for_log("its previous users stay, 1 of them");
        assert_eq!([status("alice"), status("dave"), status("erin")], [200, 200, 401]);
        gateway.reconfigure(&with(&[]));
        gateway.waits_for_applied(2);
        assert_eq!([status("alice"), status("dave"), status("erin")], [200, 503, 503]);
        // A wrong password of a user who is known is one.
        assert_eq!(asks(&mut gateway.client(), "/", &with_password("alice", "x")).status(), 401);
        gateway.reconfigure(&with(&[&next(&[&dave])]));
        gateway.waits_for_applied(3);
        assert_eq!(status("dave"), 200);
        // Without a line, nothing of it stays.
        gateway.reconfigure(&with(&[&next(&["# nobody"])]));
        gateway.waits_for_applied(4);
        assert_eq!([status("alice"), status("dave")], [200, 503]);
    }

    /// The new password comes beside the old one, which goes once nobody uses it.
    fn a_password_is_replaced_without_a_failed_request(driver) {
        let origin = origin();
        let policy = "basicAuth: {secretRefs: [{name: users}, {name: next}], realm: shop}";
        let (old, other) = (secret("users", &[ALICE]), sha1("bob", "x"));
        let (new, empty) = (sha1("alice", "hush-new"), secret("next", &[&other]));
        let new = secret("next", &[&new]);
        let with = |secrets: &[&String]| {
            let builder = gateway(driver).shards(2).routes_to(&origin).policy(policy);
            secrets.iter().fold(builder, |builder, secret| builder.document(secret))
        };
        let gateway = with(&[&old, &empty]).start();
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut client = gateway.client();
            let has_ended = &has_ended;
            let client = scope.spawn(move || {
                let mut served = 0;
                while !has_ended.load(Ordering::Relaxed) {
                    let answer = asks(&mut client, "/", &of_alice());
                    assert_eq!(answer.status(), 200, "{answer}");
                    served += 1;
                }
                served
            });
            for version in 2..=5 {
                let has_new = version % 2 == 0;
                gateway.reconfigure(&with(&[&old, if has_new { &new } else { &empty }]));
                gateway.waits_for_applied(version);
                let status = asks(&mut gateway.client(), "/", &with_password("alice", "hush-new")).status();
                assert_eq!(status, if has_new { 200 } else { 401 }, "{version}");
            }
            has_ended.store(true, Ordering::Relaxed);
            assert!(client.join().expect("no failed request") > 0);
        });
        gateway.reconfigure(&with(&[&secret("users", &[&other]), &new]));
        gateway.waits_for_applied(6);
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &with_password("alice", "hush-new")).status(), 200);
        expect_wrong(&asks(&mut client, "/", &of_alice()));
    }

    fn a_password_is_in_no_log_dump_or_trace(driver) {
        let origin = origin();
        let policy = format!("{}\n  accessLog: {{format: json, sample: 1}}", users(""));
        let gateway = gateway(driver).routes_to(&origin).with_users().policy(&policy).inspected().start();
        let mut client = gateway.client();
        for (target, lines, status, detail) in [
            ("/", of_alice(), 200, "by the password of `alice`, which was checked"),
            ("/", of_alice(), 200, "by the password of `alice`, which was checked before"),
            ("/", with_password("alice", "hush-wrong"), 401, "wrong_password"),
            ("/", with_password("hush-name", "hush-wrong"), 401, "unknown_user"),
            ("/last", vec![], 401, "without a password"),
        ] {
            let mut watcher = watches(&gateway, "");
            assert_eq!(asks(&mut client, target, &lines).status(), status, "{target}");
            let traced = serde_json::to_string(&events(&mut watcher)).expect("JSON");
            assert!(traced.contains("basicAuth TrafficPolicy/default/"), "{traced}");
            assert!(traced.contains(detail), "{detail}: {traced}");
            assert!(!traced.contains("hush-") && !traced.contains("aHVzaC"), "{traced}");
        }
        let log = gateway.waits_for_access_log("/last");
        assert!(log.contains("\"user\":\"alice\"") && log.contains("\"reason\":\"wrong_credentials\""), "{log}");
        let dump = asks_admin(&gateway, "admin", "GET", "/config_dump").text();
        assert!(dump.contains("\"users\":[\"alice\",\"bob\",\"carol\"]"), "{dump}");
        for (place, text) in [("access log", &log), ("log", &gateway.log()), ("dump", &dump)] {
            for secret in ["hush-", "aHVzaC", "$2y$", "$apr1$", "{SHA}", "YWxpY2U6"] {
                assert!(!text.contains(secret), "{secret} in {place}: {text}");
            }
        }
        for request in origin.requests() {
            assert!(!request.to_string().contains("hush-"), "{request}");
        }
    }

    fn passwords_of_a_route_are_no_way_past_the_tokens_of_an_overriding_policy(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: rule, backendRefs: [{@origin}]}")
            .with_users()
            .policy(&format!("precedence: Overrides\n  {}", tokens("Strict", &signer, "")))
            .policy_of("HTTPRoute/route-0", &users(""))
            .start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &of_alice()).status(), 401);
        assert_eq!(asks(&mut client, "/", &bearer(&signer.signs("key", &claims()))).status(), 200);
    }

    fn an_invalid_policy_of_passwords_opens_nothing(driver) {
        for fields in [
            "basicAuth:",
            "basicAuth: {}",
            "basicAuth: {secretRefs: []}",
            "basicAuth: {secretRefs: [{name: users}, {name: users}]}",
            "basicAuth: {secretRefs: [{name: users}], mode: Lax}",
            "basicAuth: {secretRefs: [{name: users}]}\n  requireAll: true",
            "basicAuth: {secretRefs: [{name: users}]}\n  \
             apiKeys: {secretRefs: [{name: users}], from: {header: {name: Authorization, prefix: 'Basic '}}}",
            "basicAuht: {secretRefs: [{name: users}]}",
        ] {
            let origin = origin();
            let gateway = gateway(driver).routes_to(&origin).with_users().policy(fields).start();
            let answer = asks(&mut gateway.client(), "/", &of_alice());
            assert_eq!(answer.status(), 503, "{fields}: {answer}");
            assert!(origin.requests().is_empty());
        }
    }
}

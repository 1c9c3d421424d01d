//! Key sets: fetched from a real origin, which may be slow, broken, unavailable, or have new keys.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::pki::authority;
use crate::support::{
    ClientCertificates, Driver, Gate, Gateway, GatewayBuilder, Origin, Reply, Signer, TIMEOUT,
    gateway, key_set, ok, on_both_drivers, origin, raw, status, tls_origin,
};

use super::jwt::{asks, bearer, claims};
use super::metrics::waits_for_sum;

/// A policy with this source of keys.
pub(super) fn policy(remote: &str) -> String {
    policy_of("https://issuer.test", remote)
}

pub(super) fn policy_of(issuer: &str, remote: &str) -> String {
    format!(
        "jwt: {{providers: [{{name: idp, issuer: '{issuer}', audiences: [api], \
         jwks: {{remote: {{{remote}}}}}}}]}}"
    )
}

pub(super) fn by_url(keys: &Origin) -> String {
    policy(&format!("url: 'http://{}/keys'", keys.address()))
}

/// An origin of this signer's key, `key`.
pub(super) fn keys_of(signer: &Signer) -> Origin {
    origin().replies_to("/keys", ok(key_set(&[signer.jwk("key")])))
}

pub(super) fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver).routes_to(origin)
}

/// The status of a request with a token of this key.
pub(super) fn status_of(gateway: &Gateway, signer: &Signer, id: &str) -> u16 {
    let token = bearer(&signer.signs(id, &claims()));
    asks(&mut gateway.client(), "/", &token).status()
}

/// Sends requests until one gets this status.
#[track_caller]
pub(super) fn waits_for_status(gateway: &Gateway, signer: &Signer, id: &str, status: u16) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let actual = status_of(gateway, signer, id);
        if actual == status {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "still {actual}\n{}",
            gateway.log()
        );
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

on_both_drivers! {
    fn keys_are_fetched_before_the_first_request(driver) {
        let (app, signer) = (origin(), Signer::rsa());
        let keys = keys_of(&signer);
        let by_backend = policy("backendRef: {@keys}, path: /keys");
        for policy in [by_url(&keys), by_backend] {
            let gateway = gateway_to(&app, driver)
                .backend("keys", &[keys.address()])
                .policy(&policy)
                .start();
            assert_eq!(status_of(&gateway, &signer, "key"), 200, "{policy}");
            assert_eq!(status_of(&gateway, &Signer::p256(), "key"), 401);
        }
        assert_eq!(keys.requests().len(), 2, "once each");
    }

    fn a_token_of_a_new_key_waits_for_the_fetch_and_is_accepted(driver) {
        let (app, old, new) = (origin(), Signer::p256(), Signer::ed25519());
        let keys = origin().replies(ok(key_set(&[old.jwk("old")])));
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        let cached = bearer(&old.signs("old", &claims()));
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &cached).status(), 200);
        keys.now_replies(ok(key_set(&[new.jwk("new")])));
        assert_eq!(status_of(&gateway, &new, "new"), 200);
        assert_eq!(asks(&mut client, "/", &cached).status(), 401, "no longer from the cache");
    }

    fn no_good_token_is_refused_while_keys_change_under_load(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let rotated = |number: usize| ok(key_set(&[signer.jwk(&format!("key-{number}")), signer.jwk(&format!("key-{}", number + 1))]));
        let keys = origin().replies(ok(key_set(&[signer.jwk("key-0")])));
        let gateway = gateway_to(&app, driver).shards(2).policy(&by_url(&keys)).start();
        let current = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let asking = [(); 4].map(|()| scope.spawn(|| {
                let mut client = gateway.client();
                loop {
                    let number = current.load(Ordering::Acquire);
                    if number > 3 {
                        return;
                    }
                    let token = bearer(&signer.signs(&format!("key-{number}"), &claims()));
                    let answer = asks(&mut client, "/", &token);
                    assert_eq!(answer.status(), 200, "key-{number}\n{answer}");
                }
            }));
            for number in 1..=4 {
                app.waits_for_requests(app.requests().len() + 20);
                // The next token is signed with the new key immediately, as with Keycloak.
                keys.now_replies(rotated(number - 1));
                current.store(number, Ordering::Release);
            }
            for client in asking {
                client.join().expect("every token is let in");
            }
        });
    }

    fn unknown_key_ids_neither_overload_the_issuer_nor_delay_new_keys(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let keys = origin().replies(ok(key_set(&[signer.jwk("key")])));
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        let (began, is_over) = (Instant::now(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for flooder in 0..16 {
                let (gateway, signer, is_over) = (&gateway, &signer, &is_over);
                scope.spawn(move || {
                    let mut client = gateway.client();
                    for number in 0.. {
                        if is_over.load(Ordering::Acquire) {
                            return;
                        }
                        let made_up = bearer(&signer.signs(&format!("{flooder}-{number}"), &claims()));
                        assert_eq!(asks(&mut client, "/", &made_up).status(), 401);
                    }
                });
            }
            // Several fetches for nothing, and then a key that is real.
            keys.waits_for_requests(4);
            keys.now_replies(ok(key_set(&[signer.jwk("key"), signer.jwk("new")])));
            let status = status_of(&gateway, &signer, "new");
            is_over.store(true, Ordering::Release);
            assert_eq!(status, 200, "{}", gateway.log());
        });
        let (fetches, seconds) = (keys.requests().len(), began.elapsed().as_secs());
        assert!(fetches as u64 <= seconds + 2, "{fetches} in {seconds} s: one a second");
    }

    fn a_key_known_to_be_missing_is_not_requested_again(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let keys = keys_of(&signer);
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        for _ in 0..20 {
            assert_eq!(status_of(&gateway, &signer, "revoked"), 401);
        }
        assert_eq!(keys.requests().len(), 2, "the first, and one for the key");
    }

    fn tokens_of_an_untrusted_realm_are_rejected(driver) {
        let app = origin();
        let realms = ["https://idp.test/realms/a", "https://idp.test/realms/b"];
        // Both have a key of the same id.
        let (signers, paths) = ([Signer::p256(), Signer::p256()], ["/a", "/b"]);
        let [a, b] = signers.each_ref().map(keys_of);
        let mut builder = gateway(driver).backend("app", &[app.address()]);
        for ((path, realm), keys) in paths.into_iter().zip(realms).zip([&a, &b]) {
            let name = &path[1..];
            builder = builder
                .rule(&format!("{{name: {name}, matches: [{{path: {{value: {path}}}}}], backendRefs: [{{@app}}]}}"))
                .policy_of(
                    &format!("HTTPRoute/route-0/{name}"),
                    &policy_of(realm, &format!("url: 'http://{}/keys'", keys.address())),
                );
        }
        let gateway = builder.start();
        let mut client = gateway.client();
        let mut status = |path: &str, signer: &Signer, realm: &str| {
            let mut claims = claims();
            claims["iss"] = realm.into();
            asks(&mut client, path, &bearer(&signer.signs("key", &claims))).status()
        };
        // Twice: verified tokens are remembered.
        for _ in 0..2 {
            for (own, other) in [(0, 1), (1, 0)] {
                let (signer, realm) = (&signers[own], realms[own]);
                assert_eq!(status(paths[own], signer, realm), 200, "{realm}");
                assert_eq!(status(paths[other], signer, realm), 401, "{realm}");
                // A key of one realm cannot sign for the other.
                for path in paths {
                    assert_eq!(status(path, signer, realms[other]), 401, "{realm} at {path}");
                }
            }
        }
        assert_eq!(app.requests().len(), 4);
    }

    fn encryption_keys_do_not_verify_tokens(driver) {
        let (app, signing, encrypting) = (origin(), Signer::rsa(), Signer::rsa());
        let mut other: serde_json::Value = encrypting.jwk("enc");
        other["use"] = "enc".into();
        other["alg"] = "RSA-OAEP".into();
        let keys = origin().replies(ok(key_set(&[other, signing.jwk("sig")])));
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &signing, "sig"), 200);
        assert_eq!(status_of(&gateway, &encrypting, "enc"), 401);
    }

    fn the_keys_of_a_policy_stay_until_those_of_its_new_address_are_fetched(driver) {
        let (app, old, new) = (origin(), Signer::p256(), Signer::ed25519());
        let set = key_set(&[new.jwk("new")]);
        let slow = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{set}", set.len());
        let (keys, gate) = (keys_of(&old), Gate::default());
        let moved = origin().replies(Reply::at_once().waits_for(&gate).sends(slow));
        let gateway = gateway_to(&app, driver).inspected().policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &old, "key"), 200);
        gateway.reconfigure(&gateway_to(&app, driver).inspected().policy(&by_url(&moved)));
        gateway.waits_for_applied(2);
        assert_eq!(status_of(&gateway, &old, "key"), 200, "{}", gateway.log());
        waits_for_sum(&gateway, "gateway_jwks_missing", &[], 1.0);
        gate.open();
        waits_for_status(&gateway, &new, "new", 200);
        assert_eq!(status_of(&gateway, &old, "key"), 401, "they were replaced");
        waits_for_sum(&gateway, "gateway_jwks_missing", &[], 0.0);
    }

    fn keys_that_a_policy_no_longer_contains_end_at_once(driver) {
        let (app, old, new) = (origin(), Signer::p256(), Signer::ed25519());
        let inline = |signer: &Signer| {
            let keys = key_set(&[signer.jwk("key")]);
            policy("").replace("remote: {}", &format!("inline: '{keys}'"))
        };
        let (good, hanging) = (keys_of(&new), origin().replies(Reply::at_once().stalls()));
        for (after, expected) in [(inline(&new), 401), (by_url(&good), 401), (by_url(&hanging), 503)] {
            let gateway = gateway_to(&app, driver).policy(&inline(&old)).start();
            assert_eq!(status_of(&gateway, &old, "key"), 200);
            gateway.reconfigure(&gateway_to(&app, driver).policy(&after));
            gateway.waits_for_applied(2);
            if expected == 401 {
                // The first fetch is waited for.
                assert_eq!(status_of(&gateway, &new, "key"), 200, "{after}");
            }
            assert_eq!(status_of(&gateway, &old, "key"), expected, "{after}");
        }
    }

    fn an_issuer_that_a_policy_no_longer_names_is_not_trusted_while_keys_are_awaited(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let keys = keys_of(&signer);
        let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
        assert_eq!(status_of(&gateway, &signer, "key"), 200);
        let stalled = origin().replies(Reply::at_once().stalls());
        let elsewhere = policy_of("https://other.test", &format!("url: 'http://{}/keys'", stalled.address()));
        gateway.reconfigure(&gateway_to(&app, driver).policy(&elsewhere));
        gateway.waits_for_applied(2);
        assert_eq!(status_of(&gateway, &signer, "key"), 401);
    }

    fn keys_end_with_the_backend_that_they_come_from(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let keys = keys_of(&signer);
        let gateway = gateway_to(&app, driver)
            .backend("keys", &[keys.address()])
            .policy(&policy("backendRef: {@keys}, path: /keys"))
            .start();
        assert_eq!(status_of(&gateway, &signer, "key"), 200);
        let nothing = "backendRef: {group: gateway-system.io, kind: Backend, name: none}, path: /keys";
        gateway.reconfigure(&gateway_to(&app, driver).policy(&policy(nothing)));
        gateway.waits_for_applied(2);
        assert_eq!(status_of(&gateway, &signer, "key"), 503);
    }

    fn an_invalid_key_set_rejects_every_token(driver) {
        let (app, signer, elsewhere) = (origin(), Signer::p256(), origin());
        let set = key_set(&[signer.jwk("key")]);
        let huge = format!("{{\"x\":\"{}\",{}", "x".repeat(1024 * 1024), &set[1..]);
        let elsewhere = elsewhere.replies(ok(&set));
        let moved = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{}/keys\r\nContent-Length: 0\r\n\r\n",
            elsewhere.address()
        );
        let many = vec![signer.jwk("key"); 101];
        for (reply, expected) in [
            (ok(key_set(&[])), 401),
            (ok(&set[..set.len() - 1]), 503),
            (ok("<html></html>"), 503),
            (ok(""), 503),
            (ok(huge), 503),
            (ok(key_set(&many)), 503),
            (raw(moved), 503),
            (status(500), 503),
            (Reply::at_once().resets(), 503),
        ] {
            let keys = origin().replies(reply.clone());
            let gateway = gateway_to(&app, driver).policy(&by_url(&keys)).start();
            assert_eq!(status_of(&gateway, &signer, "key"), expected, "{reply:?}");
        }
        assert!(app.requests().is_empty());
        assert!(elsewhere.requests().is_empty(), "requests are not redirected");
    }

    fn keys_are_kept_across_configuration_changes(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let keys = keys_of(&signer);
        let before = gateway_to(&app, driver).policy(&by_url(&keys));
        let gateway = before.clone().start();
        assert_eq!(status_of(&gateway, &signer, "key"), 200);
        keys.stop();
        let changed = origin().replies(status(204));
        gateway.reconfigure(&before.without_rules().routes_to(&changed));
        waits_for_status(&gateway, &signer, "key", 204);
        assert_eq!(keys.requests().len(), 1);
    }

    fn the_tls_policy_of_a_backend_applies_to_key_requests(driver) {
        let (app, signer, ca) = (origin(), Signer::p256(), authority("ca"));
        let validation = "hostname: keys.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
        for (name, expected) in [("keys.test", 200), ("other.test", 503)] {
            let keys = tls_origin(&ca.server(&[name]), ClientCertificates::Nobody);
            keys.now_replies(ok(key_set(&[signer.jwk("key")])));
            let gateway = gateway_to(&app, driver)
                .authority("ca", &ca)
                .backend("keys", &[keys.address()])
                .backend_tls("keys", validation)
                .policy(&policy("backendRef: {@keys}, path: /keys"))
                .start();
            assert_eq!(status_of(&gateway, &signer, "key"), expected, "{name}");
            if expected == 200 {
                assert_eq!(keys.handshakes()[0].sni.as_deref(), Some("keys.test"));
                assert_eq!(keys.only_request().value("host"), Some("keys.test"));
            }
        }
    }

    fn an_https_url_is_verified_with_the_system_roots(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let (ca, stranger) = (authority("ca"), authority("stranger"));
        let roots = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(roots.path(), ca.pem()).expect("our own file");
        for (vouches, expected) in [(&ca, 200), (&stranger, 503)] {
            let keys = tls_origin(&vouches.server(&["localhost"]), ClientCertificates::Nobody);
            keys.now_replies(ok(key_set(&[signer.jwk("key")])));
            let url = format!("url: 'https://localhost:{}/keys'", keys.address().port());
            let gateway = gateway_to(&app, driver)
                .environment("SSL_CERT_FILE", &roots.path().display().to_string())
                .policy(&policy(&url))
                .start();
            assert_eq!(status_of(&gateway, &signer, "key"), expected, "{}", gateway.log());
        }
    }

    fn a_dangling_key_reference_rejects_every_token(driver) {
        let (app, signer) = (origin(), Signer::p256());
        let nothing = "backendRef: {group: gateway-system.io, kind: Backend, name: none}, path: /keys";
        let gateway = gateway_to(&app, driver).policy(&policy(nothing)).start();
        assert_eq!(status_of(&gateway, &signer, "key"), 503);
        assert!(app.requests().is_empty());
    }
}

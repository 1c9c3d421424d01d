//! Session keys of files: gateways with the same key share sessions, and a new key moves none.

use std::path::{Path, PathBuf};
use tempfile::TempDir;

use crate::support::session::{COOKIE, Session, ask, assert_held, assert_none_moves, sessions};
use crate::support::{Driver, GatewayBuilder, Origin, gateway, ok, on_both_drivers, origin};

/// 32 bytes in base64.
const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
const THREE: &str = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";

struct Scene {
    origins: [Origin; 3],
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self {
            origins: ["a", "b", "c"].map(|name| origin().replies(ok(name))),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// A key file of this content.
    fn key(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        replace(&path, content);
        path
    }

    /// A gateway with these key files.
    fn gateway(&self, driver: Driver, keys: &[&Path]) -> GatewayBuilder {
        let addresses = self.origins.iter().map(Origin::address);
        let addresses: Vec<_> = addresses.collect();
        let gateway = gateway(driver).backend("all", &addresses).rule(COOKIE);
        keys.iter().fold(gateway, |gateway, key| {
            gateway.argument(&format!("--session-key-file={}", key.display()))
        })
    }
}

/// Replaces a file as a mounted volume does: by a rename.
fn replace(path: &Path, content: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, content).expect("a file in our own folder");
    std::fs::rename(&fresh, path).expect("a file in our own folder");
}

on_both_drivers! {
    fn gateways_with_the_same_key_share_sessions(driver) {
        let scene = Scene::new();
        let key = scene.key("key", ONE);
        let one = scene.gateway(driver, &[&key]).shards(2).start();
        let other = scene.gateway(driver, &[&key]).shards(2).start();
        assert_held(&mut sessions(&one), &other);
        assert_held(&mut sessions(&other), &one);
    }

    fn a_restart_with_the_same_key_ends_no_session(driver) {
        let scene = Scene::new();
        let key = scene.key("key", ONE);
        let before = scene.gateway(driver, &[&key]).start();
        let mut sessions = sessions(&before);
        drop(before);
        let after = scene.gateway(driver, &[&key]).start();
        assert_held(&mut sessions, &after);
    }

    fn a_session_of_another_key_begins_anew_and_fails_nothing(driver) {
        let scene = Scene::new();
        let (one, two) = (scene.key("one", ONE), scene.key("two", TWO));
        let before = scene.gateway(driver, &[&one]).start();
        let after = scene.gateway(driver, &[&two]).start();
        for session in sessions(&before) {
            let response = ask(&mut after.client(), &format!("Cookie: {}", session.cookie));
            assert_held(&mut [Session::of(&response)], &after);
        }
    }

    fn the_first_key_file_signs_and_all_are_accepted(driver) {
        let scene = Scene::new();
        let (one, two) = (scene.key("one", ONE), scene.key("two", TWO));
        let old = scene.gateway(driver, &[&one]).start();
        let between = scene.gateway(driver, &[&two, &one]).start();
        let new = scene.gateway(driver, &[&two]).start();
        assert_held(&mut sessions(&old), &between);
        assert_held(&mut sessions(&between), &new);
        // A token of the key that does not sign is replaced by one of the key that does.
        let mut session = Session::begin(&mut old.client());
        let before = session.cookie.clone();
        assert!(session.holds(&mut between.client()));
        assert_ne!(session.cookie, before);
        assert!(session.holds(&mut new.client()));
    }

    fn new_keys_under_load_move_no_session_and_fail_nothing(driver) {
        let scene = Scene::new();
        let key = scene.key("key", ONE);
        let gateway = scene.gateway(driver, &[&key]).shards(2).start();
        assert_none_moves(&[&gateway], |waits| {
            for (number, content) in [TWO, THREE, ONE, TWO, THREE].into_iter().enumerate() {
                replace(&key, content);
                gateway.waits_for_applied(2 + number);
                waits();
            }
        });
    }

    fn a_file_without_a_key_changes_nothing(driver) {
        let scene = Scene::new();
        let key = scene.key("key", ONE);
        let gateway = scene.gateway(driver, &[&key]).start();
        let mut session = Session::begin(&mut gateway.client());
        replace(&key, "hunter2");
        gateway.waits_for_log("its previous key stays in use");
        assert!(gateway.log().contains("has 7"), "{}", gateway.log());
        assert!(!gateway.log().contains("hunter2"), "{}", gateway.log());
        assert!(session.holds(&mut gateway.client()));
        // Nor does one that is gone.
        std::fs::remove_file(&key).expect("it was there");
        gateway.waits_for_log("No such file");
        assert!(session.holds(&mut gateway.client()));
        replace(&key, TWO);
        gateway.waits_for_applied(2);
        assert!(session.holds(&mut gateway.client()));
    }

    fn a_gateway_does_not_start_without_its_key(driver) {
        let scene = Scene::new();
        let missing = scene.folder.path().join("missing");
        let short = scene.key("short", "hunter2");
        for (file, words) in [(&missing, "No such file"), (&short, "openssl rand -base64 32")] {
            let failure = scene.gateway(driver, &[file]).fails_with("");
            assert_eq!(failure.code, Some(1), "{}", failure.log);
            assert!(failure.log.contains(words), "{}", failure.log);
            assert!(!failure.log.contains("hunter2"), "{}", failure.log);
        }
    }

    fn a_key_is_in_no_log_dump_metric_or_trace(driver) {
        let scene = Scene::new();
        // Raw, so that it would be recognised in any form.
        let secret = "the secret that nobody may ever see";
        let key = scene.key("key", secret);
        let gateway = scene.gateway(driver, &[&key]).inspected()
            .environment("RUST_LOG", "trace").start();
        let mut session = Session::begin(&mut gateway.client());
        assert!(session.holds(&mut gateway.client()));
        replace(&key, &format!("{secret} again"));
        gateway.waits_for_applied(2);
        let fetched = |server: &str, path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            gateway.client_of(server).sends(request).expects(200).text()
        };
        let mut shown = vec![
            ("log", gateway.log()),
            ("metrics", fetched("metrics", "/metrics")),
        ];
        for path in ["/config_dump", "/debug/tasks", "/memory", "/logging"] {
            shown.push((path, fetched("admin", path)));
        }
        assert!(gateway.log().contains("not 32 bytes in base64"), "it is warned about");
        let hex = secret.bytes().map(|byte| format!("{byte:02x}"));
        let hex = hex.collect::<Vec<_>>().concat();
        let decimals = secret.bytes().take(8).map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        // "the secret that n" in base64.
        for (place, text) in shown {
            for form in [secret, hex.as_str(), decimals.as_str(), "dGhlIHNlY3JldCB0aGF0IG"] {
                assert!(!text.contains(form), "{place} has {form}");
            }
        }
    }
}

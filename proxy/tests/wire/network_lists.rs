//! The longest list of networks is replaced under load: no request fails, and each version takes effect.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::jwt::asks;
use crate::support::{Client, Driver, GatewayBuilder, Origin, gateway, on_both_drivers, origin};

/// Networks of a policy, at most.
const NETWORKS: usize = 65_536;
/// ConfigMaps that they are in: one has at most 1 MiB in a cluster.
const LISTS: usize = 2;

/// An address that every version accepts.
const ALWAYS: &str = "203.0.113.9";

/// An address that only this version accepts.
fn only(version: usize) -> String {
    format!("192.0.2.{version}")
}

/// A ConfigMap with its part of the networks of a version.
fn list(number: usize, version: usize) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: list-{number}}}\ndata:\n  networks.txt: |\n"
    );
    let of_all = match number {
        0 => "203.0.113.0/24".to_owned(),
        _ => only(version),
    };
    let _ = writeln!(text, "    {of_all}");
    for at in 1..NETWORKS / LISTS {
        // No version has a network of another.
        let (high, low) = (at / 256, at % 256);
        let _ = writeln!(text, "    10.{}.{high}.{low}", LISTS * version + number);
    }
    text
}

fn with_version(origin: &Origin, driver: Driver, version: usize) -> GatewayBuilder {
    let references = (0..LISTS).map(|number| format!("{{name: list-{number}, key: networks.txt}}"));
    let references = references.collect::<Vec<_>>().join(", ");
    let builder = gateway(driver).shards(2).routes_to(origin).policy(&format!(
        "trustedHops: 1\n  networks: {{allowFrom: [{references}]}}"
    ));
    (0..LISTS).fold(builder, |builder, number| {
        builder.document(&list(number, version))
    })
}

fn status(client: &mut Client, address: &str) -> u16 {
    asks(client, "/", &[format!("X-Forwarded-For: {address}")]).status()
}

/// Ends the requests of a test, also if it fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

on_both_drivers! {
    fn the_longest_lists_are_replaced_without_a_failed_request(driver) {
        const CLIENTS: usize = 4;
        let origin = origin();
        let gateway = with_version(&origin, driver, 1).start();
        let (has_ended, served) = (AtomicBool::new(false), AtomicUsize::new(0));
        let clients: Vec<Client> = (0..CLIENTS).map(|_| gateway.client()).collect();
        thread::scope(|scope| {
            let _ends = Ends(&has_ended);
            for mut client in clients {
                let (has_ended, served) = (&has_ended, &served);
                scope.spawn(move || {
                    let _ends = Ends(has_ended);
                    while !has_ended.load(Ordering::Relaxed) {
                        assert_eq!(status(&mut client, ALWAYS), 200);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut client = gateway.client();
            for version in 2..=4 {
                let before = served.load(Ordering::Relaxed);
                gateway.reconfigure(&with_version(&origin, driver, version));
                gateway.waits_for_applied(version);
                assert_eq!(status(&mut client, &only(version)), 200, "{version}");
                assert_eq!(status(&mut client, &only(version - 1)), 403, "{version}");
                assert_eq!(status(&mut client, &format!("10.{}.127.255", LISTS * version)), 200);
                assert_eq!(status(&mut client, &format!("10.{}.127.255", LISTS * version - 1)), 403);
                let meanwhile = served.load(Ordering::Relaxed) - before;
                assert!(meanwhile > CLIENTS, "only {meanwhile} requests while the lists changed");
            }
        });
    }
}

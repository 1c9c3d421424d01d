//! Against a DNS server of the test, over UDP.

use std::net::IpAddr;
use std::time::Duration;

use xds::model::Hostname;

use super::Resolver;
use crate::config::dns::sample::Server;

fn name(text: &str) -> Hostname {
    Hostname::parse(text).expect("a name")
}

#[tokio::test]
async fn a_name_resolves_to_all_addresses_with_the_ttl_of_the_record() {
    let server = Server::start();
    server.set_answer("known.test", 30, &["10.0.0.2", "10.0.0.1"]);
    let answer = server.resolver().lookup(&name("known.test")).await;
    let answer = answer.expect("it is known");
    let mut addresses: Vec<String> = answer.addresses.iter().map(IpAddr::to_string).collect();
    addresses.sort();
    assert_eq!(addresses, ["10.0.0.1", "10.0.0.2"]);
    let ttl = answer.ttl;
    assert!(
        ttl > Duration::from_secs(25) && ttl <= Duration::from_secs(30),
        "{ttl:?}"
    );
}

#[tokio::test]
async fn an_unknown_name_is_an_error() {
    let server = Server::start();
    let error = server.resolver().lookup(&name("unknown.test")).await;
    assert!(error.is_err(), "{error:?}");
}

#[tokio::test]
async fn localhost_resolves_to_loopback_addresses() {
    let answer = Resolver::system().lookup(&name("localhost")).await;
    let answer = answer.expect("every machine has it");
    assert!(answer.addresses.iter().all(IpAddr::is_loopback));
}

#[tokio::test]
async fn names_in_a_cluster_do_not_resolve_to_loopback_or_link_local_addresses() {
    let server = Server::start();
    server.set_answer(
        "inward.test",
        30,
        &["127.0.0.1", "169.254.169.254", "0.0.0.0"],
    );
    server.set_answer("mixed.test", 30, &["127.0.0.1", "10.0.0.1"]);
    let resolver = server.resolver().for_cluster();
    for inward in ["inward.test", "localhost", "a.localhost"] {
        let error = resolver.lookup(&name(inward)).await;
        assert!(error.is_err(), "{inward}: {error:?}");
    }
    let mixed = resolver.lookup(&name("mixed.test")).await;
    let outward: IpAddr = "10.0.0.1".parse().expect("an address");
    assert_eq!(mixed.expect("one is left").addresses, [outward]);
    let on_a_machine = server.resolver().lookup(&name("inward.test")).await;
    assert_eq!(on_a_machine.expect("all are").addresses.len(), 3);
}

#[tokio::test]
async fn names_in_a_cluster_are_absolute_except_those_of_services() {
    let server = Server::start();
    for service in ["db.victim.svc.cluster.local", "db.victim.cluster.local"] {
        server.set_answer(service, 30, &["10.0.0.1"]);
    }
    let search = ["svc.cluster.local", "cluster.local"].map(|it| it.parse().expect("a name"));
    let resolver = server.resolver_within(search.to_vec());
    let on_a_machine = resolver.lookup(&name("db.victim")).await;
    assert!(on_a_machine.is_ok(), "{on_a_machine:?}");
    let resolver = resolver.for_cluster();
    let relative = resolver.lookup(&name("db.victim")).await;
    assert!(relative.is_err(), "{relative:?}");
    for known in ["db.victim.svc", "db.victim.svc.cluster.local"] {
        let known = resolver.lookup(&name(known)).await;
        assert!(known.is_ok(), "{known:?}");
    }
}

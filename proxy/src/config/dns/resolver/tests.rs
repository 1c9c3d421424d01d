//! Against a name server of our own, which speaks real DNS over UDP.

use std::net::IpAddr;
use std::time::Duration;

use xds::model::Hostname;

use super::Resolver;
use crate::config::dns::sample::Server;

fn name(text: &str) -> Hostname {
    Hostname::parse(text).expect("a name")
}

#[tokio::test]
async fn a_name_comes_to_all_its_addresses_for_as_long_as_its_record_says() {
    let server = Server::start();
    server.say("known.test", 30, &["10.0.0.2", "10.0.0.1"]);
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
async fn a_name_that_nobody_knows_is_an_error() {
    let server = Server::start();
    let error = server.resolver().lookup(&name("unknown.test")).await;
    assert!(error.is_err(), "{error:?}");
}

#[tokio::test]
async fn the_machine_s_own_names_are_known() {
    let answer = Resolver::system().lookup(&name("localhost")).await;
    let answer = answer.expect("every machine has it");
    assert!(answer.addresses.iter().all(IpAddr::is_loopback));
}

//! Long connections are spread evenly over the shards, whatever the kernel's hash does.

use std::net::SocketAddr;

use crate::support::frames::{HEADERS, Peer, get};
use crate::support::{Client, Driver, Gateway, Origin, gateway, on_both_drivers, origin};

const CONNECTIONS: usize = 64;

on_both_drivers! {
    fn long_connections_are_spread_evenly(driver) {
        let (_origin, gateway) = start(driver);
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = gateway.client();
            client.gets("/").expects(200);
            clients.push(client);
        }
        let addresses: Vec<_> = clients.iter().map(Client::address).collect();
        assert_even(&gateway, &addresses);
        for client in &mut clients {
            client.gets("/").expects(200);
        }
    }

    fn long_connections_of_http_2_are_spread_evenly(driver) {
        let (_origin, gateway) = start(driver);
        let mut peers: Vec<Peer> = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut peer = Peer::client(gateway.address());
            peer.sends(get(1));
            assert_eq!(peer.next_of(HEADERS).status(), Some(200));
            peers.push(peer);
        }
        let addresses: Vec<_> = peers.iter().map(Peer::address).collect();
        assert_even(&gateway, &addresses);
        for peer in &mut peers {
            peer.sends(get(3));
            assert_eq!(peer.next_of(HEADERS).stream, 3);
        }
    }
}

fn start(driver: Driver) -> (Origin, Gateway) {
    let origin = origin();
    let gateway = gateway(driver)
        .routes_to(&origin)
        .shards(2)
        .environment("RUST_LOG", "info,proxy::server=trace")
        .start();
    (origin, gateway)
}

/// Each of two shards serves half of these clients, or nearly so.
#[track_caller]
fn assert_even(gateway: &Gateway, clients: &[SocketAddr]) {
    let ends: Vec<String> = clients
        .iter()
        .map(|client| format!(":{}", client.port()))
        .collect();
    for end in &ends {
        gateway.waits_for_log(&format!("{end}\n"));
    }
    let log = gateway.log();
    let of_shard = |shard: u8| {
        let lines = log.lines().filter(|line| {
            line.contains("serves a connection") && line.contains(&format!("shard={shard} "))
        });
        let of_ours = |line: &&str| ends.iter().any(|end| line.ends_with(end));
        lines.filter(of_ours).count()
    };
    let (first, second) = (of_shard(0), of_shard(1));
    assert_eq!(first + second, clients.len(), "{log}");
    assert!(first.abs_diff(second) <= 6, "{first} and {second}");
}

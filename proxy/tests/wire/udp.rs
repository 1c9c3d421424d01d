//! UDPRoute: datagram sessions, their responses, and how they end.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::metrics::{count, waits_for_count};
use crate::support::{
    Driver, Gateway, GatewayBuilder, MOMENT, Signal, TIMEOUT, gateway, on_both_drivers, udp_peer,
};

/// A gateway with a UDP listener that forwards to these addresses.
fn udp_gateway(driver: Driver, addresses: &[SocketAddr]) -> GatewayBuilder {
    gateway(driver)
        .listener_with("udp", "protocol: UDP")
        .backend("peer", addresses)
        .rule_of("udp", "{backendRefs: [{@peer}]}")
        .policy("accessLog: {format: json}")
}

/// A client of the gateway at this address.
fn client_of(address: SocketAddr) -> UdpSocket {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).expect("a free port");
    // Connected: a response from another address would be dropped.
    socket.connect(address).expect("a route to the peer");
    socket.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    socket
}

fn client(gateway: &Gateway) -> UdpSocket {
    client_of(gateway.address_of(1))
}

#[track_caller]
fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    let count = client.recv(&mut buffer).expect("an answer");
    buffer.truncate(count);
    buffer
}

#[track_caller]
fn exchange(client: &UdpSocket, question: &[u8]) -> Vec<u8> {
    client.send(question).expect("sent");
    receive(client)
}

fn echo(datagram: &[u8]) -> Vec<Vec<u8>> {
    vec![datagram.to_vec()]
}

/// Dropped datagrams, by reason.
const DROPPED: &str = "gateway_l4_dropped_datagrams_total";

/// More than 10 000 clients leave allocated, 0.1 MB; less than their sessions would take.
const FLOOD_BOUND: u64 = 4 * 1024 * 1024;

on_both_drivers! {
    fn datagrams_are_forwarded_in_both_directions(driver) {
        let peer = udp_peer(echo);
        let gateway = udp_gateway(driver, &[peer.address()]).inspected().start();
        let client = client(&gateway);
        // The last one is as large as a datagram over IPv4 can be.
        for size in [0, 1, 512, 1472, 9000, 60_000, 65_507] {
            let datagram = vec![7; size];
            assert_eq!(exchange(&client, &datagram), datagram, "{size} bytes");
        }
        assert_eq!(peer.taken(), 7);
        waits_for_count(&gateway, DROPPED, "reason=", 0.0);
    }

    fn a_session_keeps_its_endpoint(driver) {
        // Responds with the source port of the datagram: that of the session.
        let ports = |name: u8| udp_peer(move |_| vec![vec![name]]);
        let (one, two) = (ports(1), ports(2));
        let gateway = udp_gateway(driver, &[one.address(), two.address()]).start();
        let clients: Vec<_> = (0..40).map(|_| client(&gateway)).collect();
        let first: Vec<_> = clients.iter().map(|client| exchange(client, b"?")).collect();
        for _ in 0..3 {
            let again: Vec<_> = clients.iter().map(|client| exchange(client, b"?")).collect();
            assert_eq!(first, again, "a session stays with its endpoint");
        }
        assert!(first.contains(&vec![1]) && first.contains(&vec![2]), "both have sessions");
    }

    fn sessions_are_shared_by_weight(driver) {
        let (one, three) = (udp_peer(|_| vec![vec![1]]), udp_peer(|_| vec![vec![3]]));
        let gateway = gateway(driver)
            .listener_with("udp", "protocol: UDP")
            .backend("one", &[one.address()])
            .backend("three", &[three.address()])
            .rule_of("udp", "{backendRefs: [{@one, weight: 1}, {@three, weight: 3}]}")
            .start();
        let mut shares = HashMap::new();
        for _ in 0..400 {
            *shares.entry(exchange(&client(&gateway), b"?")).or_insert(0_usize) += 1;
        }
        // Five standard deviations of a fair draw: 5 * sqrt(400 * 0.25 * 0.75).
        assert!(shares[&vec![1_u8]].abs_diff(100) <= 43, "{shares:?}");
    }

    fn a_datagram_may_have_many_responses_or_none(driver) {
        let peer = udp_peer(|question| match question {
            b"none" => Vec::new(),
            _ => (0..100).map(|number| vec![number]).collect(),
        });
        let gateway = udp_gateway(driver, &[peer.address()]).start();
        let client = client(&gateway);
        client.send(b"none").expect("sent");
        client.send(b"many").expect("sent");
        let answers: Vec<_> = (0..100).flat_map(|_| receive(&client)).collect();
        assert_eq!(answers, (0..100).collect::<Vec<u8>>());
    }

    fn responses_come_from_the_requested_address(driver) {
        let peer = udp_peer(echo);
        let gateway = udp_gateway(driver, &[peer.address()]).start();
        let port = gateway.ports()[1];
        for address in ["127.0.0.1", "127.0.0.2", "127.9.8.7", "::1"] {
            let ip: IpAddr = address.parse().expect("an address");
            let client = client_of(SocketAddr::new(ip, port));
            assert_eq!(exchange(&client, address.as_bytes()), address.as_bytes());
        }
    }

    fn an_endpoint_that_refuses_datagrams_ends_the_session(driver) {
        let gone = udp_peer(echo).address();
        let here = udp_peer(|_| vec![b"here".to_vec()]);
        let gateway = udp_gateway(driver, &[gone, here.address()]).start();
        // Eventually each client reaches the available endpoint: a refused session does not
        // persist.
        for _ in 0..8 {
            let client = client(&gateway);
            client.set_read_timeout(Some(MOMENT)).expect("above zero");
            let mut buffer = [0; 16];
            let answered = (0..50).any(|_| {
                client.send(b"?").expect("sent");
                client.recv(&mut buffer).is_ok()
            });
            assert!(answered);
        }
        gateway.waits_for_access_log("\"reason\":\"connect_failed\"");
    }

    fn an_idle_session_ends_and_is_logged(driver) {
        let peer = udp_peer(|question| vec![question.to_vec(), question.to_vec()]);
        for limits in ["streamIdleTimeout: 2s", "datagramIdleTimeout: 2s"] {
            let gateway = udp_gateway(driver, &[peer.address()])
                .limits(limits)
                .start();
            let client = client(&gateway);
            assert_eq!(exchange(&client, b"hello"), b"hello");
            assert_eq!(receive(&client), b"hello");
            let log = gateway.waits_for_access_log("\"protocol\":\"UDP\"");
            for part in [
                "\"listener\":\"Gateway/default/gw/udp\"",
                "\"route\":\"UDPRoute/default/route-0/0\"",
                "\"backend\":\"Backend/default/peer\"",
                "\"client\":\"127.0.0.1\"",
                "\"bytes_in\":5,\"bytes_out\":10",
            ] {
                assert!(log.contains(part), "{part} is not in {log}");
            }
            assert!(!log.contains("\"reason\""), "{log}");
            assert_eq!(exchange(&client, b"again"), b"again");
        }
    }

    fn without_a_backend_datagrams_are_dropped(driver) {
        let gateway = gateway(driver)
            .listener_with("udp", "protocol: UDP")
            .listener_with("other", "protocol: UDP")
            .inspected()
            .start();
        let client = client(&gateway);
        for _ in 0..100 {
            client.send(b"?").expect("sent");
        }
        client.set_read_timeout(Some(MOMENT)).expect("above zero");
        assert!(client.recv(&mut [0]).is_err());
        waits_for_count(&gateway, DROPPED, "reason=\"no_route\"", 100.0);
    }

    fn a_flood_does_not_evict_active_sessions(driver) {
        let peer = udp_peer(|question| match question {
            b"flood" => Vec::new(),
            _ => vec![question.to_vec()],
        });
        let gateway = udp_gateway(driver, &[peer.address()]).start();
        let talking = client(&gateway);
        assert_eq!(exchange(&talking, b"before"), b"before");
        let before = gateway.open_files();
        for _ in 0..20 {
            let flood: Vec<_> = (0..50).map(|_| client(&gateway)).collect();
            for socket in &flood {
                socket.send(b"flood").expect("sent");
            }
            assert_eq!(exchange(&talking, b"during"), b"during");
        }
        assert!(gateway.open_files() <= before + 1_000, "one descriptor a session at most");
    }

    fn clients_beyond_the_session_limit_use_no_memory(driver) {
        let peer = udp_peer(|question| match question {
            b"flood" => Vec::new(),
            _ => vec![question.to_vec()],
        });
        let gateway = udp_gateway(driver, &[peer.address()]).open_files(512).inspected().start();
        let talking = client(&gateway);
        let flood = |rounds: usize| {
            for _ in 0..rounds {
                for _ in 0..50 {
                    client(&gateway).send(b"flood").expect("sent");
                }
                // A response shows that earlier datagrams were processed, so that none is lost.
                assert_eq!(exchange(&talking, b"during"), b"during");
            }
        };
        // The maximum number of sessions.
        flood(20);
        let before = gateway.anonymous_bytes();
        flood(200);
        let after = gateway.anonymous_bytes();
        assert!(after < before + FLOOD_BOUND, "{before} bytes before, {after} after");
        // Unanswered sessions were evicted for others.
        let ended = count(&gateway, "gateway_l4_sessions_total", "reason=\"sessions_full\"");
        assert!(ended > 8_000.0, "{ended} of 11000");
        waits_for_count(&gateway, DROPPED, "reason=", 0.0);
    }

    fn a_removed_listener_can_be_added_again(driver) {
        let peer = udp_peer(echo);
        let with = udp_gateway(driver, &[peer.address()]);
        let gateway = with.clone().start();
        let client = client(&gateway);
        assert_eq!(exchange(&client, b"before"), b"before");
        gateway.reconfigure(&with.clone().without_last_listener());
        gateway.waits_for_log("version=2");
        gateway.reconfigure(&with);
        gateway.waits_for_log("version=3");
        client.set_read_timeout(Some(MOMENT)).expect("above zero");
        let mut buffer = [0; 16];
        let answered = (0..50).any(|_| {
            client.send(b"after").expect("sent");
            client.recv(&mut buffer).is_ok()
        });
        assert!(answered, "{}", gateway.log());
    }

    fn several_shards_share_a_port(driver) {
        let peer = udp_peer(echo);
        let gateway = udp_gateway(driver, &[peer.address()]).shards(3).start();
        let clients: Vec<_> = (0..30).map(|_| client(&gateway)).collect();
        for round in 0..3_u8 {
            for client in &clients {
                assert_eq!(exchange(client, &[round]), [round]);
            }
        }
    }

    fn sessions_do_not_delay_the_exit(driver) {
        let peer = udp_peer(echo);
        let mut gateway = udp_gateway(driver, &[peer.address()])
            .argument("--drain-accept=0s")
            .argument("--drain-deadline=20s")
            .start();
        let client = client(&gateway);
        assert_eq!(exchange(&client, b"hello"), b"hello");
        let started = std::time::Instant::now();
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
        assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
        gateway.waits_for_access_log("\"bytes_in\":5,\"bytes_out\":5");
    }
}

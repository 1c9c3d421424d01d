//! Clients that stay at an endpoint by their address: connections and datagrams, and Services with session affinity.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::support::session::ask;
use crate::support::{
    Gateway, Origin, Peer, TIMEOUT, gateway, greeting_peer, ok, on_both_drivers, origin, udp_peer,
};

const NAMES: [&str; 3] = ["a", "b", "c"];
const BY_ADDRESS: &str = "balance: {hash: {by: [{header: ignored}, {clientAddress: {}}]}}";

/// The first byte that a TCP connection from this address gets.
fn greeting(gateway: &Gateway, from: [u8; 4]) -> u8 {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket
        .bind(&SocketAddr::from((from, 0)).into())
        .expect("a loopback address");
    socket
        .connect(&gateway.address_of(1).into())
        .expect("the listener accepts");
    let mut stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("a greeting");
    byte[0]
}

/// The answer that a UDP session from this address gets.
fn datagram(gateway: &Gateway, from: [u8; 4]) -> u8 {
    let socket = UdpSocket::bind(SocketAddr::from((from, 0))).expect("a loopback address");
    socket.connect(gateway.address_of(1)).expect("a route");
    socket.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    socket.send(b"?").expect("sent");
    let mut byte = [0];
    socket.recv(&mut byte).expect("an answer");
    byte[0]
}

/// Clients stay at their endpoints, and use all of them.
#[track_caller]
fn assert_clients_stay(of: impl Fn([u8; 4]) -> u8) {
    let mut used = BTreeSet::new();
    for last in 1..=20 {
        let first = of([127, 0, 0, last]);
        for _ in 0..3 {
            assert_eq!(of([127, 0, 0, last]), first, "127.0.0.{last}");
        }
        used.insert(first);
    }
    assert_eq!(used.len(), 3, "{used:?}");
}

/// A Service with session affinity, and these endpoints.
fn affine_service(addresses: &[SocketAddr], protocol: &str) -> String {
    let mut yaml = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: shop}}\n\
         spec:\n  clusterIP: 10.96.0.1\n  ports: [{{port: 80, protocol: {protocol}}}]\n  sessionAffinity: ClientIP\n  \
         sessionAffinityConfig: {{clientIP: {{timeoutSeconds: 1}}}}\n"
    );
    for (number, address) in addresses.iter().enumerate() {
        write!(
            yaml,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: shop-{number}, labels: {{kubernetes.io/service-name: shop}}}}\naddressType: IPv4\n\
             ports: [{{port: {}, protocol: {protocol}}}]\nendpoints: [{{addresses: [127.0.0.1]}}]\n",
            address.port()
        )
        .expect("a text takes all");
    }
    yaml
}

on_both_drivers! {
    fn tcp_connections_of_a_client_go_to_the_same_endpoint(driver) {
        let peers = NAMES.map(greeting_peer);
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .backend("peer", &peers.each_ref().map(Peer::address))
            .rule_of("tcp", "{backendRefs: [{@peer}]}")
            .policy_of("Backend/peer", BY_ADDRESS)
            .shards(2)
            .start();
        assert_clients_stay(|from| greeting(&gateway, from));
    }

    fn udp_sessions_of_a_client_go_to_the_same_endpoint(driver) {
        let peers = NAMES.map(|name| udp_peer(move |_| vec![name.as_bytes().to_vec()]));
        let gateway = gateway(driver)
            .listener_with("udp", "protocol: UDP")
            .backend("peer", &peers.each_ref().map(Peer::address))
            .rule_of("udp", "{backendRefs: [{@peer}]}")
            .policy_of("Backend/peer", BY_ADDRESS)
            .shards(2)
            .start();
        assert_clients_stay(|from| datagram(&gateway, from));
    }

    fn a_client_of_a_service_with_session_affinity_stays_at_its_endpoint(driver) {
        let origins = NAMES.map(|name| origin().replies(ok(name)));
        let gateway = gateway(driver)
            .document(&affine_service(&origins.each_ref().map(Origin::address), "TCP"))
            .rule("{backendRefs: [{name: shop, port: 80}]}")
            .policy("trustedHops: 1")
            .shards(2)
            .start();
        let from = |last: u8| {
            ask(&mut gateway.client(), &format!("X-Forwarded-For: 192.0.2.{last}")).text()
        };
        let mut used = BTreeSet::new();
        for client in 1..=20 {
            let first = from(client);
            assert!((0..3).all(|_| from(client) == first), "{client}");
            used.insert(first);
        }
        assert_eq!(used.len(), 3);
    }

    fn connections_and_datagrams_to_a_service_with_session_affinity_stay_too(driver) {
        let peers = NAMES.map(greeting_peer);
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .document(&affine_service(&peers.each_ref().map(Peer::address), "TCP"))
            .rule_of("tcp", "{backendRefs: [{name: shop, port: 80}]}")
            .start();
        assert_clients_stay(|from| greeting(&gateway, from));
        let peers = NAMES.map(|name| udp_peer(move |_| vec![name.as_bytes().to_vec()]));
        let gateway = crate::support::gateway(driver)
            .listener_with("udp", "protocol: UDP")
            .document(&affine_service(&peers.each_ref().map(Peer::address), "UDP"))
            .rule_of("udp", "{backendRefs: [{name: shop, port: 80}]}")
            .start();
        assert_clients_stay(|from| datagram(&gateway, from));
    }
}

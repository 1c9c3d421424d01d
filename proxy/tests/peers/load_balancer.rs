//! Addresses of clients behind a load balancer, HAProxy, which says them by PROXY protocol, version 2: of both families,
//! to a gateway that has one, and in every policy that reads them.

use std::net::{Ipv6Addr, SocketAddr};
use std::process::Command;

use super::program::Server;
use crate::support::{
    Client, Driver, Gateway, GatewayBuilder, client, echo_peer, gateway, ok, on_both_drivers,
    origin,
};

on_both_drivers! {
    #[ignore = "needs haproxy"]
    fn policies_know_clients_of_both_families_behind_haproxy(driver) {
        let origin = origin().replies(ok("ok"));
        for (policy, v4, v6) in [
            ("networks: {deny: ['::1/128']}", 200, 403),
            ("networks: {allow: ['::1/128']}", 403, 200),
            ("networks: {deny: [127.0.0.0/8]}", 403, 200),
            ("networks: {allow: [127.0.0.0/8]}", 200, 403),
            ("authorization: {deny: [{when: \"cidr('::/0').contains(client.address)\"}]}", 200, 403),
            ("authorization: {deny: [{when: \"cidr('127.0.0.1/32').contains(client.address)\"}]}", 403, 200),
            ("precedence: Overrides\n  networks: {deny: ['::1/128']}", 200, 403),
        ] {
            let gateway = behind_proxy(driver).routes_to(&origin).policy(policy).start();
            let (_haproxy, [by_v4, by_v6]) = haproxy(gateway.address());
            client(by_v4).gets("/").expects(v4);
            client(by_v6).gets("/").expects(v6);
        }
    }

    #[ignore = "needs haproxy"]
    fn clients_of_both_families_are_counted_apart_behind_haproxy(driver) {
        let origin = origin().replies(ok("ok"));
        let limit = "rateLimit: {rules: [{name: each, key: [{clientAddress: {}}], requests: 2, per: Day}]}";
        let gateway = behind_proxy(driver)
            .routes_to(&origin)
            .policy(limit)
            .policy("accessLog: {format: json}")
            .start();
        let (_haproxy, addresses) = haproxy(gateway.address());
        for address in addresses {
            for status in [200, 200, 429] {
                client(address).gets("/").expects(status);
            }
        }
        gateway.waits_for_access_log("\"client\":\"127.0.0.1\"");
        gateway.waits_for_access_log("\"client\":\"::1\"");
    }

    #[ignore = "needs haproxy"]
    fn connections_of_both_families_are_accepted_or_closed_behind_haproxy(driver) {
        let peer = echo_peer();
        let serve = |policy: &str| -> Gateway {
            behind_proxy(driver)
                .listener_with("tcp", "protocol: TCP")
                .backend("peer", &[peer.address()])
                .rule_of("tcp", "{backendRefs: [{@peer}]}")
                .policy(policy)
                .start()
        };
        let echoes = |mut client: Client| client.sends("hello").reads_bytes(5) == b"hello";
        let gateway = serve("networks: {deny: ['::1/128']}");
        let (_haproxy, [by_v4, by_v6]) = haproxy(gateway.address_of(1));
        assert!(echoes(client(by_v4)));
        client(by_v6).expects_end();
        let gateway = serve("networks: {deny: [127.0.0.0/8]}");
        let (_haproxy, [by_v4, by_v6]) = haproxy(gateway.address_of(1));
        assert!(echoes(client(by_v6)));
        client(by_v4).expects_end();
    }
}

fn behind_proxy(driver: Driver) -> GatewayBuilder {
    gateway(driver).policy("proxyProtocol: {in: Required}")
}

/// HAProxy in front of this address, and where it listens: for each family.
fn haproxy(gateway: SocketAddr) -> (Server, [SocketAddr; 2]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(|port| {
        let file = folder.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 10s\n  timeout server 10s\n\
             listen gateway\n  bind 127.0.0.1:{port}\n  bind [::1]:{port}\n  server gateway {gateway} send-proxy-v2\n"
        );
        std::fs::write(&file, text).expect("a file in our own folder");
        let mut haproxy = Command::new("haproxy");
        haproxy.arg("-db").arg("-f").arg(file);
        haproxy
    });
    let v4 = server.address();
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, v4.port()));
    (server, [v4, v6])
}

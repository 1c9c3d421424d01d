//! The connections of one client at a port are limited, over all shards.

use super::admin_trace::{events, message, watches};
use super::metrics::waits_for_sum;
use crate::support::{Client, client, echo_peer, gateway, ok, on_both_drivers, origin};

const REFUSED: &str = "gateway_connections_over_client_limit_total";

/// The start of a connection that a proxy forwards for a client.
fn header(client: &str) -> String {
    format!("PROXY TCP4 {client} 192.0.2.1 50000 80\r\n")
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

on_both_drivers! {
    fn a_client_has_at_most_as_many_connections_as_allowed(driver) {
        let origin = origin().replies(ok("ok"));
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .limits("clientConnections: 3")
            .inspected()
            .start();
        let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/").expects(200);
        }
        let mut watcher = watches(&gateway, "?match=TCP&timeout=20s");
        for _ in 0..4 {
            gateway.client().expects_end();
        }
        waits_for_sum(&gateway, REFUSED, &[], 4.0);
        let traced = events(&mut watcher);
        let finished = message(&traced, "connectionFinished");
        assert_eq!(finished["reason"], "its client has as many as limits.clientConnections allows");
        for client in &mut clients {
            client.gets("/").expects(200);
        }
        // One that ends makes room for another.
        drop(clients.pop());
        waits_for_sum(&gateway, "gateway_active_connections", &[], 2.0);
        gateway.client().gets("/").expects(200);
    }

    fn clients_behind_a_proxy_are_counted_by_their_own_addresses(driver) {
        let origin = origin().replies(ok("ok"));
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .policy("proxyProtocol: {in: Required}")
            .limits("clientConnections: 1")
            .start();
        let opens = |client: &str| {
            let mut connection = gateway.client();
            connection.sends(header(client) + REQUEST);
            connection
        };
        let mut first = opens("203.0.113.1");
        first.expects(200);
        opens("203.0.113.1").expects_end();
        opens("203.0.113.2").expects(200);
        first.gets("/").expects(200);
    }

    /// A load balancer's connections are those of many clients.
    fn trusted_sources_are_not_limited(driver) {
        let origin = origin().replies(ok("ok"));
        // As IPv6 too: the addresses are IPv4 where they are mapped.
        for sources in ["127.0.0.0/8", "'::ffff:127.0.0.0/104'"] {
            let gateway = gateway(driver)
                .routes_to(&origin)
                .policy(&format!("trustedSources: [{sources}]"))
                .limits("clientConnections: 1")
                .start();
            let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
            for client in &mut clients {
                client.gets("/").expects(200);
            }
        }
    }

    fn connections_of_tcp_listeners_are_counted_too(driver) {
        let peer = echo_peer();
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .backend("peer", &[peer.address()])
            .rule_of("tcp", "{backendRefs: [{@peer}]}")
            .limits("clientConnections: 1")
            .start();
        let mut first = client(gateway.address_of(1));
        assert_eq!(first.sends("hello").reads_bytes(5), b"hello");
        client(gateway.address_of(1)).expects_end();
        assert_eq!(first.sends("again").reads_bytes(5), b"again");
        // Another port counts for itself.
        gateway.client().expects_silence();
    }

    fn a_changed_limit_applies_to_new_connections(driver) {
        let origin = origin().replies(ok("ok"));
        let with = |max: u32| {
            let limits = format!("clientConnections: {max}");
            gateway(driver).routes_to(&origin).limits(&limits)
        };
        let gateway = with(2).start();
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.gets("/").expects(200);
        second.gets("/").expects(200);
        gateway.reconfigure(&with(1));
        gateway.waits_for_applied(2);
        first.gets("/").expects(200);
        second.gets("/").expects(200);
        gateway.client().expects_end();
        gateway.reconfigure(&with(3));
        gateway.waits_for_applied(3);
        gateway.client().gets("/").expects(200);
    }
}

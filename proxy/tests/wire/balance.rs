//! Connections that live long are spread evenly over the shards, whatever the kernel's hash does.

use crate::support::{Client, gateway, on_both_drivers, origin};

const CONNECTIONS: usize = 64;

on_both_drivers! {
    fn long_connections_are_spread_evenly(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .shards(2)
            .environment("RUST_LOG", "info,proxy::shard=trace")
            .start();
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = gateway.client();
            client.gets("/").expects(200);
            clients.push(client);
        }
        let ports: Vec<String> = clients
            .iter()
            .map(|client| client.address().port().to_string())
            .collect();
        for port in &ports {
            gateway.waits_for_log(&format!(":{port}\n"));
        }
        let log = gateway.log();
        let of_shard = |shard: u8| {
            let lines = log.lines().filter(|line| {
                line.contains("serves a connection") && line.contains(&format!("shard={shard} "))
            });
            let of_ours = |line: &&str| ports.iter().any(|port| line.ends_with(&format!(":{port}")));
            lines.filter(of_ours).count()
        };
        let (first, second) = (of_shard(0), of_shard(1));
        assert_eq!(first + second, CONNECTIONS, "{log}");
        assert!(first.abs_diff(second) <= 6, "{first} and {second}");
        for client in &mut clients {
            client.gets("/").expects(200);
        }
    }
}

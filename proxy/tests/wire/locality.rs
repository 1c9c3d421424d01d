//! Endpoints that are preferred by where they are: hints, zones, what spills over, and what leaves the zone.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use super::metrics::waits_for_sum;
use crate::support::{
    Driver, GatewayBuilder, Origin, Peer, TIMEOUT, gateway, greeting_peer, ok, on_both_drivers,
    origin, udp_peer,
};

/// A Service whose endpoints are in these zones, with hints for their own.
fn service(protocol: &str, endpoints: &[(&str, SocketAddr)]) -> String {
    let mut yaml = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: shop}}\n\
         spec: {{trafficDistribution: PreferSameZone, ports: [{{port: 80, protocol: {protocol}}}]}}\n"
    );
    for (number, (zone, address)) in endpoints.iter().enumerate() {
        write!(
            yaml,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: shop-{number}, labels: {{kubernetes.io/service-name: shop}}}}\naddressType: IPv4\n\
             ports: [{{port: {}, protocol: {protocol}}}]\n\
             endpoints: [{{addresses: [127.0.0.1], zone: {zone}, hints: {{forZones: [{{name: {zone}}}]}}}}]\n",
            address.port()
        )
        .expect("a text takes all");
    }
    yaml
}

/// A gateway in zone `a`, with a route to the Service.
fn in_zone_a(driver: Driver, endpoints: &[(&str, SocketAddr)]) -> GatewayBuilder {
    gateway(driver)
        .argument("--zone=a")
        .inspected()
        .document(&service("TCP", endpoints))
        .rule("{backendRefs: [{name: shop, port: 80}]}")
}

/// So many origins in a zone.
fn origins(number: usize) -> Vec<Origin> {
    (0..number).map(|_| origin().replies(ok("well"))).collect()
}

fn all<'a>(near: &'a [Origin], far: &'a [Origin]) -> Vec<(&'a str, SocketAddr)> {
    let near = near.iter().map(|it| ("a", it.address()));
    near.chain(far.iter().map(|it| ("b", it.address())))
        .collect()
}

fn requests(origins: &[Origin]) -> usize {
    origins.iter().map(|it| it.requests().len()).sum()
}

fn addresses<const N: usize>(peers: &[Peer; N]) -> [SocketAddr; N] {
    peers.each_ref().map(Peer::address)
}

on_both_drivers! {
    /// Four endpoints of the zone become two, then none, then one again, under load.
    fn a_drained_zone_loses_no_request_and_what_is_left_of_it_is_not_crushed(driver) {
        let (near, far) = (origins(4), origins(4));
        let gateway = in_zone_a(driver, &all(&near, &far)).start();
        let mut client = gateway.client();
        let mut sends = |requests: usize| (0..requests).for_each(|_| drop(client.gets("/").expects(200)));
        sends(200);
        assert_eq!((requests(&near), requests(&far)), (200, 0));
        // Usually, each has a quarter of all.
        gateway.reconfigure(&in_zone_a(driver, &all(&near[..2], &far)));
        gateway.waits_for_applied(2);
        let before = requests(&near);
        sends(1_000);
        let stayed = requests(&near) - before;
        assert!((640..=760).contains(&stayed), "{stayed} of 1000: 2 × 1.4 × a quarter");
        gateway.reconfigure(&in_zone_a(driver, &all(&[], &far)));
        gateway.waits_for_applied(3);
        let before = requests(&near);
        sends(100);
        assert_eq!(requests(&near), before);
        gateway.reconfigure(&in_zone_a(driver, &all(&near[..1], &far)));
        gateway.waits_for_applied(4);
        sends(1_000);
        let back = requests(&near) - before;
        assert!((290..=410).contains(&back), "{back} of 1000: 1.4 × a quarter");
        let crossed = u32::try_from(requests(&far)).expect("few");
        waits_for_sum(&gateway, "gateway_cross_zone_requests_total", &["shop:80"], crossed.into());
    }

    fn without_hints_for_every_endpoint_all_are_used(driver) {
        let (near, far) = (origins(1), origins(1));
        let yaml = service("TCP", &all(&near, &far)).replace("hints: {forZones: [{name: b}]}", "hints: {}");
        let gateway = gateway(driver)
            .argument("--zone=a")
            .document(&yaml)
            .rule("{backendRefs: [{name: shop, port: 80}]}")
            .start();
        let mut client = gateway.client();
        while requests(&far) == 0 || requests(&near) == 0 {
            client.gets("/").expects(200);
        }
    }

    fn a_policy_prefers_the_zone_and_insists_on_it_if_it_is_strict(driver) {
        let (near, far) = (origins(1), origins(1));
        let backend = |zone: &str| format!(
            "apiVersion: gateway-system.io/v1alpha1\nkind: Backend\nmetadata: {{name: far}}\nspec:\n  addresses:\n  \
             - {{host: 127.0.0.1, port: {}, zone: {zone}}}\n  - {{host: 127.0.0.1, port: {}, zone: b}}\n",
            near[0].address().port(), far[0].address().port()
        );
        let with = |zone: &str, strict: bool| gateway(driver)
            .argument("--zone=a")
            .inspected()
            .document(&backend(zone))
            .rule("{backendRefs: [{group: gateway-system.io, kind: Backend, name: far}]}")
            .policy_of("Backend/far", &format!("balance: {{locality: {{mode: PreferZone, strict: {strict}}}}}"));
        let gateway = with("a", true).start();
        let mut client = gateway.client();
        (0..20).for_each(|_| drop(client.gets("/").expects(200)));
        assert_eq!((requests(&near), requests(&far)), (20, 0));
        let mut admin = gateway.client_of("admin");
        admin.sends("GET /config_dump?type=backends HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let dump = admin.expects(200).text();
        assert!(dump.contains("\"zone\":\"a\",\"preferred\":true"), "{dump}");
        assert!(dump.contains("\"zone\":\"b\",\"preferred\":false"), "{dump}");
        gateway.reconfigure(&with("c", true));
        gateway.waits_for_applied(2);
        client.gets("/").expects(503);
        gateway.reconfigure(&with("c", false));
        gateway.waits_for_applied(3);
        client.gets("/").expects(200);
    }

    fn connections_and_datagrams_stay_in_the_zone_too(driver) {
        let peers = ["near", "away"].map(greeting_peer);
        let [near, far] = addresses(&peers);
        let gateway = gateway(driver)
            .argument("--zone=a")
            .listener_with("tcp", "protocol: TCP")
            .document(&service("TCP", &[("b", far), ("a", near)]))
            .rule_of("tcp", "{backendRefs: [{name: shop, port: 80}]}")
            .start();
        for _ in 0..10 {
            let mut stream = TcpStream::connect(gateway.address_of(1)).expect("it accepts");
            stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            let mut word = [0; 4];
            stream.read_exact(&mut word).expect("a greeting");
            assert_eq!(&word, b"near");
        }
        let peers = ["near", "away"].map(|name| udp_peer(move |_| vec![name.as_bytes().to_vec()]));
        let [near, far] = addresses(&peers);
        let gateway = crate::support::gateway(driver)
            .argument("--zone=a")
            .listener_with("udp", "protocol: UDP")
            .document(&service("UDP", &[("b", far), ("a", near)]))
            .rule_of("udp", "{backendRefs: [{name: shop, port: 80}]}")
            .start();
        for _ in 0..10 {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.connect(gateway.address_of(1)).expect("a route");
            socket.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            socket.send(b"?").expect("sent");
            let mut word = [0; 4];
            socket.recv(&mut word).expect("an answer");
            assert_eq!(&word, b"near");
        }
    }
}

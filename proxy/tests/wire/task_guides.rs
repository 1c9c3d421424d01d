//! The guides of GUIDES.md: each example is served as it stands there, and what its guide promises is requested.
//!
//! Only what a test has not got is replaced: ports, addresses of backends, and networks of hops.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};

use super::guides::{asks, examples_in, replaced};
use crate::support::pki::authority;
use crate::support::{
    Driver, Gateway, Origin, Ports, TIMEOUT, echo_peer, gateway, ok, on_both_drivers, origin, tls,
    tls_client, tls_secret, udp_peer,
};

const GUIDES: &str = include_str!("../../../k8s/GUIDES.md");
const RESOURCES: &str = include_str!("../../../k8s/RESOURCES.md");

/// The objects that examples refer to, with a Service of this origin.
fn objects(port: u16, shop: &Origin) -> String {
    let yaml = examples_in(RESOURCES, "## The objects of the examples");
    let listener = format!("port: {port}, protocol: HTTP");
    let yaml = replaced(&yaml, "port: 80, protocol: HTTP", &listener);
    let endpoint = format!("ports: [{{port: {}}}]", shop.address().port());
    replaced(&yaml, "ports: [{port: 3000}]", &endpoint)
}

fn start(driver: Driver, yaml: &str, ports: &[u16]) -> Gateway {
    gateway(driver).start_with(yaml, ports)
}

on_both_drivers! {
    fn serve_https_with_a_certificate(driver) {
        let (ports, shop, ca) = (Ports::free(2), origin(), authority("ca"));
        let pair = ca.server(&["shop.example.com"]);
        let secret = format!("---\n{}", tls_secret("shop-certificate", &pair));
        let guide = examples_in(GUIDES, "## Serve HTTPS with a certificate");
        let guide = replaced(&guide, "port: 443", &format!("port: {}", ports[1]));
        let objects = objects(ports[0], &shop);
        let gateway = start(driver, &format!("{objects}{guide}{secret}"), &ports);
        let mut client = tls_client(gateway.address_of(1), &tls(&ca, "shop.example.com"));
        let answer = asks(&mut client, "GET", ("shop.example.com", "/"), &[]);
        assert_eq!(answer.status(), 200, "{answer}");
        // Without its certificate, the port refuses handshakes.
        gateway.rewrite(&format!("{objects}{guide}"));
        gateway.waits_for_applied(2);
        let mut client = tls_client(gateway.address_of(1), &tls(&ca, "shop.example.com"));
        let refused = format!("{:?}", client.is_refused());
        assert!(refused.contains("UnrecognisedName"), "{refused}");
    }

    fn redirect_to_https(driver) {
        let ports = Ports::free(1);
        let guide = examples_in(GUIDES, "## Redirect to HTTPS");
        let guide = replaced(&guide, "port: 80,", &format!("port: {},", ports[0]));
        let gateway = start(driver, &guide, &ports);
        let answer = asks(&mut gateway.client(), "GET", ("shop.example.com", "/a?b=c"), &[]);
        assert_eq!(answer.status(), 301, "{answer}");
        assert_eq!(answer.value("location"), Some("https://shop.example.com/a?b=c"));
    }

    fn give_a_team_host_names_of_its_own(driver) {
        let (ports, team) = (Ports::free(1), origin().replies(ok("of the team")));
        let guide = examples_in(GUIDES, "## Give a team host names of its own");
        let guide = replaced(&guide, "port: 80,", &format!("port: {},", ports[0]));
        let guide = replaced(&guide, "port: 3000", &format!("port: {}", team.address().port()));
        let gateway = start(driver, &guide, &ports);
        let mut client = gateway.client();
        let answer = asks(&mut client, "GET", ("a.example.com", "/"), &[]);
        assert_eq!((answer.status(), &*answer.text()), (200, "of the team"), "{answer}");
        assert_eq!(asks(&mut client, "GET", ("www.example.com", "/"), &[]).status(), 404);
        // A namespace that the Gateway does not allow has no listener.
        gateway.rewrite(&replaced(&guide, "labels: {shared-gateway: \"true\"}}", "labels: {}}"));
        gateway.waits_for_applied(2);
        assert_eq!(asks(&mut client, "GET", ("a.example.com", "/"), &[]).status(), 404);
    }

    fn release_a_new_version_to_a_part_of_the_requests(driver) {
        let (ports, old, new) = (Ports::free(1), origin().replies(ok("old")), origin().replies(ok("new")));
        let guide = examples_in(GUIDES, "## Release a new version to a part of the requests");
        let endpoint = format!("ports: [{{port: {}}}]", new.address().port());
        let guide = replaced(&guide, "ports: [{port: 3001}]", &endpoint);
        let objects = objects(ports[0], &old);
        let gateway = start(driver, &format!("{objects}{guide}"), &ports);
        let mut client = gateway.client();
        let canary = ("canary.example.com", "/");
        let mut count = |lines: &[String]| {
            (0..200).filter(|_| asks(&mut client, "GET", canary, lines).text() == "new").count()
        };
        assert_eq!(count(&["x-canary: always".to_owned()]), 200);
        // Twenty in the mean; the bounds are those that one run in 10^9 misses.
        let some = count(&[]);
        assert!((1..60).contains(&some), "{some} of 200");
        gateway.rewrite(&format!("{objects}{}", replaced(&guide, "weight: 10}", "weight: 0}")));
        gateway.waits_for_applied(2);
        assert_eq!(count(&[]), 0);
    }

    fn forward_tcp_and_udp(driver) {
        let (ports, echo) = (Ports::free(2), echo_peer());
        let dns = udp_peer(|question| vec![[question, b" answered"].concat()]);
        let guide = examples_in(GUIDES, "## Forward TCP and UDP");
        let guide = replaced(&guide, "port: 5432, protocol: TCP", &format!("port: {}, protocol: TCP", ports[0]));
        let guide = replaced(&guide, "port: 5353,", &format!("port: {},", ports[1]));
        let guide = replaced(&guide, "port: 3002", &format!("port: {}", echo.address().port()));
        let guide = replaced(&guide, "port: 3003", &format!("port: {}", dns.address().port()));
        // Only the first is one of TCP.
        let gateway = start(driver, &guide, &ports[..1]);
        let mut stream = TcpStream::connect(gateway.address_of(0)).expect("the listener accepts");
        stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
        stream.write_all(b"select").expect("taken");
        let mut back = [0; 6];
        stream.read_exact(&mut back).expect("echoed");
        assert_eq!(&back, b"select");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket.connect((Ipv4Addr::LOCALHOST, ports[1])).expect("a route");
        socket.set_read_timeout(Some(TIMEOUT)).expect("above zero");
        socket.send(b"name").expect("sent");
        let mut datagram = [0; 64];
        let count = socket.recv(&mut datagram).expect("an answer");
        assert_eq!(&datagram[..count], b"name answered");
    }

    fn run_behind_another_proxy(driver) {
        let (ports, shop) = (Ports::free(1), origin());
        let guide = examples_in(GUIDES, "## Run behind another proxy");
        let trusted = replaced(&guide, "10.0.0.0/8", "127.0.0.0/8");
        for (guide, client) in [(trusted, "203.0.113.9, 127.0.0.1"), (guide, "127.0.0.1")] {
            let gateway = start(driver, &format!("{}{guide}", objects(ports[0], &shop)), &ports);
            let from = ["X-Forwarded-For: 203.0.113.9".to_owned()];
            let answer = asks(&mut gateway.client(), "GET", ("shop.example.com", "/"), &from);
            assert_eq!(answer.status(), 200, "{answer}");
            let asked = shop.requests().pop().expect("it came");
            assert_eq!(asked.value("x-forwarded-for"), Some(client), "{asked}");
        }
    }
}

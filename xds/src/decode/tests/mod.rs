//! Invalid messages, and the exact problems reported.

mod features;
mod path_rewrite;
mod policies;
mod precedence;
mod rate_limit;
mod route;

use prost::Message;

use super::{decoded, resource};
use crate::model::{Kind, Resource};
use crate::proto;

/// The problems of a message.
fn problems(kind: Kind, message: &impl Message) -> Vec<String> {
    let problems = resource(kind, &message.encode_to_vec()).expect_err("something is wrong");
    problems.0.iter().map(ToString::to_string).collect()
}

fn gateway() -> proto::ObjectName {
    proto::ObjectName {
        namespace: "infra".to_owned(),
        name: "web".to_owned(),
    }
}

fn bind() -> proto::Bind {
    proto::Bind {
        key: "tcp/80/infra/web".to_owned(),
        address: vec![0; 4],
        port: 80,
        transport: proto::Transport::Tcp.into(),
        gateway: Some(gateway()),
        ..proto::Bind::default()
    }
}

fn policy() -> proto::Policy {
    proto::Policy {
        key: "TrafficPolicy/infra/p/Gateway/infra/web".to_owned(),
        target: Some(proto::PolicyTarget {
            kind: Some(proto::policy_target::Kind::Gateway(gateway())),
        }),
        ..Default::default()
    }
}

#[test]
fn the_valid_base_messages_decode() {
    let bind = resource(Kind::Bind, &bind().encode_to_vec());
    assert_eq!(
        bind.map(|bind| bind.key().to_owned()),
        Ok("tcp/80/infra/web".to_owned())
    );
    let policy = resource(Kind::Policy, &policy().encode_to_vec());
    assert!(matches!(policy, Ok(Resource::Policy(_))));
}

#[test]
fn undecodable_bytes_are_reported() {
    let problems = resource(Kind::Bind, b"\xff")
        .expect_err("no message")
        .to_string();
    assert!(
        problems.starts_with("these bytes are no Bind message: "),
        "{problems}"
    );
}

#[test]
fn all_problems_of_a_bind_are_reported_at_once() {
    let message = proto::Bind {
        key: "80/web".to_owned(),
        address: vec![1, 2, 3],
        port: 65_536,
        transport: 7,
        gateway: None,
        ..proto::Bind::default()
    };
    assert_eq!(
        problems(Kind::Bind, &message),
        [
            "key: `80/web` does not have the form `tcp|udp/<port>/<namespace>/<gateway>`",
            "address: has 3 bytes: an address has 4 (IPv4) or 16 (IPv6)",
            "port: 65536 is not a port: use 1 to 65535",
            "transport: 7 is unknown to this version",
            "gateway: is missing",
        ]
    );
    assert_eq!(
        problems(Kind::Bind, &proto::Bind::default()),
        [
            "key: is missing",
            "address: is missing",
            "port: 0 is not a port: use 1 to 65535",
            "transport: is missing",
            "gateway: is missing",
        ]
    );
}

#[test]
fn invalid_listeners_are_rejected() {
    let message = proto::Listener {
        key: "Gateway/infra/web/http".to_owned(),
        bind: "tcp/80/infra/web".to_owned(),
        gateway: Some(proto::ObjectName {
            namespace: "a/b".to_owned(),
            name: "web".to_owned(),
        }),
        name: String::new(),
        hostname: Some("A.example.com".to_owned()),
        protocol: None,
        external_auth: Vec::new(),
        ..proto::Listener::default()
    };
    assert_eq!(
        problems(Kind::Listener, &message),
        [
            "gateway: `a/b/web` is not an object's name: neither part may be empty or contain a `/`",
            "name: is missing",
            "hostname: `A.example.com` is not a host name: use lower-case DNS labels, such as \
             `example.com` or `*.example.com`",
            "protocol: is missing, or of a kind unknown to this version",
        ]
    );
}

#[test]
fn invalid_tls_listeners_are_rejected() {
    use proto::listener::Protocol;
    let server = proto::TlsServer {
        certificates: vec![proto::Certificate {
            chain: vec![vec![1], Vec::new()],
            key: Vec::new(),
            secret: String::new(),
        }],
        client_auth: Some(proto::ClientAuth::default()),
        alpn: vec![3],
        min_version: 0,
    };
    let cases: [(Protocol, &[&str]); 2] = [
        (
            Protocol::Https(proto::TlsServer::default()),
            &["https.min_version: is missing"],
        ),
        (
            Protocol::Tls(server),
            &[
                "tls.certificates[0].chain[1]: is missing",
                "tls.certificates[0].key: is missing",
                "tls.client_auth.mode: is missing",
                "tls.client_auth.roots: is empty: at least one is needed",
                "tls.alpn[0]: 3 is unknown to this version",
                "tls.min_version: is missing",
            ],
        ),
    ];
    for (protocol, expected) in cases {
        let message = proto::Listener {
            key: "Gateway/infra/web/https".to_owned(),
            bind: "tcp/443/infra/web".to_owned(),
            gateway: Some(gateway()),
            name: "https".to_owned(),
            hostname: None,
            protocol: Some(protocol),
            external_auth: Vec::new(),
            ..proto::Listener::default()
        };
        assert_eq!(problems(Kind::Listener, &message), expected);
    }
}

#[test]
fn invalid_backend_tls_is_rejected() {
    use proto::backend_tls::Kind as Tls;
    let client = proto::TlsClient {
        server_name: "*.example.com".to_owned(),
        identities: vec![
            proto::Identity { kind: None },
            proto::Identity {
                kind: Some(proto::identity::Kind::Uri(String::new())),
            },
        ],
        roots: Some(proto::tls_client::Roots::Certificates(
            proto::RootCertificates::default(),
        )),
    };
    let tls = |kind| Some(proto::BackendTls { kind });
    let cases: [(_, _, &[&str]); 4] = [
        (
            proto::BackendProtocol::Https,
            None,
            &["ports[0].tls: is required for this protocol"],
        ),
        (
            proto::BackendProtocol::H2c,
            tls(Some(Tls::Invalid(proto::Unit {}))),
            &["ports[0].tls: does not apply to a plain-text protocol"],
        ),
        (
            proto::BackendProtocol::Tcp,
            tls(None),
            &["ports[0].tls: is missing, or of a kind unknown to this version"],
        ),
        (
            proto::BackendProtocol::H2,
            tls(Some(Tls::Verified(client))),
            &[
                "ports[0].tls.verified.server_name: `*.example.com` is not an exact host name: \
                 use lower-case DNS labels, such as `example.com`",
                "ports[0].tls.verified.identities[0]: is missing, or of a kind unknown to this version",
                "ports[0].tls.verified.identities[1].uri: is empty: set it, or leave it out",
                "ports[0].tls.verified.certificates.certificates: is empty: at least one is needed",
            ],
        ),
    ];
    for (protocol, tls, expected) in cases {
        let message = proto::Service {
            key: "Service/app/shop".to_owned(),
            vips: Vec::new(),
            ports: vec![proto::ServicePort {
                port: 443,
                name: String::new(),
                protocol: protocol.into(),
                transport: proto::Transport::Tcp.into(),
                tls,
            }],
            ..proto::Service::default()
        };
        assert_eq!(problems(Kind::Service, &message), expected);
    }
}

#[test]
fn invalid_services_and_workloads_are_rejected() {
    let service = proto::Service {
        key: "Service/app/shop".to_owned(),
        vips: vec![vec![10, 0, 0, 1], vec![0; 5]],
        ports: vec![proto::ServicePort {
            port: 0,
            name: String::new(),
            protocol: proto::BackendProtocol::H2c.into(),
            transport: 0,
            tls: None,
        }],
        ..proto::Service::default()
    };
    assert_eq!(
        problems(Kind::Service, &service),
        [
            "vips[1]: has 5 bytes: an address has 4 (IPv4) or 16 (IPv6)",
            "ports[0].port: 0 is not a port: use 1 to 65535",
            "ports[0].transport: is missing",
        ]
    );
    let workload = proto::Workload {
        key: "Pod/app/shop-1/10.0.0.9".to_owned(),
        address: vec![10, 0, 0, 9],
        node: Some(String::new()),
        zone: None,
        hint_zones: Vec::new(),
        hint_nodes: Vec::new(),
        health: proto::Health::Ready.into(),
        serves: vec![proto::Serves::default()],
    };
    assert_eq!(
        problems(Kind::Workload, &workload),
        [
            "node: is empty: set it, or leave it out",
            "serves[0].service: is missing",
            "serves[0].port: 0 is not a port: use 1 to 65535",
            "serves[0].transport: is missing",
            "serves[0].target_port: 0 is not a port: use 1 to 65535",
        ]
    );
}

#[test]
fn invalid_backends_are_rejected() {
    use proto::backend::Hosts;
    let host = proto::Host {
        address: Some(proto::host::Address::Name("*.example.com".to_owned())),
        port: 80,
        weight: 0,
        zone: None,
    };
    let dns = proto::DnsHosts {
        name: "10.0.0.1".to_owned(),
        port: 80,
        refresh: Some(proto::Duration {
            seconds: u64::MAX,
            nanos: 1_000_000_000,
        }),
    };
    let cases: [(Option<Hosts>, &[&str]); 6] = [
        (
            None,
            &["hosts: is missing, or of a kind unknown to this version"],
        ),
        (
            Some(Hosts::Static(proto::StaticHosts::default())),
            &["static.hosts: is empty: at least one is needed"],
        ),
        (
            Some(Hosts::Static(proto::StaticHosts { hosts: vec![host] })),
            &[
                "static.hosts[0].name: `*.example.com` is not an exact host name: use lower-case \
                 DNS labels, such as `example.com`",
                "static.hosts[0].weight: 0 is too small: use 1 or more",
            ],
        ),
        (
            Some(Hosts::Dns(dns)),
            &[
                "dns.name: `10.0.0.1` is not an exact host name: use lower-case DNS labels, such \
                 as `example.com`",
                "dns.refresh.nanos: 1000000000 is one second or more: use `seconds`",
            ],
        ),
        (
            Some(Hosts::Unix(b"run/app.sock".to_vec())),
            &["unix: is not an absolute path"],
        ),
        (
            Some(Hosts::Unix([b"/".repeat(108)].concat())),
            &["unix: is 108 bytes long: the path of a socket has at most 107"],
        ),
    ];
    for (hosts, expected) in cases {
        let message = proto::Backend {
            key: "Backend/app/legacy".to_owned(),
            hosts,
            protocol: proto::BackendProtocol::Http.into(),
            tls: None,
            proxy_protocol: None,
            ..proto::Backend::default()
        };
        assert_eq!(problems(Kind::Backend, &message), expected);
    }
}

#[test]
fn a_long_list_of_problems_is_truncated_for_display() {
    let message = proto::Service {
        key: "Service/app/shop".to_owned(),
        vips: vec![vec![1]; 20],
        ports: Vec::new(),
        ..proto::Service::default()
    };
    let problems = resource(Kind::Service, &message.encode_to_vec()).expect_err("bad addresses");
    assert_eq!(problems.0.len(), 20);
    let text = problems.to_string();
    assert!(text.starts_with("vips[0]: has 1 bytes"), "{text}");
    assert!(text.ends_with("(IPv6); and 4 more"), "{text}");
}

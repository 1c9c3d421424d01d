//! Backends, services and workloads.

use xds::model::{
    Backend, BackendKey, BackendProtocol, BackendTls, Health, Host, HostAddress, Hosts, Member,
    ObjectName, Picker, PickerFailureMode, Pool, ProxyProtocolVersion, Resource, Roots, Serves,
    Service, ServicePort, SessionAffinity, TlsClient, TopologyHints, Transport, Workload,
    WorkloadKey,
};

use super::{all, backend_key, count, host, ip, port, seconds, service_key, verified};

pub(super) fn backends() -> Vec<Resource> {
    let dns = Hosts::Dns {
        name: host("dns.example"),
        port: port(443),
        refresh: Some(seconds(30)),
    };
    let unix = Hosts::Unix {
        path: "/run/backend.sock".into(),
    };
    let system = BackendTls::Verified(TlsClient {
        server_name: host("dns.example"),
        identities: Vec::new(),
        roots: Roots::System,
    });
    let (v1, v2) = (ProxyProtocolVersion::V1, ProxyProtocolVersion::V2);
    let (https, h2, http) = (
        BackendProtocol::Https,
        BackendProtocol::H2,
        BackendProtocol::Http,
    );
    let named = |name: &str| BackendKey::new(&ObjectName::new("shop", name));
    let mut backends = all([
        backend(backend_key(), fixed(), https, Some(verified()), Some(v2)),
        backend(named("dns"), dns, h2, Some(system), Some(v1)),
        backend(named("unix"), unix, http, None, None),
    ]);
    backends.extend(pools());
    backends
}

fn pools() -> Vec<Resource> {
    let pool = |picker| {
        Hosts::Pool(Pool {
            members: members(),
            picker,
        })
    };
    let closed = Picker {
        members: members(),
        tls: Some(BackendTls::Unverified {
            server_name: host("picker.example"),
        }),
        failure_mode: PickerFailureMode::FailClose,
    };
    let open = Picker {
        members: Vec::new(),
        tls: None,
        failure_mode: PickerFailureMode::FailOpen,
    };
    let key = |name: &str| BackendKey::of_pool(&ObjectName::new("shop", name));
    let x_backend = BackendKey::of_x_backend(&ObjectName::new("shop", "external"));
    let (h2c, tcp) = (BackendProtocol::H2c, BackendProtocol::Tcp);
    all([
        backend(key("closed"), pool(Some(closed)), h2c, None, None),
        backend(key("open"), pool(Some(open)), h2c, None, None),
        backend(x_backend, pool(None), tcp, Some(BackendTls::Invalid), None),
    ])
}

fn backend(
    key: BackendKey,
    hosts: Hosts,
    protocol: BackendProtocol,
    tls: Option<BackendTls>,
    proxy_protocol: Option<ProxyProtocolVersion>,
) -> Backend {
    Backend {
        key,
        hosts,
        protocol,
        tls,
        proxy_protocol,
    }
}

fn fixed() -> Hosts {
    let addresses = [
        HostAddress::Ip(ip("10.0.0.2")),
        HostAddress::Ip(ip("fd00::2")),
        HostAddress::Name(host("old.example")),
    ];
    let hosts = addresses.map(|address| Host {
        address,
        port: port(8_443),
        weight: count(4),
        zone: Some("zone-b".to_owned()),
    });
    Hosts::Static(hosts.into())
}

fn members() -> Vec<Member> {
    let member = |(address, health)| Member {
        address: ip(address),
        port: port(9_000),
        health,
    };
    let members = [
        ("10.0.0.3", Health::Ready),
        ("fd00::3", Health::Ready),
        ("10.0.0.4", Health::Draining),
        ("10.0.0.5", Health::NotReady),
    ];
    members.map(member).into()
}

pub(super) fn services() -> Vec<Resource> {
    let web = ServicePort {
        port: port(80),
        transport: Transport::Tcp,
        name: "web".to_owned(),
        protocol: BackendProtocol::Https,
        tls: Some(Box::new(verified())),
    };
    let dns = ServicePort {
        port: port(53),
        transport: Transport::Udp,
        name: String::new(),
        protocol: BackendProtocol::Tcp,
        tls: None,
    };
    all([Service {
        key: service_key(),
        vips: vec![ip("10.96.0.1"), ip("fd00::96")],
        ports: vec![web, dns],
        session_affinity: SessionAffinity::ClientAddress,
    }])
}

pub(super) fn workloads() -> Vec<Resource> {
    let slice = ObjectName::new("shop", "cart-1");
    let workload = |(address, health)| Workload {
        key: WorkloadKey::new("EndpointSlice", &slice, address),
        address: ip(address),
        node: Some("node-1".to_owned()),
        zone: Some("zone-a".to_owned()),
        hints: Some(Box::new(TopologyHints {
            zones: vec!["zone-a".to_owned(), "zone-b".to_owned()],
            nodes: vec!["node-1".to_owned()],
        })),
        health,
        serves: vec![Serves {
            service: service_key(),
            port: port(80),
            transport: Transport::Tcp,
            target_port: port(8_080),
        }],
    };
    let plain = Workload {
        key: WorkloadKey::new("EndpointSlice", &slice, "fd00::9"),
        address: ip("fd00::9"),
        node: None,
        zone: None,
        hints: None,
        health: Health::NotReady,
        serves: Vec::new(),
    };
    let mut workloads =
        all([("10.0.0.9", Health::Ready), ("10.0.0.8", Health::Draining)].map(workload));
    workloads.push(plain.into());
    workloads
}

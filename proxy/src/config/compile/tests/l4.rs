//! L4 rules: which one a server name selects, and its cluster.

use std::net::IpAddr;

use xds::model::{
    Health, L4Backend, L4Rule, Listener, ListenerProtocol, Model, Route, RouteRule, Target,
    Transport,
};

use super::sample::{
    attachment, backend, gateway, listener, model, route, service, target, workload,
};
use super::{bind, cluster, compile};
use crate::config::{BindProtocol, Snapshot, TrafficMode};
use crate::policy::proxy_protocol::Version;

/// A bind with one listener of this protocol.
fn with(protocol: ListenerProtocol) -> Model {
    let mut model = model();
    let listener = Listener {
        protocol,
        ..listener("http", None)
    };
    model.insert(listener.into());
    model.insert(service("shop", &[80]).into());
    model.insert(workload("pod", "10.0.0.1", Health::Ready, "shop", 80, 8080).into());
    model
}

/// A route of these hostnames to service `shop`, made in this second.
fn l4(name: &str, created: i64, hostnames: &[&str], of: fn(L4Rule) -> RouteRule) -> Route {
    let mut route = route(name, 0, "/", Vec::new());
    let http = listener("http", None).key;
    route.attachments = attachment(&http, hostnames).into();
    route.created = created;
    route.rule = of(L4Rule {
        name: None,
        backends: vec![L4Backend {
            target: target("shop", 80),
            weight: 1,
        }],
    });
    route
}

/// The route object that gets connections for a server name.
fn owner(snapshot: &Snapshot, server_name: Option<&str>) -> Option<String> {
    let listener = bind(snapshot).listener(server_name.unwrap_or_default())?;
    let name = &listener.l4.find(server_name)?.name;
    name.split('/').nth(2).map(str::to_owned)
}

#[test]
fn a_server_name_gets_the_most_specific_route() {
    let mut model = with(ListenerProtocol::TlsPassthrough);
    for (name, hostnames) in [
        ("all", &[][..]),
        ("wide", &["*.example.com"]),
        ("deep", &["*.b.example.com"]),
        ("exact", &["a.example.com", "other.test"]),
    ] {
        model.insert(l4(name, 0, hostnames, RouteRule::Tls).into());
    }
    let snapshot = compile(&model);
    assert_eq!(bind(&snapshot).opening, BindProtocol::Tls);
    assert_eq!(
        bind(&snapshot)
            .listeners
            .first()
            .expect("a listener")
            .traffic,
        TrafficMode::Bytes
    );
    for (server_name, expected) in [
        (Some("a.example.com"), "exact"),
        (Some("other.test"), "exact"),
        (Some("c.example.com"), "wide"),
        (Some("x.b.example.com"), "deep"),
        (Some("b.example.com"), "wide"),
        (Some("example.com"), "all"),
        (None, "all"),
    ] {
        let found = owner(&snapshot, server_name);
        assert_eq!(found.as_deref(), Some(expected), "{server_name:?}");
    }
}

#[test]
fn the_oldest_of_routes_with_the_same_server_name_wins() {
    let mut model = with(ListenerProtocol::TlsPassthrough);
    for (name, created) in [("young", 2), ("old", 1)] {
        model.insert(l4(name, created, &["a.test"], RouteRule::Tls).into());
    }
    let snapshot = compile(&model);
    assert_eq!(owner(&snapshot, Some("a.test")).as_deref(), Some("old"));
    assert_eq!(owner(&snapshot, Some("b.test")), None);
    assert_eq!(owner(&snapshot, None), None);
}

#[test]
fn routes_with_a_server_name_precede_catch_all_routes() {
    let mut model = with(ListenerProtocol::TlsPassthrough);
    model.insert(l4("tcp", 1, &[], RouteRule::Tcp).into());
    model.insert(l4("tls", 2, &[], RouteRule::Tls).into());
    let snapshot = compile(&model);
    assert_eq!(owner(&snapshot, Some("a.test")).as_deref(), Some("tls"));
}

#[test]
fn an_l4_rule_holds_its_gateway_listener_and_cluster() {
    let mut model = with(ListenerProtocol::Tcp);
    model.insert(l4("tcp", 0, &[], RouteRule::Tcp).into());
    let snapshot = compile(&model);
    assert_eq!(bind(&snapshot).opening, BindProtocol::Tcp);
    let rule = bind(&snapshot)
        .listeners
        .first()
        .expect("a listener")
        .l4
        .find(None)
        .expect("a rule");
    assert_eq!(&*rule.gateway, gateway().to_string());
    assert!(rule.listener.ends_with("/http"), "{}", rule.listener);
    let index = rule.backends[0].cluster.expect("it resolves");
    assert_eq!(&*snapshot.cluster(index).name, "Service/app/shop:80");
}

#[test]
fn a_port_for_tcp_and_udp_compiles_to_two_clusters() {
    let mut model = with(ListenerProtocol::Udp);
    let mut both = service("shop", &[80, 80]);
    both.ports[1].transport = Transport::Udp;
    model.insert(both.into());
    let mut of_udp = workload("udp", "10.0.0.2", Health::Ready, "shop", 80, 5353);
    of_udp.serves[0].transport = Transport::Udp;
    model.insert(of_udp.into());
    model.insert(l4("udp", 0, &[], RouteRule::Udp).into());
    let snapshot = compile(&model);
    assert_eq!(bind(&snapshot).opening, BindProtocol::Udp);
    let rule = bind(&snapshot)
        .listeners
        .first()
        .expect("a listener")
        .l4
        .find(None)
        .expect("a rule");
    let index = rule.backends[0].cluster.expect("it resolves");
    let udp = snapshot.cluster(index);
    assert_eq!(&*udp.name, "Service/app/shop:80/udp");
    assert_eq!(&*udp.endpoints[0].name, "10.0.0.2:5353");
    let tcp = cluster(&snapshot, "Service/app/shop:80");
    assert_eq!(&*tcp.endpoints[0].name, "10.0.0.1:8080");
}

#[test]
fn a_cluster_has_the_proxy_protocol_version_of_its_backend() {
    use xds::model::{Host, HostAddress, Hosts, ProxyProtocolVersion};
    let mut model = with(ListenerProtocol::Tcp);
    let host = Host {
        address: HostAddress::Ip(IpAddr::from([10, 0, 0, 9])),
        port: std::num::NonZeroU16::MIN,
        weight: std::num::NonZeroU32::MIN,
        zone: None,
    };
    for (name, version) in [
        ("silent", None),
        ("one", Some(ProxyProtocolVersion::V1)),
        ("two", Some(ProxyProtocolVersion::V2)),
    ] {
        let mut backend = backend(name, Hosts::Static(vec![host.clone()]));
        backend.proxy_protocol = version;
        model.insert(backend.into());
    }
    let snapshot = compile(&model);
    let version = |name| cluster(&snapshot, name).proxy_protocol;
    assert_eq!(version("Backend/app/silent"), None);
    assert_eq!(version("Backend/app/one"), Some(Version::V1));
    assert_eq!(version("Backend/app/two"), Some(Version::V2));
}

#[test]
fn unresolved_references_are_kept_for_each_backend() {
    let mut model = with(ListenerProtocol::Tcp);
    let mut route = l4("tcp", 0, &[], RouteRule::Tcp);
    if let RouteRule::Tcp(rule) = &mut route.rule {
        let target = Target::Service {
            service: xds::model::ServiceKey::new(&gateway()),
            port: 1,
        };
        rule.backends.push(L4Backend { target, weight: 1 });
    }
    model.insert(route.into());
    let snapshot = compile(&model);
    let rule = bind(&snapshot)
        .listeners
        .first()
        .expect("a listener")
        .l4
        .find(None)
        .expect("a rule");
    assert!(rule.backends[0].cluster.is_ok());
    assert!(rule.backends[1].cluster.is_err());
}

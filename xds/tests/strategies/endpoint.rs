//! Both ends of a connection: binds and listeners, services, workloads and backends.

use std::num::NonZeroU32;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    Backend, BackendProtocol, BackendTls, Bind, Health, Host, HostAddress, Hosts, Listener,
    ListenerProtocol, Member, Picker, PickerFailureMode, Pool, ProxyProtocolVersion, Serves,
    Service, ServicePort, SessionAffinity, TopologyHints, Workload, WorkloadKey,
};

use super::filter::external_auth;
use super::tls::{backend_tls, tls_server};
use super::value::{
    address, backend_key, bind_key, duration, exact_hostname, hostname, listener_key, name,
    object_name, port, service_key, transport,
};

prop_compose! {
    pub(super) fn bind()(
        key in bind_key(),
        address in address(),
        port in port(),
        transport in transport(),
        gateway in object_name(),
    ) -> Bind {
        Bind { key, address, port, transport, gateway }
    }
}

prop_compose! {
    pub(super) fn listener()(
        key in listener_key(),
        bind in bind_key(),
        gateway in object_name(),
        name in name(),
        hostname in option::of(hostname()),
        protocol in listener_protocol(),
        external_auth in vec(external_auth(), 0..2),
    ) -> Listener {
        Listener { key, bind, gateway, name, hostname, protocol, external_auth }
    }
}

fn listener_protocol() -> impl Strategy<Value = ListenerProtocol> {
    prop_oneof![
        Just(ListenerProtocol::Http),
        tls_server().prop_map(ListenerProtocol::Https),
        tls_server().prop_map(ListenerProtocol::Tls),
        Just(ListenerProtocol::TlsPassthrough),
        Just(ListenerProtocol::Tcp),
        Just(ListenerProtocol::Udp),
    ]
}

prop_compose! {
    pub(super) fn service()(
        key in service_key(),
        vips in vec(address(), 0..3),
        ports in vec(service_port(), 0..4),
        session_affinity in prop_oneof![
            Just(SessionAffinity::None),
            Just(SessionAffinity::ClientAddress),
        ],
    ) -> Service {
        Service { key, vips, ports, session_affinity }
    }
}

prop_compose! {
    fn service_port()(
        port in port(),
        transport in transport(),
        name in "[a-z]{0,8}",
        (protocol, tls) in protocol_and_tls(),
    ) -> ServicePort {
        ServicePort { port, transport, name, protocol, tls: tls.map(Box::new) }
    }
}

fn protocol_and_tls() -> impl Strategy<Value = (BackendProtocol, Option<BackendTls>)> {
    let plain = prop_oneof![Just(BackendProtocol::Http), Just(BackendProtocol::H2c)];
    let in_tls = prop_oneof![Just(BackendProtocol::Https), Just(BackendProtocol::H2)];
    prop_oneof![
        plain.prop_map(|protocol| (protocol, None)),
        (in_tls, backend_tls()).prop_map(|(protocol, tls)| (protocol, Some(tls))),
        option::of(backend_tls()).prop_map(|tls| (BackendProtocol::Tcp, tls)),
    ]
}

prop_compose! {
    pub(super) fn workload()(
        object in object_name(),
        address in address(),
        node in option::of(name()),
        zone in option::of(name()),
        hints in option::of(hints()),
        health in health(),
        serves in vec(serves(), 0..4),
    ) -> Workload {
        let key = WorkloadKey::new("EndpointSlice", &object, &address.to_string());
        Workload { key, address, node, zone, hints: hints.map(Box::new), health, serves }
    }
}

fn hints() -> impl Strategy<Value = TopologyHints> {
    let hints = (vec(name(), 0..3), vec(name(), 0..3));
    let hints = hints.prop_map(|(zones, nodes)| TopologyHints { zones, nodes });
    hints.prop_filter("there is none", |hints| *hints != TopologyHints::default())
}

prop_compose! {
    fn serves()(
        service in service_key(),
        port in port(),
        transport in transport(),
        target_port in port(),
    ) -> Serves {
        Serves { service, port, transport, target_port }
    }
}

prop_compose! {
    pub(super) fn backend()(
        key in backend_key(),
        hosts in hosts(),
        (protocol, tls) in protocol_and_tls(),
        proxy_protocol in option::of(prop_oneof![
            Just(ProxyProtocolVersion::V1),
            Just(ProxyProtocolVersion::V2),
        ]),
    ) -> Backend {
        Backend { key, hosts, protocol, tls, proxy_protocol }
    }
}

fn hosts() -> impl Strategy<Value = Hosts> {
    let dns = (exact_hostname(), port(), option::of(duration()));
    prop_oneof![
        vec(host(), 1..4).prop_map(Hosts::Static),
        dns.prop_map(|(name, port, refresh)| Hosts::Dns {
            name,
            port,
            refresh
        }),
        (vec(member(), 0..4), option::of(picker()))
            .prop_map(|(members, picker)| Hosts::Pool(Pool { members, picker })),
        "/[a-z/. é]{0,50}".prop_map(|path| Hosts::Unix {
            path: PathBuf::from(path)
        }),
    ]
}

fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        Just(Health::Ready),
        Just(Health::Draining),
        Just(Health::NotReady)
    ]
}

prop_compose! {
    fn member()(address in address(), port in port(), health in health()) -> Member {
        Member { address, port, health }
    }
}

prop_compose! {
    fn picker()(
        members in vec(member(), 0..3),
        tls in option::of(backend_tls()),
        failure_mode in prop_oneof![
            Just(PickerFailureMode::FailOpen),
            Just(PickerFailureMode::FailClose),
        ],
    ) -> Picker {
        Picker { members, tls, failure_mode }
    }
}

prop_compose! {
    fn host()(
        address in prop_oneof![
            address().prop_map(HostAddress::Ip),
            exact_hostname().prop_map(HostAddress::Name),
        ],
        port in port(),
        weight in any::<NonZeroU32>(),
        zone in option::of(name()),
    ) -> Host {
        Host { address, port, weight, zone }
    }
}

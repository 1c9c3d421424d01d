//! Both ends of a connection: binds and listeners, services, workloads and backends.

use std::num::NonZeroU32;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    AppProtocol, Backend, BackendProtocol, Bind, Health, Host, HostAddress, Hosts, Listener,
    ListenerProtocol, Serves, Service, ServicePort, Workload, WorkloadKey,
};

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
    ) -> Listener {
        Listener { key, bind, gateway, name, hostname, protocol: ListenerProtocol::Http }
    }
}

prop_compose! {
    pub(super) fn service()(
        key in service_key(),
        vips in vec(address(), 0..3),
        ports in vec(service_port(), 0..4),
    ) -> Service {
        Service { key, vips, ports }
    }
}

prop_compose! {
    fn service_port()(
        port in port(),
        name in "[a-z]{0,8}",
        protocol in prop_oneof![Just(AppProtocol::Http), Just(AppProtocol::H2c)],
    ) -> ServicePort {
        ServicePort { port, name, protocol }
    }
}

prop_compose! {
    pub(super) fn workload()(
        object in object_name(),
        address in address(),
        node in option::of(name()),
        zone in option::of(name()),
        health in prop_oneof![Just(Health::Ready), Just(Health::Draining), Just(Health::NotReady)],
        serves in vec(serves(), 0..4),
    ) -> Workload {
        let key = WorkloadKey::new("EndpointSlice", &object, &address.to_string());
        Workload { key, address, node, zone, health, serves }
    }
}

prop_compose! {
    fn serves()(service in service_key(), port in port(), target_port in port()) -> Serves {
        Serves { service, port, target_port }
    }
}

prop_compose! {
    pub(super) fn backend()(key in backend_key(), hosts in hosts()) -> Backend {
        Backend { key, hosts, protocol: BackendProtocol::Http }
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
        "/[a-z/. é]{0,50}".prop_map(|path| Hosts::Unix {
            path: PathBuf::from(path)
        }),
    ]
}

prop_compose! {
    fn host()(
        address in prop_oneof![
            address().prop_map(HostAddress::Ip),
            exact_hostname().prop_map(HostAddress::Name),
        ],
        port in port(),
        weight in any::<NonZeroU32>(),
    ) -> Host {
        Host { address, port, weight }
    }
}

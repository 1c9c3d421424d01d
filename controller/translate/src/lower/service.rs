//! Services and the workloads behind them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU16;

use xds::model::{
    BackendProtocol, BackendTls, Health, Model, ObjectName, Serves, Service, ServiceKey,
    ServicePort, Transport, Workload, WorkloadKey,
};

use crate::api::{
    self, AddressType, Endpoint, EndpointConditions, EndpointSlice, Resource as _,
    SERVICE_NAME_LABEL, TransportProtocol,
};
use crate::resolve::World;
use crate::store::Store;

/// What a port speaks, by its `appProtocol` and whether TLS is asked for. Names without a domain are
/// IANA's, in any case (`HTTPS`).
pub(crate) fn protocol(port: &api::ServicePort, tls: Option<&BackendTls>) -> BackendProtocol {
    let name = port.app_protocol.as_deref().unwrap_or_default();
    let name = if name.contains('/') {
        name.to_owned()
    } else {
        name.to_ascii_lowercase()
    };
    match (&*name, tls) {
        ("" | "http" | "kubernetes.io/ws", None) => BackendProtocol::Http,
        ("h2c" | "http2" | "grpc" | "kubernetes.io/h2c", None) => BackendProtocol::H2c,
        ("" | "http" | "https" | "kubernetes.io/ws" | "kubernetes.io/wss", Some(_)) => {
            BackendProtocol::Https
        }
        ("h2c" | "http2" | "grpc" | "kubernetes.io/h2c", Some(_)) => BackendProtocol::H2,
        // Routes that look at connections alone carry whatever is spoken there.
        _ => BackendProtocol::Tcp,
    }
}

/// Why no request of HTTP can be sent to a port. Completes the sentence `port 80 of Service a/b …`.
pub(crate) fn no_http(port: &api::ServicePort, tls: Option<&BackendTls>) -> Option<String> {
    if protocol(port, tls) != BackendProtocol::Tcp {
        return None;
    }
    let name = port.app_protocol.as_deref().unwrap_or_default();
    let wants_tls = ["https", "kubernetes.io/wss"].contains(&&*name.to_ascii_lowercase());
    Some(if wants_tls {
        format!(
            "has appProtocol `{name}`: add a BackendTLSPolicy that says what its certificate is"
        )
    } else {
        format!(
            "has appProtocol `{name}`, which is not supported: use http, https, grpc, \
             kubernetes.io/h2c, kubernetes.io/ws or kubernetes.io/wss, or leave it out"
        )
    })
}

/// Adds the services that are wanted, and the workloads that serve them.
pub(crate) fn add(model: &mut Model, world: &World<'_>, wanted: &HashSet<ServiceKey>) {
    if wanted.is_empty() {
        return;
    }
    let store = world.store;
    let slices = slices_by_service(store);
    let mut serving = Vec::new();
    for (name, object) in &store.services {
        let key = ServiceKey::new(name);
        if !wanted.contains(&key) {
            continue;
        }
        let service = service(world, key, object);
        if let Some(slices) = slices.get(&(&*name.namespace, &*name.name)) {
            serving.append(&mut workloads(&service, slices));
        }
        model.services.insert(service.key.clone(), service);
    }
    let serving = serving
        .into_iter()
        .map(|workload| (workload.key.clone(), workload));
    model.workloads = serving.collect();
}

type NamedSlice<'a> = (&'a ObjectName, &'a EndpointSlice);

fn slices_by_service(store: &Store) -> HashMap<(&str, &str), Vec<NamedSlice<'_>>> {
    let mut slices: HashMap<_, Vec<_>> = HashMap::new();
    for (name, slice) in &store.endpoint_slices {
        if let Some(service) = slice.metadata.labels.get(SERVICE_NAME_LABEL) {
            let service = (&*name.namespace, service.as_str());
            slices.entry(service).or_default().push((name, slice));
        }
    }
    slices
}

fn service(world: &World<'_>, key: ServiceKey, object: &api::Service) -> Service {
    let spec = &object.spec;
    let addresses = spec.cluster_ips.iter().chain(&spec.cluster_ip);
    // A headless Service has the text `None` there.
    let mut vips: Vec<IpAddr> = addresses.filter_map(|text| text.parse().ok()).collect();
    let mut seen = BTreeSet::new();
    vips.retain(|vip| seen.insert(*vip));
    let ports = spec.ports.iter().filter_map(|port| {
        let transport = transport(port.protocol)?;
        let tls = world.backend_tls.of_port(&key, &port.name);
        let tls = tls.filter(|_| transport == Transport::Tcp);
        Some(ServicePort {
            port: port.port,
            transport,
            name: port.name.clone(),
            protocol: match transport {
                Transport::Tcp => protocol(port, tls),
                Transport::Udp => BackendProtocol::Tcp,
            },
            tls: tls.cloned(),
        })
    });
    let ports = ports.collect();
    Service { key, vips, ports }
}

/// `None` for SCTP, which no route carries.
fn transport(protocol: TransportProtocol) -> Option<Transport> {
    match protocol {
        TransportProtocol::Tcp => Some(Transport::Tcp),
        TransportProtocol::Udp => Some(Transport::Udp),
        TransportProtocol::Sctp => None,
    }
}

/// An endpoint can be in two slices while it moves from one to the other. It is one workload, in
/// its better state.
fn workloads(service: &Service, slices: &[NamedSlice<'_>]) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::new();
    let mut by_socket: HashMap<_, usize> = HashMap::new();
    for (name, slice) in slices {
        if slice.address_type == AddressType::Fqdn {
            continue;
        }
        for endpoint in &slice.endpoints {
            let Some(mut workload) = workload(name, endpoint) else {
                continue;
            };
            for serves in served(service, slice) {
                let Serves {
                    transport,
                    port,
                    target_port,
                    ..
                } = serves;
                let socket = (workload.address, transport, port, target_port);
                if let Some(&other) = by_socket.get(&socket) {
                    let other = &mut workloads[other];
                    if preference(other.health) <= preference(workload.health) {
                        continue;
                    }
                    other.serves.retain(|its| *its != serves);
                }
                by_socket.insert(socket, workloads.len());
                workload.serves.push(serves);
            }
            workloads.push(workload);
        }
    }
    workloads.retain(|workload| !workload.serves.is_empty());
    workloads
}

fn workload(slice: &ObjectName, endpoint: &Endpoint) -> Option<Workload> {
    // Addresses of one endpoint are interchangeable; Kubernetes asks for the first to be used.
    let text = endpoint.addresses.first()?;
    let address: IpAddr = text.parse().ok()?;
    Some(Workload {
        key: WorkloadKey::new(EndpointSlice::KIND, slice, &address.to_string()),
        address,
        node: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        health: health(endpoint.conditions),
        serves: Vec::new(),
    })
}

/// The ports of the service that a slice has endpoints for, matched by name.
fn served<'a>(
    service: &'a Service,
    slice: &'a EndpointSlice,
) -> impl Iterator<Item = Serves> + use<'a> {
    slice.ports.iter().flat_map(|port| {
        let target = port.port.and_then(NonZeroU16::new);
        let transport = transport(port.protocol);
        let ports = service.ports.iter();
        let named = ports.filter(move |it| it.name == port.name && Some(it.transport) == transport);
        named.zip(target).map(|(it, target_port)| Serves {
            service: service.key.clone(),
            port: it.port,
            transport: it.transport,
            target_port,
        })
    })
}

/// Kubernetes: unknown `ready` means ready, unknown `serving` means as `ready`.
fn health(conditions: EndpointConditions) -> Health {
    let ready = conditions.ready.unwrap_or(true);
    let serving = conditions.serving.unwrap_or(ready);
    let terminating = conditions.terminating.unwrap_or(false);
    match (ready, serving && terminating) {
        (true, _) => Health::Ready,
        (false, true) => Health::Draining,
        (false, false) => Health::NotReady,
    }
}

/// The smaller, the better.
fn preference(health: Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Draining => 1,
        Health::NotReady => 2,
    }
}

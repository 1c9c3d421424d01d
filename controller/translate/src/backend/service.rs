//! Services and the workloads behind them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU16;

use xds::encode;
use xds::model::{
    BackendProtocol, Health, ObjectName, Serves, Service, ServiceKey, ServicePort, SessionAffinity,
    TopologyHints, Transport, Workload, WorkloadKey,
};

use super::api;
use super::api::{
    AddressType, Endpoint, EndpointConditions, EndpointHints, EndpointSlice, HintTarget,
    TransportProtocol,
};
use super::app_protocol::protocol;
use super::external_host::check_address;
use super::upstream::PortOfService;
use crate::budgets::Budget;
use crate::objects::api::Resource as _;
use crate::objects::reader::Reader;

/// A Service as the model has it, with the workloads of its slices.
pub(crate) struct LoweredService {
    pub(crate) service: Service,
    pub(crate) workloads: Vec<Workload>,
    /// Addresses in its slices that proxies may not send requests to: anybody may write slices.
    pub(crate) refused: BTreeSet<IpAddr>,
    /// How many endpoints it has, each counted for each of its ports in use, with those beyond the limit,
    /// which are not among the workloads.
    pub(crate) endpoints: u64,
}

/// Lowers a Service with these of its ports.
pub(crate) fn lower(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &api::Service,
    ports: &[PortOfService],
) -> LoweredService {
    let service = service(reader, ServiceKey::new(name), object, ports);
    let slices = reader.slices(name);
    let slices = slices.filter_map(|name| Some((name, &**reader.object::<EndpointSlice>(name)?)));
    let slices: Vec<(&ObjectName, &EndpointSlice)> = slices.collect();
    let limit = reader.options().budgets.of(Budget::ServiceEndpoints);
    let endpoints = slices.iter().map(|(_, it)| endpoints(&service, it)).sum();
    let taken = if endpoints > limit {
        oldest(slices, &service, limit)
    } else {
        slices
    };
    let mut workloads = workloads(&service, taken.into_iter());
    let mut refused = BTreeSet::new();
    workloads.retain(|workload| {
        let is_allowed = check_address(reader, workload.address).is_ok();
        if !is_allowed {
            refused.insert(workload.address);
        }
        is_allowed
    });
    LoweredService {
        service,
        workloads,
        refused,
        endpoints,
    }
}

/// The oldest slices that have no more endpoints in all than `limit`.
fn oldest<'a>(
    mut slices: Vec<(&'a ObjectName, &'a EndpointSlice)>,
    service: &Service,
    limit: u64,
) -> Vec<(&'a ObjectName, &'a EndpointSlice)> {
    slices.sort_by_key(|(name, slice)| (slice.metadata.created(), *name));
    let mut taken = 0;
    slices.retain(|(_, slice)| {
        let with_it = taken + endpoints(service, slice);
        let fits = with_it <= limit;
        if fits {
            taken = with_it;
        }
        fits
    });
    slices
}

/// The endpoints of a slice, each counted for each port in use that it has: a proxy keeps a list of endpoints
/// for each port.
fn endpoints(service: &Service, slice: &EndpointSlice) -> u64 {
    let ports = served(service, slice).count();
    (slice.endpoints.len() as u64).saturating_mul(ports as u64)
}

/// What it takes of a Gateway's room for Services with these of its ports: one and its endpoints, and bytes,
/// which are estimated for endpoints.
pub(crate) fn cost(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &api::Service,
    ports: &[PortOfService],
) -> [u64; 2] {
    let service = service(reader, ServiceKey::new(name), object, ports);
    let (mut number, mut bytes) = (0, 0);
    for slice_name in reader.slices(name) {
        let Some(slice) = reader.object::<EndpointSlice>(slice_name) else {
            continue;
        };
        let ports = served(&service, slice).count();
        if ports == 0 {
            continue;
        }
        number += endpoints(&service, slice);
        let of_ports = ports * (name.namespace.len() + name.name.len() + SERVES_BYTES);
        let key = slice_name.namespace.len() + slice_name.name.len();
        let each = slice.endpoints.iter().map(|endpoint| {
            let texts = [&endpoint.node_name, &endpoint.zone].into_iter().flatten();
            let texts: usize = texts.map(String::len).sum();
            let hints = endpoint.hints.iter();
            let hints = hints.flat_map(|it| it.for_zones.iter().chain(&it.for_nodes));
            let texts = texts + hints.map(|it| it.name.len()).sum::<usize>();
            (key + texts + of_ports + WORKLOAD_BYTES) as u64
        });
        bytes += each.sum::<u64>();
    }
    // Those beyond the limit of a Service are not sent.
    let limit = reader.options().budgets.of(Budget::ServiceEndpoints);
    if number > limit {
        bytes = bytes / number * limit;
        number = limit;
    }
    let own = encode::resource(&service.into()).len() as u64;
    [number + 1, bytes + own]
}

fn service(
    reader: &Reader<'_>,
    key: ServiceKey,
    object: &api::Service,
    used: &[PortOfService],
) -> Service {
    let spec = &object.spec;
    let addresses = spec.cluster_ips.iter().chain(&spec.cluster_ip);
    // A headless Service has the text `None` there.
    let mut vips: Vec<IpAddr> = addresses.filter_map(|text| text.parse().ok()).collect();
    let mut seen = BTreeSet::new();
    vips.retain(|vip| seen.insert(*vip));
    let ports = spec.ports.iter().filter_map(|port| {
        let transport = transport(port.protocol)?;
        let number = port.port.get();
        // Proxies keep a cluster for each port that they get, whether anything is sent there or not.
        if !used.contains(&PortOfService { transport, number }) {
            return None;
        }
        let tls = reader.tls_of_port(&key, &port.name);
        let tls = tls.filter(|_| transport == Transport::Tcp);
        Some(ServicePort {
            port: port.port,
            transport,
            name: port.name.clone(),
            protocol: match transport {
                Transport::Tcp => protocol(port, tls),
                Transport::Udp => BackendProtocol::Tcp,
            },
            tls: tls.cloned().map(Box::new),
        })
    });
    // There are many Services, and most have one port and address.
    let mut ports: Vec<ServicePort> = ports.collect();
    ports.shrink_to_fit();
    vips.shrink_to_fit();
    let session_affinity = match spec.session_affinity {
        api::SessionAffinity::ClientAddress => SessionAffinity::ClientAddress,
        api::SessionAffinity::None => SessionAffinity::None,
    };
    Service {
        key,
        vips,
        ports,
        session_affinity,
    }
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
fn workloads<'a>(
    service: &Service,
    slices: impl Iterator<Item = (&'a ObjectName, &'a EndpointSlice)>,
) -> Vec<Workload> {
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
            workload.serves.shrink_to_fit();
            workloads.push(workload);
        }
    }
    workloads.retain(|workload| !workload.serves.is_empty());
    workloads
}

fn workload(slice: &ObjectName, endpoint: &Endpoint) -> Option<Workload> {
    // Addresses of one endpoint are interchangeable; Kubernetes specifies that the first is used.
    let text = endpoint.addresses.first()?;
    let address: IpAddr = text.parse().ok()?;
    Some(Workload {
        key: WorkloadKey::new(EndpointSlice::KIND.name(), slice, &address.to_string()),
        address,
        node: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        hints: endpoint.hints.as_deref().and_then(hints),
        health: health(endpoint.conditions),
        serves: Vec::new(),
    })
}

/// `None` if an endpoint has none that name anything.
fn hints(hints: &EndpointHints) -> Option<Box<TopologyHints>> {
    let names = |targets: &[HintTarget]| -> Vec<String> {
        let names = targets.iter().map(|target| &target.name);
        names.filter(|name| !name.is_empty()).cloned().collect()
    };
    let hints = TopologyHints {
        zones: names(&hints.for_zones),
        nodes: names(&hints.for_nodes),
    };
    (hints != TopologyHints::default()).then(|| Box::new(hints))
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

/// Bytes of an endpoint as it is sent, besides names: address, health, and the kind in its key.
const WORKLOAD_BYTES: usize = 64;
/// Bytes of a port that it serves, besides the name of the Service.
const SERVES_BYTES: usize = 24;

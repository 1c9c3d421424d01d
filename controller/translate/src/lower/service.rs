//! Services and the workloads behind them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU16;

use xds::model::{
    AppProtocol, Health, Model, ObjectName, Serves, Service, ServiceKey, ServicePort, Workload,
    WorkloadKey,
};

use crate::api::{
    self, AddressType, Endpoint, EndpointConditions, EndpointSlice, Resource as _,
    SERVICE_NAME_LABEL, TransportProtocol,
};
use crate::store::Store;

/// What a Service's port speaks: the one place that says which protocols towards backends the data
/// plane carries. The error completes the sentence `port 80 of Service a/b …`.
pub(crate) fn app_protocol(port: &api::ServicePort) -> Result<AppProtocol, String> {
    match port.app_protocol.as_deref() {
        None | Some("" | "http" | "kubernetes.io/ws") => Ok(AppProtocol::Http),
        Some(other) => Err(format!(
            "has appProtocol `{other}`, which is not supported: use http or kubernetes.io/ws, or \
             leave it out"
        )),
    }
}

/// Adds the services that are wanted, and the workloads that serve them.
pub(crate) fn add(model: &mut Model, store: &Store, wanted: &HashSet<ServiceKey>) {
    if wanted.is_empty() {
        return;
    }
    let slices = slices_by_service(store);
    let mut serving = Vec::new();
    for (name, object) in &store.services {
        let key = ServiceKey::new(name);
        if !wanted.contains(&key) {
            continue;
        }
        let service = service(key, object);
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

fn service(key: ServiceKey, object: &api::Service) -> Service {
    let spec = &object.spec;
    let addresses = spec.cluster_ips.iter().chain(&spec.cluster_ip);
    // A headless Service has the text `None` there.
    let mut vips: Vec<IpAddr> = addresses.filter_map(|text| text.parse().ok()).collect();
    let mut seen = BTreeSet::new();
    vips.retain(|vip| seen.insert(*vip));
    let ports = spec.ports.iter().filter_map(|port| {
        let tcp = port.protocol == TransportProtocol::Tcp;
        let protocol = app_protocol(port).ok().filter(|_| tcp)?;
        Some(ServicePort {
            port: port.port,
            name: port.name.clone(),
            protocol,
        })
    });
    Service {
        key,
        vips,
        ports: ports.collect(),
    }
}

/// An endpoint can be in two slices while it moves from one to the other. It is one workload, in
/// its better state.
fn workloads(service: &Service, slices: &[NamedSlice<'_>]) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::new();
    let mut by_socket: HashMap<(IpAddr, NonZeroU16, NonZeroU16), usize> = HashMap::new();
    for (name, slice) in slices {
        if slice.address_type == AddressType::Fqdn {
            continue;
        }
        for endpoint in &slice.endpoints {
            let Some(mut workload) = workload(name, endpoint) else {
                continue;
            };
            for serves in served(service, slice) {
                let socket = (workload.address, serves.port, serves.target_port);
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
    let tcp = |port: &&api::EndpointPort| port.protocol == TransportProtocol::Tcp;
    slice.ports.iter().filter(tcp).flat_map(|port| {
        let target = port.port.and_then(NonZeroU16::new);
        let named = service.ports.iter().filter(|it| it.name == port.name);
        named.zip(target).map(|(it, target_port)| Serves {
            service: service.key.clone(),
            port: it.port,
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

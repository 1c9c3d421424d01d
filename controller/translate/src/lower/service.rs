//! Services and the workloads behind them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
pub(crate) fn add(model: &mut Model, store: &Store, wanted: &BTreeSet<ServiceKey>) {
    if wanted.is_empty() {
        return;
    }
    let slices = slices_by_service(store);
    for (name, object) in &store.services {
        let key = ServiceKey::new(name);
        if !wanted.contains(&key) {
            continue;
        }
        let service = service(key, object);
        let slices = slices.get(&(&*name.namespace, &*name.name));
        add_workloads(model, &service, slices.map_or(&[], Vec::as_slice));
        model.services.insert(service.key.clone(), service);
    }
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
fn add_workloads(model: &mut Model, service: &Service, slices: &[NamedSlice<'_>]) {
    let mut by_address: BTreeMap<(IpAddr, NonZeroU16, NonZeroU16), (Health, WorkloadKey)> =
        BTreeMap::new();
    for (name, slice) in slices {
        if slice.address_type == AddressType::Fqdn {
            continue;
        }
        for endpoint in &slice.endpoints {
            let Some(address) = address(endpoint) else {
                continue;
            };
            let health = health(endpoint.conditions);
            let text = address.to_string();
            let key = WorkloadKey::new(EndpointSlice::KIND, name, &text);
            for serves in served(service, slice) {
                let socket = (address, serves.port, serves.target_port);
                if let Some((known, other)) = by_address.get(&socket) {
                    if preference(*known) <= preference(health) {
                        continue;
                    }
                    withdraw(model, &other.clone(), &serves);
                }
                by_address.insert(socket, (health, key.clone()));
                let workload = model.workloads.entry(key.clone());
                let workload = workload.or_insert_with(|| Workload {
                    key: key.clone(),
                    address,
                    node: endpoint.node_name.clone(),
                    zone: endpoint.zone.clone(),
                    health,
                    serves: Vec::new(),
                });
                workload.serves.push(serves);
            }
        }
    }
}

fn withdraw(model: &mut Model, key: &WorkloadKey, serves: &Serves) {
    if let Some(workload) = model.workloads.get_mut(key) {
        workload.serves.retain(|other| other != serves);
        if workload.serves.is_empty() {
            model.workloads.remove(key);
        }
    }
}

/// Addresses of one endpoint are interchangeable; Kubernetes asks for the first to be used.
fn address(endpoint: &Endpoint) -> Option<IpAddr> {
    endpoint.addresses.first()?.parse().ok()
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

//! The Services of a Gateway, and its addresses.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use translate::api::{GatewayAddress, ROUTABLE_IN_CLUSTER};
use translate::{AssignedAddresses, NoAddress};

use super::{RenderInput, metadata, non_empty, pod};
use crate::deploy::addresses::{AddressSource, NodeAddresses};
use crate::deploy::labels;
use crate::deploy::parameters::{AddressesFrom, ServiceType};
use crate::deploy::ports::{Port, Transport};

/// The Service with the Gateway's ports.
pub(super) fn of_listeners(input: &RenderInput) -> Service {
    let parameters = &input.parameters.service;
    let kind = service_type(input);
    let mut metadata = metadata(input, &labels::service_name(&input.name.name));
    let mut annotations = input.infrastructure.annotations.clone();
    annotations.extend(parameters.annotations.clone());
    metadata.annotations = non_empty(annotations);
    // Other requested addresses are not available, which the Gateway's status reports.
    let requested = |is_in_cluster: bool| {
        let mut addresses = input.infrastructure.addresses.iter();
        let found = addresses.find(|it| {
            let is_scope = (it.routability == ROUTABLE_IN_CLUSTER) == is_in_cluster;
            is_scope && it.kind == IP_ADDRESS && !it.value.is_empty()
        });
        found.map(|it| it.value.clone())
    };
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(kind.as_str().to_owned()),
            selector: Some(labels::selector(&input.name.name)),
            ports: Some(input.ports.iter().copied().map(port).collect()),
            load_balancer_ip: requested(false).filter(|_| kind == ServiceType::LoadBalancer),
            // The API server accepts it for this type only.
            allocate_load_balancer_node_ports: parameters
                .node_ports
                .filter(|_| kind == ServiceType::LoadBalancer),
            cluster_ip: requested(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// A Gateway that requests only ClusterIPs must not be reachable from outside, whatever its
/// parameters say.
pub(super) fn service_type(input: &RenderInput) -> ServiceType {
    if is_internal(input) {
        return ServiceType::ClusterIp;
    }
    input.parameters.service_type()
}

/// Whether a Gateway requests ClusterIPs, and nothing else.
fn is_internal(input: &RenderInput) -> bool {
    let addresses = &input.infrastructure.addresses;
    let is_internal = |it: &GatewayAddress| it.routability == ROUTABLE_IN_CLUSTER;
    !addresses.is_empty() && addresses.iter().all(is_internal)
}

/// Where the addresses in a Gateway's status come from. What only nodes have implies them.
#[must_use]
pub fn address_source(input: &RenderInput) -> AddressSource {
    let wanted = &input.parameters.addresses;
    let is_at_nodes = match service_type(input) {
        ServiceType::NodePort => true,
        ServiceType::None => input.parameters.has_host_ports(),
        ServiceType::LoadBalancer | ServiceType::ClusterIp => false,
    };
    let is_of_nodes = is_at_nodes || wanted.kind.is_some() || wanted.selector.is_some();
    let from_nodes = match wanted.from {
        _ if is_internal(input) => false,
        Some(from) => from == AddressesFrom::Nodes,
        None => is_of_nodes,
    };
    if from_nodes {
        return AddressSource::Nodes(NodeAddresses {
            kind: wanted.kind,
            selector: wanted.selector.clone(),
        });
    }
    match service_type(input) {
        ServiceType::None => AddressSource::Nowhere,
        _ => AddressSource::Service,
    }
}

fn port(port: Port) -> ServicePort {
    let (name, protocol) = match port.transport {
        Transport::Tcp => ("tcp", "TCP"),
        Transport::Udp => ("udp", "UDP"),
    };
    let number = i32::from(port.number);
    ServicePort {
        name: Some(format!("{name}-{number}")),
        port: number,
        target_port: Some(IntOrString::Int(number)),
        protocol: Some(protocol.to_owned()),
        ..ServicePort::default()
    }
}

/// The Service by which Prometheus discovers the proxies.
pub(super) fn of_metrics(input: &RenderInput) -> Service {
    let name = labels::metrics_service_name(&input.name.name, input.is_metrics_name_taken);
    Service {
        metadata: metadata(input, &name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(labels::selector(&input.name.name)),
            ports: Some(vec![ServicePort {
                name: Some("metrics".to_owned()),
                port: pod::METRICS_PORT,
                target_port: Some(IntOrString::Int(pod::METRICS_PORT)),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The addresses of a Gateway that its Service has: its external ones, which are assigned by the load balancer or
/// are among its `externalIPs`, or else those in the cluster if it has another type.
#[must_use]
pub fn addresses(service: &Service) -> AssignedAddresses {
    let address = |kind: &str, value: &str, routability: &str| GatewayAddress {
        kind: kind.to_owned(),
        value: value.to_owned(),
        routability: routability.to_owned(),
    };
    let spec = service.spec.as_ref();
    let cluster = spec.and_then(|it| it.cluster_ips.as_ref()).into_iter();
    let cluster = cluster
        .flatten()
        .filter(|it| *it != "None" && !it.is_empty());
    let cluster = cluster.map(|ip| address(IP_ADDRESS, ip, ROUTABLE_IN_CLUSTER));
    let cluster: Vec<GatewayAddress> = cluster.collect();
    let external = spec.and_then(|it| it.external_ips.as_ref()).into_iter();
    let external = external.flatten().map(|ip| address(IP_ADDRESS, ip, ""));
    let external: Vec<GatewayAddress> = external.collect();
    if spec.and_then(|it| it.type_.as_deref()) != Some("LoadBalancer") {
        return AssignedAddresses {
            default: if external.is_empty() {
                cluster.clone()
            } else {
                external
            },
            cluster,
            absence: NoAddress::Pending,
        };
    }
    let status = service.status.as_ref();
    let balancer = status.and_then(|it| it.load_balancer.as_ref());
    let ingress = balancer.and_then(|it| it.ingress.as_ref());
    let ingress = ingress.into_iter().flatten();
    let assigned = ingress.filter_map(|it| match (&it.ip, &it.hostname) {
        (Some(ip), _) => Some(address(IP_ADDRESS, ip, "")),
        (None, Some(name)) => Some(address("Hostname", name, "")),
        (None, None) => None,
    });
    let mut default: Vec<GatewayAddress> = assigned.collect();
    default.extend(external);
    AssignedAddresses {
        default,
        cluster,
        absence: NoAddress::Pending,
    }
}

const IP_ADDRESS: &str = "IPAddress";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_come_from_the_load_balancer_or_else_from_the_cluster() {
        for (service, expected) in [
            (
                json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}}),
                vec!["in the cluster 10.0.0.1"],
            ),
            (
                json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [
                    {"ip": "192.0.2.1"}, {"hostname": "lb.example.com"}, {}]}}}),
                vec!["IPAddress 192.0.2.1 ", "Hostname lb.example.com "],
            ),
            (
                json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"]}}),
                vec![
                    "IPAddress 10.0.0.1 Cluster",
                    "IPAddress fd00::1 Cluster",
                    "in the cluster 10.0.0.1",
                    "in the cluster fd00::1",
                ],
            ),
            (
                json!({"spec": {"type": "ClusterIP", "clusterIPs": ["None"]}}),
                vec![],
            ),
            (
                json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "externalIPs": ["192.0.2.7"]}}),
                vec!["IPAddress 192.0.2.7 ", "in the cluster 10.0.0.1"],
            ),
            (
                json!({"spec": {"type": "LoadBalancer", "externalIPs": ["192.0.2.7"]},
                       "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
                vec!["IPAddress 192.0.2.1 ", "IPAddress 192.0.2.7 "],
            ),
        ] {
            let service: Service = serde_json::from_value(service).expect("a Service");
            let found = addresses(&service);
            let default = found.default.iter();
            let default = default.map(|it| format!("{} {} {}", it.kind, it.value, it.routability));
            let cluster = found.cluster.iter();
            let cluster = cluster.map(|it| format!("in the cluster {}", it.value));
            assert_eq!(default.chain(cluster).collect::<Vec<_>>(), expected);
        }
    }
}

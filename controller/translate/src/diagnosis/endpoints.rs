//! Why a port of a Service has no endpoint.

use std::collections::BTreeSet;
use std::net::IpAddr;

use xds::model::ObjectName;

use super::view::View;
use crate::backend::api::{AddressType, Endpoint, EndpointSlice, ServicePort};
use crate::status::Reason;

/// Why no endpoint of a Service takes requests for a port, for readers of a namespace; `None` if one does.
pub(super) fn why_empty(
    view: &View<'_>,
    (reader, service): (&str, &ObjectName),
    port: &ServicePort,
) -> Option<(Reason, String)> {
    let all = view.slices(service);
    let slices = all.iter().filter(|it| it.address_type != AddressType::Fqdn);
    let slices: Vec<&EndpointSlice> = slices.copied().collect();
    if slices.is_empty() && !all.is_empty() {
        let why = "its EndpointSlices have names instead of addresses (addressType FQDN), which nobody resolves: use \
                   a Backend with `dns`";
        return Some((Reason::NoReadyEndpoints, why.to_owned()));
    }
    if slices.is_empty() {
        let has_selector = view.store.services.get(service);
        let has_selector = has_selector.is_some_and(|it| it.spec.has_selector);
        // Of files that are for a cluster, it makes those of Services with a selector only.
        let reason = if view.is_machine() && !has_selector {
            Reason::NoReadyEndpoints
        } else {
            Reason::NoEndpointSlice
        };
        return Some((reason, without_slice(view, reader, service)));
    }
    let filled = slices.iter().filter(|it| !it.endpoints.is_empty());
    let filled: Vec<&EndpointSlice> = filled.copied().collect();
    if filled.is_empty() {
        return Some((Reason::NoReadyEndpoints, without_endpoints(&slices)));
    }
    let serving = filled.iter().filter(|it| has_port(it, port));
    let serving: Vec<&EndpointSlice> = serving.copied().collect();
    if serving.is_empty() {
        return Some((Reason::NoReadyEndpoints, without_port(&filled, port)));
    }
    let mut endpoints = serving.iter().flat_map(|it| &it.endpoints);
    if endpoints.any(is_available) {
        return None;
    }
    // Without their number: the text would change with each of them, and the conditions of all routes with it.
    let why = if is_managed(&serving) {
        "none of its pods is ready: see why (kubectl describe pod)"
    } else {
        "none of the endpoints in its EndpointSlices is ready"
    };
    Some((Reason::NoReadyEndpoints, why.to_owned()))
}

fn without_slice(view: &View<'_>, reader: &str, service: &ObjectName) -> String {
    let known = view.sliced_services(&service.namespace);
    let hint = view.hints.of_slices(reader, service, known);
    if view.is_machine() {
        format!(
            "no EndpointSlice has the label `kubernetes.io/service-name: {}`{hint}: add one with its addresses, \
             or use a Backend",
            service.name
        )
    } else {
        format!("it has no EndpointSlice{hint}: does it have a selector?")
    }
}

fn without_endpoints(slices: &[&EndpointSlice]) -> String {
    if is_managed(slices) {
        "its selector matches no running pod: compare it with the labels of the pods".to_owned()
    } else {
        "its EndpointSlices list no endpoints".to_owned()
    }
}

fn without_port(slices: &[&EndpointSlice], port: &ServicePort) -> String {
    let wanted = named(&port.name);
    let ports = slices.iter().flat_map(|it| &it.ports);
    let ports = ports.filter(|it| it.protocol == port.protocol);
    let names: BTreeSet<String> = ports.map(|it| named(&it.name)).collect();
    let names: Vec<String> = names.into_iter().collect();
    let have = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    let advice = if is_managed(slices) {
        "does its targetPort name a port of the pods?"
    } else if names.is_empty() {
        "add one of the same name and protocol"
    } else {
        "use the same name in both"
    };
    let (protocol, number) = (port.protocol, port.port);
    format!(
        "its port {number} is {wanted}, and the {protocol} ports of its EndpointSlices are: {have}; {advice}"
    )
}

fn named(name: &str) -> String {
    if name.is_empty() {
        "without a name".to_owned()
    } else {
        format!("named `{name}`")
    }
}

fn has_port(slice: &EndpointSlice, port: &ServicePort) -> bool {
    let mut ports = slice.ports.iter();
    ports.any(|it| it.name == port.name && it.protocol == port.protocol && it.port.is_some())
}

/// As translation has it: an unknown readiness is ready, and one that terminates serves if no other does.
pub(super) fn is_available(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions;
    let ready = conditions.ready.unwrap_or(true);
    let serving = conditions.serving.unwrap_or(ready) && conditions.terminating.unwrap_or(false);
    let address = endpoint.addresses.first();
    (ready || serving) && address.is_some_and(|it| it.parse::<IpAddr>().is_ok())
}

/// Whether Kubernetes makes the slices, from the Service's selector.
fn is_managed(slices: &[&EndpointSlice]) -> bool {
    let is_managed = |it: &&EndpointSlice| {
        let labels = &it.metadata.labels;
        labels.get(MANAGED_BY).is_some_and(|by| &**by == CONTROLLER)
    };
    slices.iter().all(is_managed)
}

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

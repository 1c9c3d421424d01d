//! Lowers InferencePools, with their pods and endpoint pickers.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use xds::model::{
    Backend, BackendKey, BackendProtocol, BackendTls, Health, Hostname, Hosts, Member, ObjectName,
    Picker, PickerFailureMode, Pool, ServiceKey, Transport,
};

use super::api::{
    EndpointPickerFailureMode, EndpointPickerReference, InferencePool, Pod, PoolProtocol,
    ServicePort, TransportProtocol,
};
use super::upstream::PortOfService;
use super::{api, service};
use crate::objects::kinds::{ObjectKind, WrittenKind};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

#[derive(Debug, PartialEq)]
pub(crate) struct LoweredPool {
    pub(crate) backend: Backend,
    /// Problems of its reference to an endpoint picker.
    pub(crate) refs: Vec<Problem>,
}

/// Lowers a pool. If its endpoint picker cannot be resolved, it has one without endpoints: its
/// failure mode applies.
pub(crate) fn lower(reader: &Reader<'_>, name: &ObjectName, object: &InferencePool) -> LoweredPool {
    let spec = &object.spec;
    let mut refs = Vec::new();
    let picker = spec.endpoint_picker_ref.as_ref().map(|reference| {
        let found = find_picker(reader, &name.namespace, reference);
        let (members, tls) = found.unwrap_or_else(|problem| {
            refs.push(problem.under("spec.endpointPickerRef"));
            (Vec::new(), None)
        });
        Picker {
            members,
            tls,
            failure_mode: match reference.failure_mode {
                EndpointPickerFailureMode::FailOpen => PickerFailureMode::FailOpen,
                EndpointPickerFailureMode::FailClose => PickerFailureMode::FailClose,
            },
        }
    });
    let pool = Pool {
        members: members(reader, &name.namespace, &spec.selector.match_labels, || {
            spec.target_ports.iter().map(|port| port.number)
        }),
        picker,
    };
    let backend = Backend {
        key: BackendKey::of_pool(name),
        hosts: Hosts::Pool(pool),
        protocol: match spec.app_protocol {
            PoolProtocol::Http => BackendProtocol::Http,
            PoolProtocol::H2c => BackendProtocol::H2c,
        },
        tls: None,
        proxy_protocol: None,
    };
    LoweredPool { backend, refs }
}

/// Every port of every selected pod, ordered by pod name.
pub(crate) fn members<P: Iterator<Item = NonZeroU16>>(
    reader: &Reader<'_>,
    namespace: &str,
    selector_labels: &BTreeMap<String, String>,
    ports: impl Fn() -> P,
) -> Vec<Member> {
    let pods = reader.pods(namespace, selector_labels);
    let selected = pods.filter(|pod| is_selected(pod, selector_labels));
    let members = selected.flat_map(|pod| {
        let address = pod.status.pod_ip.filter(|_| !is_over(pod));
        ports().filter_map(move |port| {
            Some(Member {
                address: address?,
                port,
                health: health(pod),
            })
        })
    });
    members.collect()
}

fn is_selected(pod: &Pod, selector_labels: &BTreeMap<String, String>) -> bool {
    let labels = &pod.metadata.labels;
    selector_labels
        .iter()
        .all(|(key, value)| labels.get(&**key).is_some_and(|it| **it == **value))
}

/// Whether its address may belong to another pod by now.
fn is_over(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// As for endpoints of Services: a ready pod that is terminating drains.
fn health(pod: &Pod) -> Health {
    let mut conditions = pod.status.conditions.iter();
    let is_ready = conditions.any(|it| it.kind == "Ready" && it.status == "True");
    match (is_ready, pod.metadata.deletion_timestamp()) {
        (true, None) => Health::Ready,
        (true, Some(_)) => Health::Draining,
        (false, _) => Health::NotReady,
    }
}

/// Finds an endpoint picker, and its protocol.
fn find_picker(
    reader: &Reader<'_>,
    namespace: &str,
    reference: &EndpointPickerReference,
) -> Result<(Vec<Member>, Option<BackendTls>), Problem> {
    let fail = |field: &str, message: String| {
        Err(Problem::new(Reason::InvalidExtensionRef, field, message))
    };
    let EndpointPickerReference { group, kind, .. } = reference;
    if ObjectKind::find(group, kind) != Some(ObjectKind::Service) {
        let written = WrittenKind { group, kind };
        let message = format!("{written} cannot be an endpoint picker: use Service");
        return fail("kind", message);
    }
    let name = ObjectName::new(namespace, &reference.name);
    let Some(object) = reader.object::<api::Service>(&name) else {
        return fail("name", format!("Service {name} does not exist: create it"));
    };
    if object.spec.kind.as_deref() == Some("ExternalName") {
        let message = format!(
            "Service {name} is of type ExternalName, which can point anywhere (CVE-2021-25740): use \
             one that selects pods"
        );
        return fail("name", message);
    }
    let number = reference.port.map(|port| port.number);
    let mut ports = object.spec.ports.iter();
    let port = ports.find(|it| Some(it.port) == number && it.protocol == TransportProtocol::Tcp);
    let Some(port) = port else {
        let message = match number {
            Some(number) => format!("Service {name} has no TCP port {number}: use one that it has"),
            None => "is required for a Service".to_owned(),
        };
        return fail("port", message);
    };
    let tls = tls(reader, &name, port);
    Ok((picker_members(reader, &name, object, port.port), tls))
}

/// The Inference Extension: a picker uses TLS with a self-signed certificate, unless a
/// BackendTLSPolicy applies, or the protocol is `kubernetes.io/h2c`.
fn tls(reader: &Reader<'_>, name: &ObjectName, port: &ServicePort) -> Option<BackendTls> {
    if let Some(tls) = reader.tls_of_port(&ServiceKey::new(name), &port.name) {
        return Some(tls.clone());
    }
    if port.app_protocol.as_deref() == Some("kubernetes.io/h2c") {
        return None;
    }
    let host = format!("{}.{}.svc", name.name, name.namespace);
    Some(match Hostname::parse(&host) {
        Ok(server_name) => BackendTls::Unverified { server_name },
        // Names of Services and namespaces are DNS labels.
        Err(_) => BackendTls::Invalid,
    })
}

fn picker_members(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &api::Service,
    port: NonZeroU16,
) -> Vec<Member> {
    let used = PortOfService {
        transport: Transport::Tcp,
        number: port.get(),
    };
    let lowered = service::lower(reader, name, object, &[used]);
    let members = lowered.workloads.into_iter().flat_map(|workload| {
        let (address, health) = (workload.address, workload.health);
        let serves = workload.serves.into_iter();
        serves.map(move |it| Member {
            address,
            port: it.target_port,
            health,
        })
    });
    members.collect()
}

//! Renders the objects of a Gateway's workload: pure, from the user's settings and the
//! controller's.

mod pod;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec,
    DeploymentStrategy, RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use translate::Infrastructure;
use translate::api::ROUTABLE_IN_CLUSTER;
use xds::model::ObjectName;

use super::child::{Child, ChildKind};
use super::parameters::{Parameters, Workload};
use super::ports::Port;
use super::{labels, overlay};

pub use service::addresses;

/// The properties of a Gateway that its workload depends on.
#[derive(Debug, Clone)]
pub struct RenderInput {
    /// Namespace and name of the Gateway.
    pub name: ObjectName,
    /// UID of the Gateway, for owner references.
    pub uid: String,
    /// The Gateway's `infrastructure` and requested addresses.
    pub infrastructure: Infrastructure,
    /// The ports of its listeners.
    pub ports: BTreeSet<Port>,
    /// Its parameters, merged with those of its class.
    pub parameters: Parameters,
    /// Whether its namespace enforces the pod security standard `restricted`.
    pub enforces_restricted: bool,
    /// Whether its Deployment is autoscaled.
    pub is_autoscaled: bool,
}

impl RenderInput {
    /// Requests any ClusterIP instead of a specific one. Returns whether there was one.
    pub(super) fn release_cluster_ip(&mut self) -> bool {
        let mut was_set = false;
        for address in &mut self.infrastructure.addresses {
            if address.routability == ROUTABLE_IN_CLUSTER && !address.value.is_empty() {
                address.value.clear();
                was_set = true;
            }
        }
        was_set
    }
}

/// Settings common to the proxies of all Gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// Default image of the proxy.
    pub image: String,
    /// Pull policy of the image.
    pub image_pull_policy: String,
    /// URL of the controller's xDS server: `https://HOST:PORT`, or `http://HOST:PORT`.
    pub xds_address: String,
    /// PEM of the CA certificates for the controller; `None` without TLS.
    pub authorities: Option<String>,
    /// Audience of the proxies' tokens.
    pub audience: String,
}

/// An object to apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// Kind and name of the object.
    pub child: Child,
    /// The object in JSON.
    pub object: Value,
}

/// The objects of a Gateway, in the order of application. A Gateway without ports has no Service
/// yet, since a Service must have a port.
#[must_use]
pub fn render(input: &RenderInput, defaults: &Defaults) -> Vec<Rendered> {
    let overlays = &input.parameters.overlays;
    let name = labels::child_name(&input.name.name);
    let mut objects = vec![
        finished(
            input,
            ChildKind::ServiceAccount,
            &account(input, &name),
            &overlays.service_account,
        ),
        finished(
            input,
            ChildKind::ConfigMap,
            &config_map(input, defaults, &name),
            &overlays.config_map,
        ),
    ];
    objects.push(match input.parameters.workload.unwrap_or_default() {
        Workload::Deployment => finished(
            input,
            ChildKind::Deployment,
            &deployment(input, defaults, &name),
            &overlays.deployment,
        ),
        Workload::DaemonSet => finished(
            input,
            ChildKind::DaemonSet,
            &daemon_set(input, defaults, &name),
            &overlays.daemon_set,
        ),
    });
    if !input.ports.is_empty() {
        let service = service::of_listeners(input);
        objects.push(finished(
            input,
            ChildKind::Service,
            &service,
            &overlays.service,
        ));
    }
    let metrics = service::of_metrics(input);
    objects.push(finished(
        input,
        ChildKind::Service,
        &metrics,
        &overlays.metrics_service,
    ));
    objects
}

/// Applies the overlay to an object. Identifying fields stay whatever the overlay says.
fn finished<T>(input: &RenderInput, kind: ChildKind, object: &T, changes: &Value) -> Rendered
where
    T: k8s_openapi::Metadata<Ty = ObjectMeta> + serde::Serialize,
{
    let before = serde_json::to_value(object).unwrap_or_default();
    let mut after = before.clone();
    if changes.is_object() {
        overlay::merge(&mut after, changes);
    }
    for pointer in FIXED {
        let Some(value) = before.pointer(pointer) else {
            continue;
        };
        put(&mut after, pointer, value);
    }
    for (label, value) in labels::selector(&input.name.name) {
        after["metadata"]["labels"][&*label] = value.clone().into();
        if kind.is_workload() {
            after["spec"]["template"]["metadata"]["labels"][&*label] = value.into();
        }
    }
    let name = object.metadata().name.clone().unwrap_or_default();
    Rendered {
        child: Child {
            kind,
            name: ObjectName::new(&input.name.namespace, &name),
        },
        object: after,
    }
}

/// Fields that overlays cannot change.
const FIXED: [&str; 6] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/ownerReferences",
    "/spec/selector",
];

fn put(object: &mut Value, pointer: &str, value: &Value) {
    let mut place = object;
    for part in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value.clone();
}

/// The metadata of every object of a Gateway (GEP-1867).
fn metadata(input: &RenderInput, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(input.name.namespace.to_string()),
        labels: Some(all_labels(input)),
        annotations: non_empty(input.infrastructure.annotations.clone()),
        owner_references: Some(vec![OwnerReference {
            api_version: "gateway.networking.k8s.io/v1".to_owned(),
            kind: "Gateway".to_owned(),
            name: input.name.name.to_string(),
            uid: input.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

/// Our labels override the user's, which must not take pods out of the Service.
fn all_labels(input: &RenderInput) -> BTreeMap<String, String> {
    let mut all = input.infrastructure.labels.clone();
    all.extend(labels::of_gateway(
        &input.name.name,
        &input.infrastructure.class,
    ));
    all
}

fn non_empty<K, V>(map: BTreeMap<K, V>) -> Option<BTreeMap<K, V>> {
    (!map.is_empty()).then_some(map)
}

fn account(input: &RenderInput, name: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(input, name),
        // Pods mount explicitly the one token that they need.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

fn config_map(input: &RenderInput, defaults: &Defaults, name: &str) -> ConfigMap {
    let authorities = defaults.authorities.clone();
    let data = authorities.map(|pem| BTreeMap::from([(pod::AUTHORITIES.to_owned(), pem)]));
    ConfigMap {
        metadata: metadata(input, name),
        data,
        ..ConfigMap::default()
    }
}

fn deployment(input: &RenderInput, defaults: &Defaults, name: &str) -> Deployment {
    let one = |count| Some(IntOrString::Int(count));
    Deployment {
        metadata: metadata(input, name),
        spec: DeploymentSpec {
            // An autoscaler decides the number of replicas.
            replicas: input.parameters.replicas.filter(|_| !input.is_autoscaled),
            selector: selector(input),
            template: template(input, defaults, name),
            // A new pod is ready before an old one is stopped.
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: one(1),
                    max_unavailable: one(0),
                }),
            }),
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

fn daemon_set(input: &RenderInput, defaults: &Defaults, name: &str) -> DaemonSet {
    let one = |count| Some(IntOrString::Int(count));
    DaemonSet {
        metadata: metadata(input, name),
        spec: DaemonSetSpec {
            selector: selector(input),
            template: template(input, defaults, name),
            update_strategy: Some(DaemonSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDaemonSet {
                    max_surge: one(1),
                    max_unavailable: one(0),
                }),
            }),
            ..DaemonSetSpec::default()
        },
        ..DaemonSet::default()
    }
}

fn selector(input: &RenderInput) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels::selector(&input.name.name)),
        ..LabelSelector::default()
    }
}

fn template(input: &RenderInput, defaults: &Defaults, name: &str) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(all_labels(input)),
            annotations: non_empty(input.infrastructure.annotations.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(pod::spec(input, defaults, name)),
    }
}

#[cfg(test)]
mod tests;

//! Renders the objects of a Gateway's workload: pure, from the user's settings and the
//! controller's.

mod pod;
mod scaling;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec,
    DeploymentStrategy, RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_path_to_error::Segment;
use translate::Infrastructure;
use translate::api::ROUTABLE_IN_CLUSTER;
use xds::model::ObjectName;

use super::addresses::{ANNOTATION, AddressSource};
use super::child::{Child, ChildKind};
use super::parameters::{Parameters, ServiceType, Workload};
use super::ports::Port;
use super::workload_problem::WorkloadProblem;
use super::{labels, overlay};

pub use scaling::ScaledBy;
pub use service::{address_source, addresses};

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
    /// What sets the number of pods of its Deployment, besides its parameters.
    pub scaled_by: ScaledBy,
    /// Whether another Gateway's Service has the usual name of its metrics Service.
    pub is_metrics_name_taken: bool,
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
    /// Whether an overlay changes it.
    pub has_overlay: bool,
    /// Whether an autoscaler decides the number of its pods.
    pub has_autoscaler: bool,
    /// The object in JSON, or what is wrong with its overlay.
    pub object: Result<Value, String>,
}

/// What a Gateway runs on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendering {
    /// The objects to apply, in any order.
    pub objects: Vec<Rendered>,
    /// Whether there is a Service.
    pub service: ServiceUse,
    /// What of its parameters is not in effect.
    pub problems: Vec<WorkloadProblem>,
}

/// Whether a Gateway has a Service for its listeners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServiceUse {
    /// As soon as it has ports. It keeps one that it has while it has no ports.
    #[default]
    Wanted,
    /// It is to have none.
    None,
}

/// The objects of a Gateway. One without ports has no Service yet, since a Service must have a port.
#[must_use]
pub fn render(input: &RenderInput, defaults: &Defaults) -> Rendering {
    let overlays = &input.parameters.overlays;
    let name = labels::child_name(&input.name.name);
    let mut rendering = Rendering::default();
    let account = account(input, &name);
    let config_map = config_map(input, defaults, &name);
    let changes = ("serviceAccount", &overlays.service_account);
    let account = finished(input, ChildKind::ServiceAccount, &account, changes);
    let changes = ("configMap", &overlays.config_map);
    let config_map = finished(input, ChildKind::ConfigMap, &config_map, changes);
    rendering.objects.extend([account, config_map]);
    match input.parameters.workload.unwrap_or_default() {
        Workload::Deployment => scaling::add_deployment(&mut rendering, input, defaults, &name),
        Workload::DaemonSet => {
            let object = daemon_set(input, defaults, &name);
            let changes = ("daemonSet", &overlays.daemon_set);
            let workload = finished(input, ChildKind::DaemonSet, &object, changes);
            rendering.objects.push(workload);
        }
    }
    rendering.service = if service::service_type(input) == ServiceType::None {
        ServiceUse::None
    } else {
        ServiceUse::Wanted
    };
    if !input.ports.is_empty() && rendering.service == ServiceUse::Wanted {
        let service = service::of_listeners(input);
        let changes = ("service", &overlays.service);
        let service = finished(input, ChildKind::Service, &service, changes);
        rendering.objects.push(service);
    }
    let metrics = service::of_metrics(input);
    let changes = ("metricsService", &overlays.metrics_service);
    let metrics = finished(input, ChildKind::Service, &metrics, changes);
    rendering.objects.push(metrics);
    rendering
}

/// Applies the overlay to an object, whose field has this name. Identifying fields stay whatever the
/// overlay says.
fn finished<T>(
    input: &RenderInput,
    kind: ChildKind,
    object: &T,
    changes: (&str, &Value),
) -> Rendered
where
    T: k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned,
{
    let name = object.metadata().name.clone().unwrap_or_default();
    let object = serde_json::to_value(object);
    finished_json::<T>(input, kind, &name, object, changes)
}

/// [`finished`], of an object in JSON.
fn finished_json<T: DeserializeOwned>(
    input: &RenderInput,
    kind: ChildKind,
    name: &str,
    object: serde_json::Result<Value>,
    changes: (&str, &Value),
) -> Rendered {
    Rendered {
        child: Child {
            kind,
            name: ObjectName::new(&input.name.namespace, name),
        },
        has_overlay: !changes.1.is_null(),
        has_autoscaler: false,
        object: with_overlay::<T>(input, kind, object, changes),
    }
}

fn with_overlay<T: DeserializeOwned>(
    input: &RenderInput,
    kind: ChildKind,
    object: serde_json::Result<Value>,
    (field, changes): (&str, &Value),
) -> Result<Value, String> {
    let before = object.map_err(|error| format!("{kind:?} has no JSON form: {error}"))?;
    let mut after = before.clone();
    match changes {
        Value::Null => {}
        Value::Object(_) => overlay::merge(&mut after, changes),
        _ => {
            return Err(format!(
                "the overlay overlays.{field} is not an object: write fields of a {kind:?}"
            ));
        }
    }
    check_types::<T>(&before, after.clone()).map_err(|error| {
        format!(
            "the overlay overlays.{field} makes {} invalid: {}; correct it in the GatewayParameters",
            error.path(),
            error.inner()
        )
    })?;
    for pointer in FIXED {
        let Some(value) = before.pointer(pointer) else {
            continue;
        };
        put(&mut after, pointer, value);
    }
    for (label, value) in labels::selector(&input.name.name) {
        let label = label.replace('~', "~0").replace('/', "~1");
        let value = Value::from(value);
        put(&mut after, &format!("/metadata/labels/{label}"), &value);
        if kind.is_workload() {
            let pointer = format!("/spec/template/metadata/labels/{label}");
            put(&mut after, &pointer, &value);
        }
    }
    Ok(after)
}

/// Checks that every known field has a value of its type. A number may stand for a text: the API server
/// takes one for a quantity, and tells where it does not. The kind is that of the object before.
fn check_types<T: DeserializeOwned>(
    before: &Value,
    mut object: Value,
) -> Result<(), serde_path_to_error::Error<serde_json::Error>> {
    for field in ["apiVersion", "kind"] {
        object[field] = before[field].clone();
    }
    for _ in 0..MAX_NUMBERS {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&object) else {
            return Ok(());
        };
        match at_path(&mut object, error.path()) {
            Some(number @ Value::Number(_)) => *number = number.to_string().into(),
            _ => return Err(error),
        }
    }
    Ok(())
}

fn at_path<'v>(object: &'v mut Value, path: &serde_path_to_error::Path) -> Option<&'v mut Value> {
    path.iter()
        .try_fold(object, |place, segment| match segment {
            Segment::Map { key } => place.get_mut(key),
            Segment::Seq { index } => place.get_mut(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
}

/// Numbers in an object that are checked as texts: 64. The API server checks the rest.
const MAX_NUMBERS: usize = 64;
/// Fields that overlays cannot change.
const FIXED: [&str; 7] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/ownerReferences",
    "/spec/selector",
    "/spec/scaleTargetRef",
];

/// Sets a field by its JSON pointer, and makes what is above it an object.
fn put(object: &mut Value, pointer: &str, value: &Value) {
    let mut place = object;
    for part in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part.replace("~1", "/").replace("~0", "~")];
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
    let mut metadata = metadata(input, name);
    let source = address_source(input);
    if source != AddressSource::Service {
        // Plain data always has a JSON form.
        let source = serde_json::to_string(&source).unwrap_or_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION.to_owned(), source);
    }
    ConfigMap {
        metadata,
        data,
        ..ConfigMap::default()
    }
}

/// Without `replicas`, something else decides their number.
fn deployment(
    input: &RenderInput,
    defaults: &Defaults,
    name: &str,
    replicas: Option<i32>,
) -> Deployment {
    let (max_surge, max_unavailable) = rolling(input);
    Deployment {
        metadata: metadata(input, name),
        spec: DeploymentSpec {
            replicas,
            selector: selector(input),
            template: template(input, defaults, name),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge,
                    max_unavailable,
                }),
            }),
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

fn daemon_set(input: &RenderInput, defaults: &Defaults, name: &str) -> DaemonSet {
    let (max_surge, max_unavailable) = rolling(input);
    DaemonSet {
        metadata: metadata(input, name),
        spec: DaemonSetSpec {
            selector: selector(input),
            template: template(input, defaults, name),
            update_strategy: Some(DaemonSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDaemonSet {
                    max_surge,
                    max_unavailable,
                }),
            }),
            ..DaemonSetSpec::default()
        },
        ..DaemonSet::default()
    }
}

/// How many pods a rollout adds, and how many may be missing: a new pod is ready before an old one is stopped,
/// unless it needs the ports that the old one has of the node.
fn rolling(input: &RenderInput) -> (Option<IntOrString>, Option<IntOrString>) {
    let (surge, unavailable) = if input.parameters.has_host_ports() {
        (0, 1)
    } else {
        (1, 0)
    };
    let count = |count| Some(IntOrString::Int(count));
    (count(surge), count(unavailable))
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

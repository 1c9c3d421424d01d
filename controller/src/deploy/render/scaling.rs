//! What decides the number of a Deployment's pods, and how many of them may be missing: its autoscaler and its
//! disruption budget.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use translate::status::{ConditionType, Reason};

use super::{Defaults, Rendering, selector};
use super::{RenderInput, Rendered, check_types, deployment, finished, finished_json, metadata};
use crate::deploy::child::ChildKind;
use crate::deploy::parameters::{Autoscaling, CPU_PERCENT};
use crate::deploy::workload_problem::WorkloadProblem;

/// What sets the number of pods of a Gateway's Deployment, besides its own parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ScaledBy {
    /// Nothing.
    #[default]
    Nobody,
    /// An autoscaler did, which is ours or gone.
    Before,
    /// This other autoscaler.
    Another(String),
}

/// Adds the Deployment, with its autoscaler and its disruption budget.
pub(super) fn add_deployment(
    rendering: &mut Rendering,
    input: &RenderInput,
    defaults: &Defaults,
    name: &str,
) {
    let changes = ("deployment", &input.parameters.overlays.deployment);
    let is_scaled_by_another = matches!(input.scaled_by, ScaledBy::Another(_));
    let is_scaled = is_scaled_by_another || input.parameters.autoscaling.is_some();
    let with = |replicas: Option<i32>| {
        let object = deployment(input, defaults, name, replicas);
        Rendered {
            has_autoscaler: replicas.is_none() && is_scaled,
            ..finished(input, ChildKind::Deployment, &object, changes)
        }
    };
    let (workload, most) = match &input.parameters.autoscaling {
        None => {
            let replicas = input.parameters.replicas.filter(|_| !is_scaled_by_another);
            (with(replicas), None)
        }
        Some(autoscaling) => {
            let scaled = with(None);
            match refusal(input, autoscaling, &scaled) {
                None => {
                    let autoscaler = autoscaler(input, name, autoscaling);
                    rendering.objects.push(autoscaler);
                    (scaled, Some(autoscaling.at_most()))
                }
                Some(problem) => {
                    rendering.problems.push(problem);
                    // What an autoscaler has set stays, since fewer pods might be too few.
                    let is_free = input.scaled_by == ScaledBy::Nobody;
                    let replicas = is_free.then(|| autoscaling.at_least());
                    (with(replicas), None)
                }
            }
        }
    };
    rendering
        .problems
        .extend(interruption(input, &workload, most));
    if let Some(budget) = budget(input, name, &workload, most) {
        rendering.objects.push(budget);
    }
    rendering.objects.push(workload);
}

fn autoscaler(input: &RenderInput, name: &str, autoscaling: &Autoscaling) -> Rendered {
    let object = HorizontalPodAutoscaler {
        metadata: metadata(input, name),
        spec: HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: "Deployment".to_owned(),
                name: name.to_owned(),
            },
            min_replicas: Some(autoscaling.at_least()),
            max_replicas: autoscaling.at_most(),
            metrics: autoscaling.metrics.is_empty().then(|| by_cpu(autoscaling)),
            behavior: None,
        },
        status: None,
    };
    let object = serde_json::to_value(&object).map(|mut object| {
        if !autoscaling.metrics.is_empty() {
            object["spec"]["metrics"] = autoscaling.metrics.clone().into();
        }
        if let Some(behavior) = &autoscaling.behavior {
            object["spec"]["behavior"] = behavior.clone();
        }
        object
    });
    let kind = ChildKind::HorizontalPodAutoscaler;
    let overlay = &input.parameters.overlays.horizontal_pod_autoscaler;
    let changes = ("horizontalPodAutoscaler", overlay);
    let invalid = object.as_ref().ok().and_then(|object| {
        let checked = check_types::<HorizontalPodAutoscaler>(object, object.clone());
        checked.err()
    });
    let finished = finished_json::<HorizontalPodAutoscaler>(input, kind, name, object, changes);
    match invalid {
        None => finished,
        Some(error) => Rendered {
            object: Err(format!(
                "autoscaling makes {} of its HorizontalPodAutoscaler invalid: {}; correct it in the \
                 GatewayParameters",
                error.path(),
                error.inner()
            )),
            ..finished
        },
    }
}

fn by_cpu(autoscaling: &Autoscaling) -> Vec<MetricSpec> {
    let percent = autoscaling.cpu_percent.unwrap_or(CPU_PERCENT);
    let source = ResourceMetricSource {
        name: CPU.to_owned(),
        target: MetricTarget {
            type_: UTILIZATION.to_owned(),
            average_utilization: Some(percent),
            ..MetricTarget::default()
        },
    };
    vec![MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(source),
        ..MetricSpec::default()
    }]
}

/// Why the Gateway gets no autoscaler: it would have no effect, or a wrong one.
fn refusal(
    input: &RenderInput,
    autoscaling: &Autoscaling,
    workload: &Rendered,
) -> Option<WorkloadProblem> {
    let refused = |reason, message| WorkloadProblem {
        kind: ConditionType::AutoscalingRefused,
        reason,
        message,
    };
    if let ScaledBy::Another(other) = &input.scaled_by {
        let message = format!(
            "{other} scales {} already: delete it, or remove `autoscaling` from the GatewayParameters",
            workload.child
        );
        return Some(refused(Reason::AutoscalerExists, message));
    }
    let Ok(object) = &workload.object else {
        return None;
    };
    let own = (&input.parameters.overlays.deployment)["spec"]["template"]["spec"]["containers"]
        .as_array();
    let is_own = |container: &Value, resource: &str| {
        let is_default = container["name"] == GATEWAY && input.parameters.resources.is_none();
        let overlay = own.into_iter().flatten();
        let mut overlay = overlay.filter(|it| it["name"] == container["name"]);
        has_request(container, resource)
            && (!is_default || overlay.any(|it| has_request(it, resource)))
    };
    let containers = object["spec"]["template"]["spec"]["containers"].as_array();
    for (resource, of_container) in relative_to(autoscaling) {
        let containers = containers.into_iter().flatten();
        let mut counted =
            containers.filter(|it| of_container.is_none_or(|name| it["name"] == name));
        if let Some(container) = counted.find(|it| !is_own(it, resource)) {
            let message = missing_request(container, resource);
            return Some(refused(Reason::NoResourceRequest, message));
        }
    }
    None
}

/// The resources whose use is compared with requests, and the container if it is that of one.
fn relative_to(autoscaling: &Autoscaling) -> Vec<(&str, Option<&str>)> {
    if autoscaling.metrics.is_empty() {
        return vec![(CPU, None)];
    }
    let relative = autoscaling.metrics.iter().filter_map(|metric| {
        let source = match metric["type"].as_str()? {
            "Resource" => &metric["resource"],
            "ContainerResource" => &metric["containerResource"],
            _ => return None,
        };
        let is_relative = source["target"]["type"] == UTILIZATION;
        is_relative.then_some((source["name"].as_str()?, source["container"].as_str()))
    });
    relative.collect()
}

/// A limit without a request is also the request.
fn has_request(container: &Value, resource: &str) -> bool {
    let resources = &container["resources"];
    let mut amounts = ["requests", "limits"]
        .iter()
        .map(|it| &resources[it][resource]);
    amounts.any(|it| !it.is_null())
}

fn missing_request(container: &Value, resource: &str) -> String {
    let name = container["name"].as_str().unwrap_or_default();
    if name != GATEWAY {
        return format!(
            "autoscaling compares the use of {resource} with the requests of all containers, and container \
             {name} has none: give it one in `overlays.deployment` of the GatewayParameters"
        );
    }
    let example = if resource == CPU {
        ", such as one CPU for each shard (the default of 100m is no measure: an idle node gives a proxy more than \
         that)"
    } else {
        ""
    };
    format!(
        "autoscaling compares the use of {resource} with the request of the proxy, which has none of its own: set \
         `resources.requests.{resource}` in the GatewayParameters to what a proxy may use{example}, or scale by \
         `metrics` that need none"
    )
}

/// The budget of a Deployment that may have more than one pod, unless its parameters ask for one in any case.
fn budget(
    input: &RenderInput,
    name: &str,
    workload: &Rendered,
    most: Option<i32>,
) -> Option<Rendered> {
    let given = input.parameters.disruption_budget.clone();
    let replicas = workload.object.as_ref().ok();
    let replicas = replicas.and_then(|it| it["spec"]["replicas"].as_i64());
    let has_several = match (most, replicas) {
        (Some(most), _) => most > 1,
        (None, Some(replicas)) => replicas > 1,
        (None, None) => input.scaled_by != ScaledBy::Nobody,
    };
    if given.is_none() && !has_several {
        return None;
    }
    let budget = given.unwrap_or_default();
    let is_default = budget.min_available.is_none() && budget.max_unavailable.is_none();
    let policy = budget.unhealthy_pod_eviction_policy;
    let object = PodDisruptionBudget {
        metadata: metadata(input, name),
        spec: Some(PodDisruptionBudgetSpec {
            selector: Some(selector(input)),
            min_available: budget.min_available,
            max_unavailable: if is_default {
                Some(IntOrString::Int(1))
            } else {
                budget.max_unavailable
            },
            // A pod that is not ready serves nobody, so it is no reason to keep a node.
            unhealthy_pod_eviction_policy: policy.or_else(|| Some("AlwaysAllow".to_owned())),
        }),
        status: None,
    };
    let overlay = &input.parameters.overlays.pod_disruption_budget;
    let changes = ("podDisruptionBudget", overlay);
    let kind = ChildKind::PodDisruptionBudget;
    Some(finished(input, kind, &object, changes))
}

/// That rollouts interrupt requests: the only pod ends before another one can have its ports.
fn interruption(
    input: &RenderInput,
    workload: &Rendered,
    most: Option<i32>,
) -> Option<WorkloadProblem> {
    let object = workload.object.as_ref().ok()?;
    let replicas = object["spec"]["replicas"].as_i64();
    let is_single = match (most, replicas) {
        (Some(most), _) => most == 1,
        (None, Some(replicas)) => replicas == 1,
        (None, None) => input.scaled_by == ScaledBy::Nobody,
    };
    (input.parameters.has_host_ports() && is_single).then(|| WorkloadProblem {
        kind: ConditionType::Degraded,
        reason: Reason::RolloutsInterrupt,
        message: "with `exposure: HostPort`, a new pod waits until the former one has released the ports of the \
                  node, so each rollout of a single replica interrupts requests: set `workload` to DaemonSet or \
                  `replicas` to 2 or more in the GatewayParameters"
            .to_owned(),
    })
}

const CPU: &str = "cpu";
const UTILIZATION: &str = "Utilization";
/// The proxy's container.
const GATEWAY: &str = "gateway";

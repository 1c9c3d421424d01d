//! The state of a pod, in the words of `kubectl get pods`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::ResourceExt as _;

/// The evaluated state of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) name: String,
    /// The node it runs on; empty before it is scheduled.
    pub(crate) node: String,
    /// Whether it is ready to serve.
    pub(crate) is_ready: bool,
    /// Whether its ports can be reached: its containers run, and it is not terminating.
    pub(crate) is_running: bool,
    /// Status, and the reason where there is one: `CrashLoopBackOff (back-off 40s …)`.
    pub(crate) state: String,
}

impl From<&Pod> for PodState {
    fn from(pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let is_terminating = pod.metadata.deletion_timestamp.is_some();
        let containers = status.container_statuses.as_deref().unwrap_or_default();
        let runs = |it: &ContainerStatus| it.state.as_ref().is_some_and(|it| it.running.is_some());
        let is_running = !is_terminating && !containers.is_empty() && containers.iter().all(runs);
        let is_ready = is_running && condition(&status, "Ready").is_some_and(|it| it.0 == "True");
        let node = pod.spec.as_ref().and_then(|it| it.node_name.clone());
        Self {
            name: pod.name_any(),
            node: node.unwrap_or_default(),
            is_ready,
            is_running,
            state: if is_terminating {
                "Terminating".to_owned()
            } else if is_ready {
                "Running".to_owned()
            } else {
                not_ready_reason(&status, containers)
            },
        }
    }
}

/// Why a pod is not ready.
fn not_ready_reason(status: &PodStatus, containers: &[ContainerStatus]) -> String {
    let states = containers.iter().filter_map(|it| it.state.as_ref());
    for state in states {
        if let Some(waiting) = &state.waiting {
            return explained(waiting.reason.as_deref(), waiting.message.as_deref());
        }
        if let Some(ended) = &state.terminated {
            let code = format!("exit code {}", ended.exit_code);
            return explained(ended.reason.as_deref(), Some(&code));
        }
    }
    if let Some(("False", reason, message)) = condition(status, "PodScheduled") {
        return explained(reason, message);
    }
    match status.phase.as_deref() {
        Some("Running") => "Running (not ready)".to_owned(),
        phase => explained(
            status.reason.as_deref().or(phase),
            status.message.as_deref(),
        ),
    }
}

fn explained(reason: Option<&str>, message: Option<&str>) -> String {
    let reason = reason.unwrap_or("Unknown");
    match message {
        Some(message) => format!("{reason} ({message})"),
        None => reason.to_owned(),
    }
}

/// Status, reason and message of a condition.
fn condition<'a>(
    status: &'a PodStatus,
    kind: &str,
) -> Option<(&'a str, Option<&'a str>, Option<&'a str>)> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let condition = conditions.iter().find(|it| it.type_ == kind)?;
    Some((
        &condition.status,
        condition.reason.as_deref(),
        condition.message.as_deref(),
    ))
}

/// The pods whose ports can be reached: ready ones first, by name.
pub(super) fn reachable<'a>(pods: &[&'a PodState]) -> Vec<&'a PodState> {
    let mut reachable = pods.to_vec();
    reachable.retain(|it| it.is_running);
    reachable.sort_by_key(|it| (!it.is_ready, &it.name));
    reachable
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::{PodState, reachable};

    fn pod(name: &str, deleted: bool, status: &Value) -> PodState {
        let time = deleted.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({"name": name, "deletionTimestamp": time});
        let pod = json!({"metadata": metadata, "spec": {"containers": []}, "status": status});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        PodState::from(&pod)
    }

    fn running(name: &str, ready: &str, deleted: bool) -> PodState {
        let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let container = json!({"name": "gateway", "image": "", "imageID": "", "ready": ready == "True",
            "restartCount": 0, "state": state});
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let status = json!({"phase": "Running", "conditions": conditions,
            "containerStatuses": [container]});
        pod(name, deleted, &status)
    }

    #[test]
    fn ready_pods_come_first_and_terminating_ones_are_left_out() {
        let pods = [
            running("a", "False", false),
            running("b", "True", true),
            running("d", "True", false),
            running("c", "True", false),
        ];
        let all: Vec<&PodState> = pods.iter().collect();
        let names = reachable(&all).into_iter().map(|it| it.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["c", "d", "a"]);
        assert_eq!(pods[0].state, "Running (not ready)");
        assert_eq!(pods[1].state, "Terminating");
    }

    #[test]
    fn the_reason_is_shown_for_a_pod_that_is_not_running() {
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
        let container = json!({"name": "gateway", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": waiting});
        let unscheduled = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
        for (status, expected) in [
            (
                json!({"phase": "Pending", "containerStatuses": [container]}),
                "ErrImagePull (not found)",
            ),
            (
                json!({"phase": "Pending", "conditions": unscheduled}),
                "Unschedulable (0/1 nodes are available)",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                "Evicted (low on memory)",
            ),
            (json!({"phase": "Pending"}), "Pending"),
            (json!({}), "Unknown"),
        ] {
            let pod = pod("a", false, &status);
            assert_eq!(pod.state, expected);
            assert!(!pod.is_running && !pod.is_ready);
        }
    }
}

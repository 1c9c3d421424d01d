//! Why the pods of a Gateway's workload do not run, in the words of the API server and of the kubelet, with what to
//! do: pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// What is known of a workload.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadState<'a> {
    /// A Deployment or `DaemonSet`.
    pub workload: &'a Value,
    /// Its pods.
    pub pods: &'a [Value],
    /// Events about it.
    pub events: &'a [Value],
    /// The time of all this.
    pub now: Timestamp,
}

/// Why not all pods of a workload run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// It begins with [`NOT_ALL_RUN`], and ends with what to do.
    pub why: String,
    /// Whether the Gateway's GatewayParameters are to be corrected, and nothing else.
    pub is_of_parameters: bool,
}

/// Why not all pods of a workload run; `None` if they may just be starting.
#[must_use]
pub fn why_not_running(state: WorkloadState<'_>) -> Option<Obstacle> {
    let is_ending = |it: &&Value| !it["metadata"]["deletionTimestamp"].is_null();
    let mut left: Vec<&Value> = state.pods.iter().filter(|it| !is_ending(it)).collect();
    // So that the first of several is always the same.
    left.sort_by_key(|it| text(&it["metadata"]["name"]));
    let of_others = |why| (why, false);
    let (why, is_of_parameters) = why_not_created(state)
        .map(of_others)
        .or_else(|| left.iter().find_map(|it| why_waiting_in(it)))
        .or_else(|| {
            left.iter()
                .find_map(|it| why_unscheduled(it, state))
                .map(of_others)
        })
        .or_else(|| why_overdue(state.workload).map(of_others))?;
    Some(Obstacle {
        why: format!("{NOT_ALL_RUN}{why}"),
        is_of_parameters,
    })
}

/// What the API server says to pods that the workload creates.
fn why_not_created(state: WorkloadState<'_>) -> Option<String> {
    let workload = state.workload;
    if let Some(failure) = condition(workload, "ReplicaFailure", "True") {
        let message = text(&failure["message"]);
        return Some(format!("{message}; {}", advice_on_rejection(message)));
    }
    // A DaemonSet has no condition for it, only Events.
    let status = &workload["status"];
    let (wanted, present) = (
        status["desiredNumberScheduled"].as_u64()?,
        status["currentNumberScheduled"].as_u64().unwrap_or(0),
    );
    if present >= wanted {
        return None;
    }
    let on = format!("pods exist on {present} of {wanted} nodes");
    let failures = state
        .events
        .iter()
        .filter(|it| it["reason"] == FAILED_CREATE);
    if let Some(failure) = failures.max_by_key(|it| text(&it["lastTimestamp"])) {
        let message = text(&failure["message"]);
        let message = message.strip_prefix("Error creating: ").unwrap_or(message);
        return Some(format!("{on}: {message}; {}", advice_on_rejection(message)));
    }
    let metadata = &workload["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    Some(format!(
        "{on}; kubectl describe daemonset -n {namespace} {name} has what the API server says to the others, such as \
         of a quota, the security standard of the namespace or a webhook"
    ))
}

fn advice_on_rejection(message: &str) -> &'static str {
    let says = |part: &str| message.contains(part);
    if says("exceeded quota") || says("failed quota") {
        "raise the quota of the namespace, or set `spec.resources` of the Gateway's GatewayParameters to what it allows"
    } else if says("PodSecurity") {
        "remove from the Gateway's GatewayParameters what the namespace does not allow, or change its label \
         pod-security.kubernetes.io/enforce"
    } else if says("webhook") || says("denied the request") {
        "whoever runs the webhook or admission policy can say why, and exempt the pods of Gateways"
    } else if says(" per Container is ") || says(" per Pod is ") {
        "set `spec.resources` of the Gateway's GatewayParameters to what the LimitRange of the namespace allows"
    } else {
        "correct the Gateway's GatewayParameters, if it is because of them"
    }
}

/// That a pod is on no node. While others serve, a node for it may be about to come.
fn why_unscheduled(pod: &Value, state: WorkloadState<'_>) -> Option<String> {
    let unscheduled = condition(pod, "PodScheduled", "False")?;
    let status = &state.workload["status"];
    let serving = ["availableReplicas", "numberAvailable"];
    let is_serving = serving.iter().any(|it| status[*it].as_u64() > Some(0));
    let is_overdue = condition(state.workload, "Progressing", "False").is_some();
    let since: Option<Timestamp> = text(&unscheduled["lastTransitionTime"]).parse().ok();
    let age = since.and_then(|it| Duration::try_from(state.now.duration_since(it)).ok());
    if is_serving && !is_overdue && age.is_none_or(|it| it < SCHEDULED_AFTER) {
        return None;
    }
    let (name, why) = (
        text(&pod["metadata"]["name"]),
        text(&unscheduled["message"]),
    );
    let advice = if why.contains("free ports") {
        "another pod has a port of this Gateway there, of another Gateway with `exposure: HostPort` or of this one: \
         give the listener another port, or the Gateways different nodes, and have no more replicas than nodes"
    } else {
        "add such nodes, or change `spec.resources` and `spec.overlays` of the Gateway's GatewayParameters"
    };
    Some(format!("pod {name} is on no node: {why}; {advice}"))
}

/// What keeps a container of a pod from running, and whether it is a matter of the GatewayParameters.
fn why_waiting_in(pod: &Value) -> Option<(String, bool)> {
    let metadata = &pod["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let lists = ["initContainerStatuses", "containerStatuses"];
    let mut containers = lists
        .iter()
        .filter_map(|it| pod["status"][*it].as_array())
        .flatten();
    containers.find_map(|it| {
        let why = why_waiting(it, namespace, name)?;
        let is_ending = it["state"]["waiting"]["reason"] == CRASHING;
        Some((why, !is_ending))
    })
}

/// Why a container of a pod does not run; `None` if it does, or is about to.
fn why_waiting(container: &Value, namespace: &str, pod: &str) -> Option<String> {
    let waiting = &container["state"]["waiting"];
    let (reason, message) = (text(&waiting["reason"]), text(&waiting["message"]));
    let name = text(&container["name"]);
    match reason {
        "" | "ContainerCreating" | "PodInitializing" => None,
        CRASHING => {
            let last = &container["lastState"]["terminated"];
            Some(format!(
                "container {name} of pod {pod} ends again and again, the last time with exit code {}{}; kubectl logs \
                 -n {namespace} {pod} -c {name} --previous says why",
                last["exitCode"],
                in_brackets(text(&last["reason"]))
            ))
        }
        _ if IMAGE.contains(&reason) => {
            // The kubelet alternates between trying and waiting, which has the cause after its name.
            let cause = match message.split_once("ErrImagePull: ") {
                Some((_, cause)) => cause,
                None if reason == "ImagePullBackOff" => "",
                None => message,
            };
            let cause = match cause {
                "" => String::new(),
                cause => format!(": {cause}"),
            };
            Some(format!(
                "pod {pod} cannot get image `{}`{cause}; correct `spec.image` of the Gateway's GatewayParameters, or \
                 the chart's `proxy.image`, and see whether nodes reach the registry and may pull from it",
                text(&container["image"])
            ))
        }
        _ if message.contains("seccomp") => Some(format!(
            "container {name} of pod {pod} cannot start: {message}; install the profile on the nodes, or take \
             `spec.seccompProfile` out of the Gateway's GatewayParameters"
        )),
        _ => {
            let message = match message {
                "" => String::new(),
                message => format!(": {message}"),
            };
            Some(format!(
                "container {name} of pod {pod} cannot start: {reason}{message}; correct the Gateway's GatewayParameters"
            ))
        }
    }
}

/// That the Deployment has given up waiting.
fn why_overdue(workload: &Value) -> Option<String> {
    let overdue = condition(workload, "Progressing", "False")?;
    let metadata = &workload["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    Some(format!(
        "{}; kubectl describe pods -n {namespace} -l gateway.networking.k8s.io/gateway-name={name}, and the pods' \
         logs, say why",
        text(&overdue["message"])
    ))
}

fn condition<'v>(object: &'v Value, kind: &str, status: &str) -> Option<&'v Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|it| it["type"] == kind && it["status"] == status)
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How long a pod may wait for a node while others serve: 5 min, in which an autoscaler adds one.
const SCHEDULED_AFTER: Duration = Duration::from_mins(5);
/// The reason of Events about pods that cannot be made.
const FAILED_CREATE: &str = "FailedCreate";
/// Why a container waits that ends again and again.
const CRASHING: &str = "CrashLoopBackOff";
/// How every reason begins.
pub const NOT_ALL_RUN: &str = "not all proxies run: ";
/// Why an image cannot be used, in the kubelet's names.
const IMAGE: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(reason: &str, message: &str) -> Value {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        let last = json!({"terminated": {"exitCode": 2, "reason": "Error"}});
        let container =
            json!({"name": "gateway", "image": "gateway:9", "state": state, "lastState": last});
        json!({"metadata": {"name": "edge-x", "namespace": "infra"}, "status": {"containerStatuses": [container]}})
    }

    fn state<'a>(workload: &'a Value, pods: &'a [Value]) -> WorkloadState<'a> {
        WorkloadState {
            workload,
            pods,
            events: &[],
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn expect_words(cases: Vec<(Value, Vec<Value>, [&str; 2])>) {
        for (workload, pods, parts) in cases {
            let found = why_not_running(state(&workload, &pods));
            let why = found.map(|it| it.why).unwrap_or_default();
            assert!(why.starts_with(NOT_ALL_RUN), "{workload} {pods:?}");
            for part in parts {
                assert!(why.contains(part), "{part}: {why}");
            }
        }
    }

    #[test]
    fn what_keeps_pods_from_being_made_has_its_words_and_advice() {
        let rejected = |message: &str| {
            let failure = json!({"type": "ReplicaFailure", "status": "True", "message": message});
            json!({"status": {"conditions": [failure]}})
        };
        let forbidden = |why: &str| rejected(&format!("pods \"edge-x\" is forbidden: {why}"));
        let overdue = json!({"metadata": {"name": "edge", "namespace": "infra"}, "status": {"conditions": [
            {"type": "Progressing", "status": "False", "message": "ReplicaSet \"edge-1\" has timed out progressing."}]}});
        let daemon_set = json!({"metadata": {"name": "edge", "namespace": "infra"}, "status": {
            "desiredNumberScheduled": 3, "currentNumberScheduled": 1}});
        expect_words(vec![
            (
                forbidden("exceeded quota: small"),
                vec![],
                ["forbidden: exceeded quota: small; raise the quota", ""],
            ),
            (
                forbidden("failed quota: q: must specify cpu"),
                vec![],
                ["must specify cpu; raise the quota", ""],
            ),
            (
                forbidden("violates PodSecurity \"restricted:latest\": runAsUser=0"),
                vec![],
                ["enforce", "runAsUser=0"],
            ),
            (
                rejected("admission webhook \"x.y\" denied the request: no"),
                vec![],
                ["x.y", "whoever runs the webhook"],
            ),
            (
                forbidden("maximum cpu usage per Container is 1"),
                vec![],
                ["LimitRange", ""],
            ),
            (
                daemon_set,
                vec![],
                [
                    "on 1 of 3 nodes",
                    "kubectl describe daemonset -n infra edge",
                ],
            ),
            (
                overdue,
                vec![],
                [
                    "has timed out progressing.",
                    "kubectl describe pods -n infra",
                ],
            ),
        ]);
    }

    #[test]
    fn what_keeps_pods_from_running_has_its_words_and_advice() {
        let nothing = json!({});
        let unscheduled = json!({"metadata": {"name": "edge-x"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: 3 Insufficient cpu."}]}});
        let backing_off = "Back-off pulling image \"gateway:9\": ErrImagePull: not found";
        expect_words(vec![
            (
                nothing.clone(),
                vec![unscheduled],
                [
                    "edge-x is on no node: 0/3 nodes: 3 Insufficient cpu.",
                    "add such",
                ],
            ),
            (
                nothing.clone(),
                vec![waiting("ImagePullBackOff", backing_off)],
                ["`gateway:9`: not found; correct", ""],
            ),
            (
                nothing.clone(),
                vec![waiting("ErrImagePull", "not found")],
                ["`gateway:9`: not found; correct", ""],
            ),
            (
                nothing.clone(),
                vec![waiting("ImagePullBackOff", "Back-off")],
                ["`gateway:9`; correct", ""],
            ),
            (
                nothing.clone(),
                vec![waiting("CrashLoopBackOff", "back-off 5m")],
                ["exit code 2 (Error)", "--previous"],
            ),
            (
                nothing.clone(),
                vec![waiting(
                    "CreateContainerConfigError",
                    "secret \"a\" not found",
                )],
                [
                    "CreateContainerConfigError: secret \"a\" not found",
                    "GatewayParameters",
                ],
            ),
            (
                nothing.clone(),
                vec![waiting(
                    "CreateContainerError",
                    "cannot load seccomp profile",
                )],
                ["install", ""],
            ),
        ]);
    }

    #[test]
    fn what_is_starting_or_ending_is_no_obstacle() {
        let mut ending = waiting("ImagePullBackOff", "");
        ending["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z".into();
        let starting = waiting("ContainerCreating", "");
        let workload =
            json!({"status": {"desiredNumberScheduled": 1, "currentNumberScheduled": 1}});
        assert_eq!(why_not_running(state(&workload, &[ending, starting])), None);
    }

    /// An autoscaler may be adding the node.
    #[test]
    fn a_pod_without_a_node_is_an_obstacle_if_none_serves_or_after_minutes() {
        let unscheduled = json!({"metadata": {"name": "edge-x"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes", "lastTransitionTime":
             "1970-01-01T00:00:00Z"}]}});
        let overdue = json!([{"type": "Progressing", "status": "False", "message": "timed out"}]);
        for (workload, seconds, is_told) in [
            (json!({"status": {}}), 5, true),
            (json!({"status": {"availableReplicas": 1}}), 5, false),
            (json!({"status": {"numberAvailable": 1}}), 299, false),
            (json!({"status": {"availableReplicas": 1}}), 300, true),
            (json!({"status": {"numberAvailable": 1}}), 300, true),
            (
                json!({"status": {"availableReplicas": 1, "conditions": overdue}}),
                5,
                true,
            ),
        ] {
            let pods = [unscheduled.clone()];
            let now = Timestamp::from_second(seconds).expect("a time");
            let found = why_not_running(WorkloadState {
                now,
                ..state(&workload, &pods)
            });
            let is_found = found.is_some_and(|it| it.why.contains("edge-x is on no node"));
            assert_eq!(is_found, is_told, "{workload} {seconds}");
        }
    }

    #[test]
    fn a_daemon_set_has_what_the_api_server_says_in_its_events() {
        let workload = json!({"metadata": {"name": "edge", "namespace": "infra"}, "status": {
            "desiredNumberScheduled": 3, "currentNumberScheduled": 1}});
        let event = |time: &str, message: &str| json!({"reason": "FailedCreate", "message": message, "lastTimestamp": time});
        let events = [
            event(
                "2026-12-01T00:00:02Z",
                "Error creating: pods \"edge-x\" is forbidden: exceeded quota: small",
            ),
            event(
                "2026-12-01T00:00:01Z",
                "Error creating: denied by a webhook",
            ),
            json!({"reason": "SuccessfulCreate", "message": "Created pod", "lastTimestamp": "2026-12-02T00:00:00Z"}),
        ];
        let found = why_not_running(WorkloadState {
            events: &events,
            ..state(&workload, &[])
        });
        let why = found.expect("an obstacle").why;
        let expected = "not all proxies run: pods exist on 1 of 3 nodes: pods \"edge-x\" is forbidden: exceeded quota: \
                        small; raise the quota of the namespace";
        assert!(why.starts_with(expected), "{why}");
    }

    #[test]
    fn only_what_parameters_alone_cause_is_theirs() {
        let quota = json!({"status": {"conditions": [{"type": "ReplicaFailure", "status": "True",
                           "message": "exceeded quota"}]}});
        let (nothing, seccomp) = (json!({}), "cannot load seccomp profile");
        let unscheduled = json!({"metadata": {"name": "edge-x"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}});
        for (workload, pods, is_theirs) in [
            (&quota, vec![], false),
            (&nothing, vec![unscheduled], false),
            (&nothing, vec![waiting("CrashLoopBackOff", "")], false),
            (&nothing, vec![waiting("ErrImagePull", "not found")], true),
            (
                &nothing,
                vec![waiting("CreateContainerError", seccomp)],
                true,
            ),
            (
                &nothing,
                vec![waiting("CreateContainerConfigError", "")],
                true,
            ),
        ] {
            let found = why_not_running(state(workload, &pods)).expect("an obstacle");
            assert_eq!(found.is_of_parameters, is_theirs, "{}", found.why);
        }
    }
}

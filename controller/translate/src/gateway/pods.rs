//! Why the pods of a Gateway's workload do not run, in the words of the API server and of the kubelet, with what to
//! do: pure.

use serde_json::Value;

/// Why not all pods of a Deployment or `DaemonSet` run, from that object and its pods; `None` if they may just be
/// starting. Every text begins with [`NOT_ALL_RUN`].
#[must_use]
pub fn why_not_running(workload: &Value, pods: &[Value]) -> Option<String> {
    let is_ending = |it: &&Value| !it["metadata"]["deletionTimestamp"].is_null();
    let mut left: Vec<&Value> = pods.iter().filter(|it| !is_ending(it)).collect();
    // So that the first of several is always the same.
    left.sort_by_key(|it| text(&it["metadata"]["name"]));
    let why = why_not_created(workload)
        .or_else(|| left.iter().find_map(|it| why_stuck(it)))
        .or_else(|| why_overdue(workload))?;
    Some(format!("{NOT_ALL_RUN}{why}"))
}

/// What the API server says to pods that the workload creates.
fn why_not_created(workload: &Value) -> Option<String> {
    if let Some(failure) = condition(workload, "ReplicaFailure", "True") {
        let message = text(&failure["message"]);
        return Some(format!("{message}; {}", advice_on_rejection(message)));
    }
    // A DaemonSet has no condition for it.
    let status = &workload["status"];
    let (wanted, present) = (
        status["desiredNumberScheduled"].as_u64()?,
        status["currentNumberScheduled"].as_u64().unwrap_or(0),
    );
    (present < wanted).then(|| {
        let metadata = &workload["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        format!(
            "pods exist on {present} of {wanted} nodes; kubectl describe daemonset -n {namespace} {name} has what the \
             API server says to the others, such as of a quota, the security standard of the namespace or a webhook"
        )
    })
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

/// What keeps a pod from running.
fn why_stuck(pod: &Value) -> Option<String> {
    let metadata = &pod["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    if let Some(unscheduled) = condition(pod, "PodScheduled", "False") {
        return Some(format!(
            "pod {name} is on no node: {}; add such nodes, or change `spec.resources` and `spec.overlays` of the \
             Gateway's GatewayParameters",
            text(&unscheduled["message"])
        ));
    }
    let lists = ["initContainerStatuses", "containerStatuses"];
    let mut containers = lists
        .iter()
        .filter_map(|it| pod["status"][*it].as_array())
        .flatten();
    containers.find_map(|it| why_waiting(it, namespace, name))
}

/// Why a container of a pod does not run; `None` if it does, or is about to.
fn why_waiting(container: &Value, namespace: &str, pod: &str) -> Option<String> {
    let waiting = &container["state"]["waiting"];
    let (reason, message) = (text(&waiting["reason"]), text(&waiting["message"]));
    let name = text(&container["name"]);
    match reason {
        "" | "ContainerCreating" | "PodInitializing" => None,
        "CrashLoopBackOff" => {
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

    fn expect_words(cases: Vec<(Value, Vec<Value>, [&str; 2])>) {
        for (workload, pods, parts) in cases {
            let why = why_not_running(&workload, &pods).unwrap_or_default();
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
        assert_eq!(why_not_running(&workload, &[ending, starting]), None);
    }
}

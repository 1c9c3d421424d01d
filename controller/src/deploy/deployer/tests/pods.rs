//! Pods that the API server or the kubelet keeps from running.

use super::*;

const POD: &str = "/api/v1/namespaces/infra/pods/edge-x";

fn quota() -> Value {
    let failure = json!({"type": "ReplicaFailure", "status": "True",
                         "message": "pods \"edge-x\" is forbidden: exceeded quota: small"});
    json!({"observedGeneration": 1, "conditions": [failure]})
}

fn available() -> Value {
    json!({"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1})
}

impl Scene {
    fn set_status(&self, status: Value) {
        let mut deployment = self.server.get(DEPLOYMENT).expect("a Deployment");
        deployment["status"] = status;
        self.server.put(DEPLOYMENT, deployment);
    }

    /// Why not all proxies run, as it is known; empty if they do.
    fn missing(&self) -> Option<String> {
        self.outputs
            .pods
            .get(&edge())
            .map(|it| it.map(|it| it.why).unwrap_or_default())
    }

    fn reads_of(&self, path: &str) -> usize {
        let requests = self.server.requests().into_iter();
        let of_path = requests.filter(|it| it.uri.starts_with(path));
        of_path.filter(|it| it.method == "GET").count()
    }
}

#[tokio::test(start_paused = true)]
async fn why_pods_do_not_run_is_known_after_five_seconds_and_until_they_do() {
    let scene = Scene::with(&[]);
    scene.want("uid-1", Infrastructure::default());
    sleep(Duration::from_millis(100)).await;
    scene.set_status(quota());
    sleep(Duration::from_secs(4)).await;
    assert_eq!(scene.missing(), None, "they may be starting");
    sleep(Duration::from_secs(1)).await;
    let why = scene.missing().unwrap_or_default();
    assert!(
        why.contains("exceeded quota: small; raise the quota"),
        "{why}"
    );
    assert_eq!(
        scene.deployment(),
        Some(Deployment::Done),
        "its objects are applied"
    );
    let before = scene.reads_of(DEPLOYMENT);
    sleep(Duration::from_hours(1)).await;
    let reads = scene.reads_of(DEPLOYMENT) - before;
    assert!(reads < 40, "{reads} in an hour");
    scene.set_status(available());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.missing(), Some(String::new()));
    let before = (
        scene.reads_of(DEPLOYMENT),
        scene.reads_of("/api/v1/namespaces/infra/pods"),
    );
    sleep(Duration::from_hours(1)).await;
    let after = (
        scene.reads_of(DEPLOYMENT),
        scene.reads_of("/api/v1/namespaces/infra/pods"),
    );
    assert_eq!(before, after, "nothing is read while all is well");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_is_named_though_the_deployment_does_not_say_so() {
    let scene = Scene::begin().await;
    let waiting =
        json!({"reason": "ImagePullBackOff", "message": "Back-off: ErrImagePull: not found"});
    let container = json!({"name": "gateway", "image": "gateway:9", "state": {"waiting": waiting}});
    scene
        .server
        .put(POD, json!({"status": {"containerStatuses": [container]}}));
    sleep(Duration::from_secs(10)).await;
    let why = scene.missing().unwrap_or_default();
    assert!(
        why.contains("pod edge-x cannot get image `gateway:9`: not found"),
        "{why}"
    );
    scene.server.remove(POD);
    scene.set_status(available());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.missing(), Some(String::new()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_deleted_workload() {
    let scene = Scene::begin().await;
    scene.set_status(quota());
    sleep(Duration::from_secs(10)).await;
    assert!(scene.missing().is_some());
    scene.outputs.gateways.set(&edge(), None);
    scene.server.remove(DEPLOYMENT);
    settle().await;
    assert_eq!(scene.missing(), None);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_gateways_without_pods_cost_few_reads() {
    let scene = Scene::with(&[]);
    for number in 0..200 {
        let name = ObjectName::new("infra", &format!("edge-{number}"));
        scene.want_named(&name, &format!("uid-{number}"), Infrastructure::default());
    }
    sleep(Duration::from_mins(5)).await;
    let before = scene.server.requests().len();
    sleep(Duration::from_mins(10)).await;
    let reads = scene.server.requests().len() - before;
    // Of each the Deployment and its pods, every two minutes.
    assert!(reads < 2_600, "{reads} in ten minutes");
}

/// It tells nobody what it knows of Gateways that another replica deploys.
#[tokio::test(start_paused = true)]
async fn another_leader_looks_itself() {
    let scene = Scene::begin().await;
    scene.set_status(quota());
    sleep(Duration::from_secs(10)).await;
    assert!(scene.missing().is_some());
    scene.election.set(false);
    settle().await;
    assert_eq!(scene.missing(), None);
    scene.election.set(true);
    sleep(Duration::from_secs(6)).await;
    assert!(scene.missing().unwrap_or_default().contains("quota"));
}

/// A node for it may be about to come, so requests and Events are not about it for minutes.
#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_a_node_is_no_failure_while_others_serve() {
    let scene = Scene::begin().await;
    let unscheduled = json!({"type": "PodScheduled", "status": "False", "message": "0/3 nodes",
                             "lastTransitionTime": jiff::Timestamp::now().to_string()});
    let of_edge = json!({"gateway.networking.k8s.io/gateway-name": "edge"});
    scene.server.put(
        POD,
        json!({"metadata": {"labels": of_edge}, "status": {"conditions": [unscheduled]}}),
    );
    let mut status = available();
    status["updatedReplicas"] = json!(0);
    scene.set_status(status);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(scene.missing(), Some(String::new()), "it may start");
    scene.set_status(json!({"observedGeneration": 1}));
    sleep(Duration::from_secs(5)).await;
    let why = scene.missing().unwrap_or_default();
    assert!(why.contains("pod edge-x is on no node"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_read_from_the_cache_and_without_a_right_the_workload_says_why() {
    let scene = Scene::begin().await;
    scene.server.refuse("/pods", 403);
    scene.set_status(quota());
    sleep(Duration::from_secs(10)).await;
    let why = scene.missing().unwrap_or_default();
    assert!(why.contains("exceeded quota"), "{why}");
    let requests = scene.server.requests().into_iter();
    let of_pods = requests.filter(|it| it.uri.starts_with("/api/v1/namespaces/infra/pods"));
    let of_pods: Vec<String> = of_pods.map(|it| it.uri).collect();
    let is_cached = |it: &String| it.contains("resourceVersion=0");
    assert!(
        !of_pods.is_empty() && of_pods.iter().all(is_cached),
        "{of_pods:?}"
    );
}

//! What runs the pods, and how many.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_kind_of_workload_replaces_the_old_one_once_it_is_ready() {
    let scene = Scene::begin().await;
    let parameters = ObjectName::new("infra", "nodes");
    let infrastructure = Infrastructure {
        parameters: Some(parameters.clone()),
        ..Infrastructure::default()
    };
    scene.want("uid-1", infrastructure);
    settle().await;
    assert!(
        scene.server.get(DEPLOYMENT).is_some(),
        "there are no such parameters yet"
    );
    scene.want_with(&json!({"workload": "DaemonSet"}));
    sleep(Duration::from_secs(700)).await;
    let mut daemon_set = scene.server.get(DAEMON_SET).expect("a DaemonSet");
    let mut deployment = scene.server.get(DEPLOYMENT).expect("its pods serve");
    deployment["status"] = json!({"availableReplicas": 2});
    scene.server.put(DEPLOYMENT, deployment);
    let why =
        "Deployment infra/edge is deleted once DaemonSet infra/edge is ready: 0 of 1 pods are";
    let expected = Some(Deployment::Unfinished(why.to_owned()));
    assert_eq!(scene.deployment(), expected);
    daemon_set["status"] = json!({
        "observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2,
        "updatedNumberScheduled": 2,
    });
    scene.server.put(DAEMON_SET, daemon_set);
    sleep(Duration::from_secs(61)).await;
    assert!(scene.server.get(DEPLOYMENT).is_none());
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    // Deleted parameters change nothing.
    let before = scene.writes();
    scene.outputs.parameters.set(&parameters, None);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(scene.writes(), before);
}

/// Those of the new one would wait for their ports for ever.
#[tokio::test(start_paused = true)]
async fn a_workload_at_ports_of_nodes_makes_room_for_the_new_one() {
    let scene = Scene::begin().await;
    scene.want_with(&json!({"exposure": "HostPort", "replicas": 2}));
    settle().await;
    let strategy =
        || scene.server.get(DEPLOYMENT).expect("a Deployment")["spec"]["strategy"].clone();
    assert_eq!(
        strategy()["rollingUpdate"],
        json!({"maxSurge": 0, "maxUnavailable": 1})
    );
    assert!(scene.server.get(SERVICE).is_none());
    let mut deployment = scene.server.get(DEPLOYMENT).expect("a Deployment");
    deployment["status"] = json!({"availableReplicas": 2});
    scene.server.put(DEPLOYMENT, deployment);
    scene.want_with(&json!({"exposure": "HostPort", "workload": "DaemonSet"}));
    settle().await;
    assert!(scene.server.get(DAEMON_SET).is_some());
    assert!(scene.server.get(DEPLOYMENT).is_none());
}

/// A DaemonSet never has all of its pods ready then.
#[tokio::test(start_paused = true)]
async fn a_broken_node_does_not_keep_the_old_workload_for_ever() {
    let scene = Scene::begin().await;
    let mut deployment = scene.server.get(DEPLOYMENT).expect("a Deployment");
    deployment["status"] = json!({"availableReplicas": 2});
    scene.server.put(DEPLOYMENT, deployment);
    scene.want_with(&json!({"workload": "DaemonSet"}));
    settle().await;
    let mut daemon_set = scene.server.get(DAEMON_SET).expect("a DaemonSet");
    let mut with = |available: u32| {
        daemon_set["status"] = json!({
            "observedGeneration": 1, "desiredNumberScheduled": 3, "numberAvailable": available,
            "updatedNumberScheduled": 3,
        });
        scene.server.put(DAEMON_SET, daemon_set.clone());
    };
    with(1);
    sleep(Duration::from_secs(700)).await;
    assert!(
        scene.server.get(DEPLOYMENT).is_some(),
        "more would be lost than is there"
    );
    with(2);
    sleep(Duration::from_secs(61)).await;
    assert!(scene.server.get(DEPLOYMENT).is_none());
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}

/// Such a Gateway serves on with the workload that its last valid parameters made.
#[tokio::test(start_paused = true)]
async fn a_reference_to_parameters_of_another_kind_keeps_the_workload() {
    let scene = Scene::begin().await;
    scene.want_with(&json!({"replicas": 3}));
    settle().await;
    let replicas =
        || scene.server.get(DEPLOYMENT).expect("a Deployment")["spec"]["replicas"].clone();
    assert_eq!(replicas(), 3);
    let before = scene.writes();
    let misspelt = Infrastructure {
        has_foreign_parameters: true,
        labels: [("team".to_owned(), "shop".to_owned())].into(),
        ..Infrastructure::default()
    };
    scene.want("uid-1", misspelt);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(scene.writes(), before);
    assert_eq!(replicas(), 3);
    scene.want_with(&json!({"replicas": 4}));
    settle().await;
    assert_eq!(replicas(), 4, "a corrected reference is followed");
}

/// It takes no namespace for unrestricted because it cannot be read for a moment.
#[tokio::test(start_paused = true)]
async fn pods_follow_the_namespace_and_wait_until_it_is_known() {
    let scene = Scene::with(&[]);
    let elsewhere = ObjectName::new("unread", "edge");
    scene.want_named(&elsewhere, "uid-1", Infrastructure::default());
    settle().await;
    assert_eq!(scene.writes(), 0);
    sleep(Duration::from_secs(5)).await;
    let Some(Deployment::Refused(why)) = scene.outputs.deployments.get(&elsewhere) else {
        panic!("it is not reported")
    };
    assert!(why.contains("has not read Namespace unread"), "{why}");
    let restricted = json!({"metadata": {"labels":
        {"pod-security.kubernetes.io/enforce": "restricted"}}});
    scene.server.put("/api/v1/namespaces/unread", restricted);
    settle().await;
    let path = "/apis/apps/v1/namespaces/unread/deployments/edge";
    let is_on_epoll = || {
        let deployment = scene.server.get(path).expect("a Deployment");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let mut variables = container["env"].as_array().expect("variables").iter();
        variables.any(|it| it["name"] == "GATEWAY_DRIVER" && it["value"] == "epoll")
    };
    assert!(is_on_epoll());
    let before = scene.writes();
    scene.server.put(
        "/api/v1/namespaces/unread",
        json!({"metadata": {"labels": {}}}),
    );
    settle().await;
    assert!(!is_on_epoll());
    assert_eq!(scene.writes(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn replicas_apply_again_once_the_autoscaler_is_deleted() {
    let scene = Scene::begin().await;
    let autoscaler = "/apis/autoscaling/v2/namespaces/infra/horizontalpodautoscalers/edge";
    let spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "edge"}, "maxReplicas": 9});
    scene.server.put(autoscaler, json!({"spec": spec}));
    let mut scaled = scene.server.get(DEPLOYMENT).expect("a Deployment");
    scaled["spec"]["replicas"] = 7.into();
    let managers = scaled["metadata"]["managedFields"].as_array_mut();
    managers.expect("managers").push(json!({
        "manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
    }));
    scene.server.put(DEPLOYMENT, scaled.clone());
    scene.want_with(&json!({"replicas": 3}));
    settle().await;
    let replicas =
        || scene.server.get(DEPLOYMENT).expect("a Deployment")["spec"]["replicas"].clone();
    assert_eq!(replicas(), 7);
    // The mark of the autoscaler stays.
    scene.server.remove(autoscaler);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(replicas(), 3);
}

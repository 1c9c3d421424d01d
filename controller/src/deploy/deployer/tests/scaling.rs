//! Autoscalers and disruption budgets: the controller's own, and those of users.

use translate::status::Reason;

use super::*;

const AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/infra/horizontalpodautoscalers/edge";
const OTHER_AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/infra/horizontalpodautoscalers/own";
const BUDGET: &str = "/apis/policy/v1/namespaces/infra/poddisruptionbudgets/edge";
const OTHER_BUDGET: &str = "/apis/policy/v1/namespaces/infra/poddisruptionbudgets/own";

impl Scene {
    fn replicas(&self) -> Value {
        self.server.get(DEPLOYMENT).expect("a Deployment")["spec"]["replicas"].clone()
    }

    /// Why parts of the parameters have no effect.
    fn problems(&self) -> Vec<Reason> {
        let known = self.outputs.workload_problems.get(&edge());
        let known = known.expect("it is known");
        known.iter().map(|it| it.reason).collect()
    }

    /// As an autoscaler does.
    fn scale(&self, replicas: u32) {
        let mut scaled = self.server.get(DEPLOYMENT).expect("a Deployment");
        scaled["spec"]["replicas"] = replicas.into();
        scaled["metadata"]["managedFields"] = json!([
            {"manager": labels::MANAGER, "operation": "Apply"},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale"},
        ]);
        self.server.put(DEPLOYMENT, scaled);
    }
}

/// A spec with an autoscaler that has something to compare with.
fn autoscaling(least: u32) -> Value {
    json!({"autoscaling": {"minReplicas": least, "maxReplicas": 5},
           "resources": {"requests": {"cpu": "1"}}})
}

/// With one proxy, a budget would only be in the way of a drain.
#[tokio::test(start_paused = true)]
async fn several_proxies_have_a_budget_and_a_single_one_has_none() {
    let scene = Scene::begin().await;
    assert!(scene.server.get(BUDGET).is_none());
    scene.want_with(&json!({"replicas": 2}));
    settle().await;
    let budget = scene.server.get(BUDGET).expect("a budget");
    let expected = json!({
        "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels::selector("edge")},
    });
    assert_eq!(budget["spec"], expected);
    assert_eq!(budget["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    for without in [json!({"replicas": 1}), json!({"workload": "DaemonSet"})] {
        scene.want_with(&json!({"replicas": 2}));
        settle().await;
        assert!(scene.server.get(BUDGET).is_some());
        scene.want_with(&without);
        sleep(Duration::from_mins(1)).await;
        assert!(scene.server.get(BUDGET).is_none(), "{without}");
    }
    scene.want_with(&json!({"replicas": 1, "disruptionBudget": {"minAvailable": 1}}));
    settle().await;
    let spec = &scene.server.get(BUDGET).expect("a budget")["spec"];
    assert_eq!(
        (&spec["minAvailable"], &spec["maxUnavailable"]),
        (&json!(1), &Value::Null)
    );
}

/// The API server evicts no pod that has two budgets.
#[tokio::test(start_paused = true)]
async fn a_budget_of_a_user_for_the_same_pods_stays_the_only_one() {
    let scene = Scene::begin().await;
    let selector = json!({"matchLabels": {"gateway.networking.k8s.io/gateway-name": "edge"}});
    let budget = |selector: &Value| json!({"spec": {"minAvailable": 1, "selector": selector}});
    scene.server.put(OTHER_BUDGET, budget(&selector));
    scene.want_with(&json!({"replicas": 2}));
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    assert!(scene.server.get(BUDGET).is_none());
    scene.want_with(&json!({"replicas": 2, "disruptionBudget": {"maxUnavailable": 1}}));
    settle().await;
    assert!(scene.server.get(BUDGET).is_none());
    let why = scene.refusal();
    let expected = "PodDisruptionBudget infra/own selects the pods of this Gateway too";
    assert!(why.starts_with(expected), "{why}");
    // Of other pods, or of none.
    let other = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop"]}]});
    for selector in [other, Value::Null] {
        scene.server.put(OTHER_BUDGET, budget(&selector));
        scene.want_with(&json!({"replicas": 3}));
        sleep(Duration::from_secs(700)).await;
        assert!(scene.server.get(BUDGET).is_some(), "{selector}");
        scene.server.put(OTHER_BUDGET, budget(&json!({})));
        sleep(Duration::from_secs(700)).await;
        assert!(
            scene.server.get(BUDGET).is_none(),
            "an empty selector selects all"
        );
    }
}

/// A number of pods that we would only leave out becomes 1 until the autoscaler looks.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_takes_over_the_number_of_pods_and_gives_it_back() {
    let scene = Scene::begin().await;
    scene.want_with(&json!({"replicas": 3}));
    settle().await;
    scene.want_with(&autoscaling(2));
    settle().await;
    let spec = &scene.server.get(AUTOSCALER).expect("an autoscaler")["spec"];
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "edge"});
    assert_eq!(spec["scaleTargetRef"], target);
    assert_eq!(
        (&spec["minReplicas"], &spec["maxReplicas"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(
        spec["metrics"][0]["resource"]["target"]["averageUtilization"],
        70
    );
    assert_eq!(scene.replicas(), 3);
    assert!(scene.server.get(BUDGET).is_some());
    assert_eq!(scene.problems(), []);
    scene.scale(5);
    let mut edited = scene.server.get(DEPLOYMENT).expect("a Deployment");
    edited["spec"]["template"]["spec"]["serviceAccountName"] = "other".into();
    scene.server.put(DEPLOYMENT, edited);
    settle().await;
    let pods = &scene.server.get(DEPLOYMENT).expect("a Deployment")["spec"]["template"]["spec"];
    assert_eq!(pods["serviceAccountName"], "edge");
    assert_eq!(scene.replicas(), 5, "it is the autoscaler's");
    scene.want_with(&json!({"replicas": 2}));
    settle().await;
    assert!(scene.server.get(AUTOSCALER).is_none());
    sleep(Duration::from_mins(1)).await;
    assert_eq!(scene.replicas(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_cpu_request_of_its_own_a_gateway_has_no_autoscaler() {
    let scene = Scene::begin().await;
    let limits = json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 5}});
    scene.want_with(&limits);
    settle().await;
    assert_eq!(scene.problems(), [Reason::NoResourceRequest]);
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    assert!(scene.server.get(AUTOSCALER).is_none());
    assert_eq!(scene.replicas(), 2);
    scene.want_with(&autoscaling(2));
    settle().await;
    assert_eq!(scene.problems(), []);
    assert!(scene.server.get(AUTOSCALER).is_some());
    assert_eq!(scene.replicas(), 2);
    // What is scaled already stays.
    scene.scale(5);
    scene.want_with(&limits);
    settle().await;
    assert_eq!(scene.problems(), [Reason::NoResourceRequest]);
    assert!(scene.server.get(AUTOSCALER).is_none());
    assert_eq!(scene.replicas(), 5);
    scene.election.set(false);
    settle().await;
    assert_eq!(scene.outputs.workload_problems.get(&edge()), None);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_a_user_stays_the_only_one() {
    let scene = Scene::begin().await;
    let spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "edge"}, "maxReplicas": 9});
    scene.server.put(OTHER_AUTOSCALER, json!({"spec": spec}));
    scene.scale(7);
    scene.want_with(&autoscaling(2));
    settle().await;
    assert_eq!(scene.problems(), [Reason::AutoscalerExists]);
    assert!(scene.server.get(AUTOSCALER).is_none());
    assert_eq!(scene.replicas(), 7);
    assert!(scene.server.get(BUDGET).is_some());
    scene.server.remove(OTHER_AUTOSCALER);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(scene.problems(), []);
    assert!(scene.server.get(AUTOSCALER).is_some());
    assert_eq!(scene.replicas(), 7);
}

/// An autoscaler makes its minimum of one pod within 15 s.
#[tokio::test(start_paused = true)]
async fn a_scaled_deployment_replaces_a_daemon_set_once_it_has_its_minimum() {
    let scene = Scene::begin().await;
    scene.want_with(&json!({"workload": "DaemonSet"}));
    settle().await;
    let mut daemon_set = scene.server.get(DAEMON_SET).expect("a DaemonSet");
    daemon_set["status"] = json!({
        "observedGeneration": 1, "desiredNumberScheduled": 3, "numberAvailable": 3,
        "updatedNumberScheduled": 3,
    });
    scene.server.put(DAEMON_SET, daemon_set);
    sleep(Duration::from_secs(61)).await;
    scene.want_with(&autoscaling(2));
    let available = |count: u32| {
        let mut deployment = scene.server.get(DEPLOYMENT).expect("a Deployment");
        let generation = deployment["metadata"]["generation"].clone();
        deployment["status"] = json!({"observedGeneration": generation,
            "availableReplicas": count, "updatedReplicas": count});
        scene.server.put(DEPLOYMENT, deployment);
    };
    settle().await;
    available(1);
    sleep(Duration::from_secs(700)).await;
    assert!(scene.server.get(DAEMON_SET).is_some());
    available(2);
    sleep(Duration::from_secs(700)).await;
    assert!(scene.server.get(DAEMON_SET).is_none());
}

/// As with roles of an earlier release that somebody manages by hand.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_read_them_gateways_are_deployed_all_the_same() {
    let scene = Scene::with(&[]);
    scene.server.forbid("/poddisruptionbudgets");
    scene.server.forbid("/horizontalpodautoscalers");
    scene.want_with(&json!({"replicas": 2}));
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    assert_eq!(scene.replicas(), 2);
    assert!(scene.server.get(BUDGET).is_none());
}

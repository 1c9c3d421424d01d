//! Mistakes and defects at one Gateway, which must not reach the others.

use tokio::time::timeout;

use super::*;
use crate::gateway_class::{Claim, Claims, ObservedClass};

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_refusal_of_its_gateway() {
    let scene = Scene::begin().await;
    let defect = ObjectName::new("infra", "defect-1");
    scene.want_named(&defect, "uid-2", Infrastructure::default());
    settle().await;
    let Some(Deployment::Refused(why)) = scene.outputs.deployments.get(&defect) else {
        panic!("it was not refused")
    };
    assert!(why.contains("a defect of the controller"), "{why}");
    let text = scene.registry.text();
    assert!(
        text.contains("gateway_controller_writes_failing{writer=\"deployer\"} 1\n"),
        "{text}"
    );
    scene.outputs.gateways.set(&defect, None);
    scene.outputs.infrastructure.set(&defect, None);
    settle().await;
    assert_eq!(scene.outputs.deployments.get(&defect), None);
}

/// A misspelt field of an overlay is answered with 500, as by an API server that is broken.
#[tokio::test(start_paused = true)]
async fn a_thousand_gateways_that_panic_or_are_misspelt_do_not_delay_another() {
    let scene = Scene::begin().await;
    scene.server.set_latency(Duration::from_millis(4));
    scene.server.refuse("/deployments/bad-", 500);
    for count in 0..1_000 {
        for kind in ["defect", "bad"] {
            let name = ObjectName::new("infra", &format!("{kind}-{count}"));
            scene.want_named(&name, &format!("uid-of-{name}"), Infrastructure::default());
        }
    }
    scene.server.put("/api/v1/namespaces/shop", json!({}));
    // While they are deployed for the first time, and while they are tried again.
    for (count, wait) in [0, 1, 5, 60, 600].into_iter().enumerate() {
        sleep(Duration::from_secs(wait)).await;
        let good = ObjectName::new("shop", &format!("good-{count}"));
        scene.want_named(&good, &format!("uid-of-{good}"), Infrastructure::default());
        sleep(Duration::from_secs(2)).await;
        let deployment = scene.outputs.deployments.get(&good);
        assert_eq!(deployment, Some(Deployment::Done), "after {wait} s");
    }
    for name in ["bad-999", "defect-999"] {
        let name = ObjectName::new("infra", name);
        let deployment = scene.outputs.deployments.get(&name);
        assert!(
            matches!(deployment, Some(Deployment::Refused(_))),
            "{name}: {deployment:?}"
        );
    }
    let before = scene.writes();
    sleep(Duration::from_mins(10)).await;
    let count = scene.writes() - before;
    assert!(count <= 3_000, "{count} attempts in ten minutes");
}

/// Each took ten requests at first, and a busy API server made others wait for seconds.
#[tokio::test(start_paused = true)]
async fn a_new_gateway_with_a_misspelt_overlay_takes_one_request_and_creates_nothing() {
    let scene = Scene::begin().await;
    scene.server.set_latency(Duration::from_millis(4));
    scene.server.refuse("/deployments/bad-", 500);
    let misspelt = json!({"overlays": {"deployment": {"spec": {"replica": 3}}}});
    let parameters = ObjectName::new("infra", "misspelt");
    let outputs = &scene.outputs;
    outputs
        .parameters
        .set(&parameters, Some(Arc::new(misspelt)));
    let before = scene.server.requests().len();
    for count in 0..200 {
        let name = ObjectName::new("infra", &format!("bad-{count}"));
        let infrastructure = Infrastructure {
            parameters: Some(parameters.clone()),
            ..Infrastructure::default()
        };
        scene.want_named(&name, &format!("uid-of-{name}"), infrastructure);
    }
    // Eight at a time.
    sleep(Duration::from_millis(120)).await;
    let mut requests = scene.server.requests().split_off(before);
    // Whether the pods of the first one run.
    requests.retain(|it| !it.uri.contains("/deployments/edge") && !it.uri.contains("/pods"));
    assert_eq!(requests.len(), 200);
    let mut requests = requests.iter();
    assert!(requests.all(|it| it.uri.contains("/deployments/bad-") && it.uri.contains("dryRun")));
    let good = ObjectName::new("shop", "good");
    scene.server.put("/api/v1/namespaces/shop", json!({}));
    scene.want_named(&good, "uid-of-good", Infrastructure::default());
    sleep(Duration::from_millis(30)).await;
    assert_eq!(outputs.deployments.get(&good), Some(Deployment::Done));
    sleep(Duration::from_mins(1)).await;
    let bad = ObjectName::new("infra", "bad-199");
    let Some(Deployment::Refused(why)) = outputs.deployments.get(&bad) else {
        panic!("it was not refused");
    };
    assert!(why.contains("check the overlays"), "{why}");
    let service = "/api/v1/namespaces/infra/services/bad-199";
    assert!(scene.server.get(service).is_none());
    // Corrected, it gets everything. One that has its objects keeps them whatever becomes of its overlay.
    let set = |replicas: &str| {
        let overlay = json!({"overlays": {"deployment": {"spec": {replicas: 3}}}});
        outputs.parameters.set(&parameters, Some(Arc::new(overlay)));
    };
    scene.server.accept_all();
    set("replicas");
    settle().await;
    assert_eq!(outputs.deployments.get(&bad), Some(Deployment::Done));
    let deployment = scene
        .server
        .get("/apis/apps/v1/namespaces/infra/deployments/bad-199");
    assert_eq!(deployment.expect("a Deployment")["spec"]["replicas"], 3);
    scene.server.refuse("/deployments/bad-", 500);
    set("replica");
    scene.server.remove(service);
    settle().await;
    assert!(scene.server.get(service).is_some(), "it is recreated");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_is_reported_and_a_short_one_is_not() {
    let scene = Scene::begin().await;
    scene.server.refuse(DEPLOYMENT, 500);
    scene.outputs.authorities.send_replace("other".into());
    scene.want_with(&json!({"overlays": {"deployment": {"spec": {"replica": 3}}}}));
    sleep(Duration::from_secs(4)).await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    sleep(Duration::from_secs(4)).await;
    let expected = "the API server rejected Deployment infra/edge: injected fault; check the overlays \
                    of the GatewayParameters, and admission webhooks";
    assert_eq!(scene.refusal(), expected);
    scene.want_with(&json!({}));
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}

#[tokio::test(start_paused = true)]
async fn an_overlay_of_another_type_is_refused_and_the_other_objects_are_applied() {
    let scene = Scene::with(&[]);
    scene.want_with(&json!({"overlays": {"deployment": {
        "spec": {"template": {"metadata": {"labels": "app"}}}}}}));
    settle().await;
    let expected = "the overlay overlays.deployment makes spec.template.metadata.labels invalid";
    assert!(scene.refusal().starts_with(expected), "{}", scene.refusal());
    assert!(scene.server.get(SERVICE).is_some());
    scene.want_with(&json!({"overlays": {"deployment": {"metadata": {"labels": {"a": "b"}}}}}));
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}

/// Pods with another's ServiceAccount would have its rights, and with another's ConfigMap trust its
/// CA.
#[tokio::test(start_paused = true)]
async fn pods_run_only_with_the_gateways_own_service_account_and_config_map() {
    for foreign in [ACCOUNT, CONFIG_MAP] {
        let other = json!([{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                            "name": "edge", "uid": "another", "controller": true}]);
        for metadata in [json!({}), json!({"ownerReferences": other})] {
            let scene = Scene::with(&[(foreign, json!({"metadata": metadata}))]);
            scene.want("uid-1", Infrastructure::default());
            settle().await;
            assert!(
                scene.refusal().contains("infra/edge"),
                "{}",
                scene.refusal()
            );
            assert!(scene.server.get(DEPLOYMENT).is_none(), "{foreign}");
            assert!(scene.server.get(SERVICE).is_some(), "it needs neither");
            assert!(!scene.outputs.accounts.is_of(&edge(), "uid-1") || foreign != ACCOUNT);
            scene.server.remove(foreign);
            sleep(Duration::from_mins(1)).await;
            assert_eq!(scene.deployment(), Some(Deployment::Done), "{foreign}");
            assert!(scene.server.get(DEPLOYMENT).is_some());
            assert!(scene.outputs.accounts.is_of(&edge(), "uid-1"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_claims_to_be_of_a_gateway_does_not_replace_its_addresses() {
    let scene = Scene::begin().await;
    let mut service = scene.server.get(SERVICE).expect("a Service");
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    scene.server.put(SERVICE, service.clone());
    settle().await;
    let assigned = scene.outputs.addresses.get(&edge());
    assert!(assigned.is_some());
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.66"}]}});
    scene
        .server
        .put("/api/v1/namespaces/infra/services/mine", service);
    settle().await;
    assert_eq!(scene.outputs.addresses.get(&edge()), assigned);
    scene
        .server
        .remove("/api/v1/namespaces/infra/services/mine");
    settle().await;
    assert_eq!(scene.outputs.addresses.get(&edge()), assigned);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_may_have_the_name_of_anothers_metrics_service() {
    let scene = Scene::begin().await;
    let path = "/api/v1/namespaces/infra/services/edge-metrics";
    assert!(scene.server.get(path).is_some());
    let namesake = ObjectName::new("infra", "edge-metrics");
    scene.want_named(&namesake, "uid-2", Infrastructure::default());
    sleep(Duration::from_secs(10)).await;
    for gateway in [&edge(), &namesake] {
        let deployment = scene.outputs.deployments.get(gateway);
        assert_eq!(deployment, Some(Deployment::Done), "{gateway}");
    }
    let service = scene.server.get(path).expect("a Service");
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "uid-2");
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    let renamed = labels::metrics_service_name("edge", true);
    let path = format!("/api/v1/namespaces/infra/services/{renamed}");
    assert!(scene.server.get(&path).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_port_of_an_overlay_may_be_named_metrics() {
    let scene = Scene::with(&[]);
    scene.want_with(&json!({
        "service": {"type": "ClusterIP"},
        "overlays": {"service": {"spec": {"clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "metrics", "port": 15_020}]}}},
    }));
    settle().await;
    let assigned = scene.outputs.addresses.get(&edge()).expect("addresses");
    assert_eq!(assigned.default[0].value, "10.0.0.1");
    let ports = scene.outputs.service_ports.get(&edge()).expect("ports");
    let ports: Vec<u16> = ports.iter().map(|it| it.number).collect();
    assert_eq!(ports, [80, 15_020]);
}

/// They are what was corrected, so a Gateway that failed for an hour does not wait for its next attempt.
#[tokio::test(start_paused = true)]
async fn gateways_that_fail_are_deployed_as_soon_as_their_class_or_the_authorities_change() {
    let scene = Scene::begin().await;
    let outputs = &scene.outputs;
    let set = |name: &str, spec: Value| {
        let name = ObjectName::new("infra", name);
        outputs.parameters.set(&name, Some(Arc::new(spec)));
        name
    };
    let wrong = json!({"overlays": {"deployment": {"spec": {"template": {"metadata": {"labels": "app"}}}}}});
    let (wrong, right) = (set("wrong", wrong), set("right", json!({})));
    outputs
        .class_parameters
        .set(&String::new(), Some(Ok(wrong)));
    sleep(Duration::from_hours(1)).await;
    assert!(scene.refusal().contains("overlays.deployment"));
    outputs
        .class_parameters
        .set(&String::new(), Some(Ok(right)));
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));

    scene.server.refuse(CONFIG_MAP, 403);
    outputs.authorities.send_replace("two".into());
    sleep(Duration::from_hours(1)).await;
    assert!(scene.refusal().contains("ConfigMap infra/edge"));
    scene.server.accept_all();
    outputs.authorities.send_replace("three".into());
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}

/// Otherwise the process would stay ready, and deploy by what was there before.
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_watch_ends_the_deployer() {
    let scene = Scene::begin().await;
    let defect = "/api/v1/namespaces/infra/serviceaccounts/defect-of-watch";
    scene.server.put(
        defect,
        json!({"metadata": {"labels": {"gateway.networking.k8s.io/gateway-name": "x"}}}),
    );
    let ended = timeout(Duration::from_mins(1), scene.deployer).await;
    let error = ended.expect("it ends").expect_err("by the panic");
    assert!(error.is_panic(), "{error}");
}

/// Another installation may deploy them.
#[tokio::test(start_paused = true)]
async fn gateways_are_deployed_once_their_class_is_claimed() {
    let outputs = Outputs {
        claims: Claims::new(Some("one/gateway".to_owned())),
        ..Outputs::default()
    };
    let scene = Scene::of(outputs, &[]);
    let class = |holder: Option<&str>| ObservedClass {
        claim: holder.map(|holder| Claim {
            holder: holder.to_owned(),
            renewed: "now".to_owned(),
        }),
        resource_version: "1".to_owned(),
        uid: "u".to_owned(),
    };
    let claims = &scene.outputs.claims;
    assert!(claims.observe("", class(None), true), "it is served");
    scene.want("uid-1", Infrastructure::default());
    settle().await;
    assert_eq!((scene.deployment(), scene.writes()), (None, 0));
    claims.failed("", "a webhook denies it");
    settle().await;
    assert!(
        scene
            .refusal()
            .ends_with("GatewayClasses, and admission webhooks")
    );
    assert!(scene.refusal().contains("a webhook denies it"));
    assert_eq!(scene.writes(), 0);
    claims.observe("", class(Some("one/gateway")), false);
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}

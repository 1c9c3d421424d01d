//! The condition `Programmed` of a Gateway.

use super::*;

/// The Gateway default/edge, with a listener on port 80.
fn gateway_status() -> Status {
    let condition = Condition {
        kind: ConditionType::Programmed,
        status: ConditionStatus::True,
        reason: Reason::Programmed,
        message: "requests are served".into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    Status::Gateway(GatewayStatus {
        addresses: Vec::new(),
        conditions: vec![condition],
        listeners: Vec::new(),
        attached_listener_sets: 0,
    })
}

/// Status and reason of `Programmed` of the Gateway.
fn programmed(scene: &Scene) -> (Value, Value) {
    let gateway = scene.server.get(EDGE).expect("a Gateway");
    let condition = &gateway["status"]["conditions"][0];
    (condition["status"].clone(), condition["reason"].clone())
}

const EDGE: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/default/gateways/edge";

#[tokio::test(start_paused = true)]
async fn a_gateway_without_proxies_for_five_minutes_is_not_programmed() {
    let scene = Scene::now();
    scene.server.put(EDGE, json!({"spec": {"listeners": []}}));
    let gateway = ObjectName::new("default", "edge");
    let listener = crate::listener_binds::tests::listener(("Gateway", &gateway), 80, &gateway);
    scene.outputs.listener_binds.take(&listener);
    let status = Some(Arc::new(gateway_status()));
    let object = ObjectRef::of::<api::Gateway>(&gateway);
    scene.outputs.statuses.set(&object, status);
    scene
        .outputs
        .deployments
        .set(&gateway, Some(Deployment::Done));
    seconds(1).await;
    assert_eq!(programmed(&scene), ("False".into(), "Pending".into()));
    let acks = &scene.outputs.acknowledgements;
    let one = Acknowledgements {
        connected: 1,
        listeners: BTreeMap::from([(listener.0.clone(), 1)]),
        ..Acknowledgements::default()
    };
    acks.set(&gateway, Some(Arc::new(one.clone())));
    seconds(600).await;
    let served = ("True".into(), "Programmed".into());
    assert_eq!(programmed(&scene), served);
    // A short disconnect.
    acks.set(&gateway, None);
    seconds(290).await;
    acks.set(&gateway, Some(Arc::new(one)));
    seconds(60).await;
    assert_eq!(programmed(&scene), served);
    acks.set(&gateway, None);
    seconds(200).await;
    // A new leader has not seen any proxy yet.
    scene.election.set(false);
    seconds(60).await;
    scene.election.set(true);
    seconds(290).await;
    assert_eq!(programmed(&scene), served);
    seconds(11).await;
    assert_eq!(programmed(&scene), ("False".into(), "NoResources".into()));
}

/// What proxies rejected while this replica was the leader does not stay in statuses when it is again.
#[tokio::test(start_paused = true)]
async fn acknowledgements_that_ended_under_another_leader_are_forgotten() {
    let scene = Scene::now();
    scene.route("a");
    scene.want("a", "one");
    let rejected = ResourceKey {
        kind: Kind::Route,
        key: "HTTPRoute/app/a/0/0".into(),
    };
    let acknowledgements = Acknowledgements {
        connected: 1,
        refused: BTreeMap::from([(rejected, "not supported".to_owned())]),
        ..Acknowledgements::default()
    };
    let gateway = ObjectName::new("app", "edge");
    let gateways = &scene.outputs.acknowledgements;
    gateways.set(&gateway, Some(Arc::new(acknowledgements)));
    seconds(1).await;
    let parents = scene.parents("a");
    assert!(parents[0].contains("not supported"), "{parents:?}");
    scene.election.set(false);
    seconds(1).await;
    gateways.set(&gateway, None);
    seconds(120).await;
    scene.election.set(true);
    seconds(1).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
}

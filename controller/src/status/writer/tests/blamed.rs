//! Events of objects without a status, which others refer to.

use translate::status::ListenerStatus;

use super::*;

const SECRET: &str = "/api/v1/namespaces/app/secrets/cert";

fn status(problem: Option<&'static str>) -> Arc<Status> {
    let (is_resolved, reason) = match problem {
        Some(_) => (ConditionStatus::False, Reason::InvalidCertificateRef),
        None => (ConditionStatus::True, Reason::ResolvedRefs),
    };
    let resolved = Condition {
        kind: ConditionType::ResolvedRefs,
        status: is_resolved,
        reason,
        message: problem.unwrap_or("all references are resolved").into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    let listener = ListenerStatus {
        name: "web".to_owned(),
        supported_kinds: Vec::new(),
        attached_routes: 0,
        conditions: vec![resolved],
    };
    Arc::new(Status::Gateway(GatewayStatus {
        addresses: Vec::new(),
        conditions: Vec::new(),
        listeners: vec![listener],
        attached_listener_sets: 0,
    }))
}

/// The Events about Secrets: type, reason, UID and text.
fn of_secrets(events: &mut UnboundedReceiver<Bytes>) -> Vec<[String; 4]> {
    let mut found = Vec::new();
    while let Ok(line) = events.try_recv() {
        let event: Value = serde_json::from_slice(&line).expect("JSON");
        let event = &event["object"];
        if event["regarding"]["kind"] == "Secret" {
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let (kind, reason) = (text(&event["type"]), text(&event["reason"]));
            let uid = text(&event["regarding"]["uid"]);
            found.push([kind, reason, uid, text(&event["note"])]);
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_a_listener_has_events_while_it_is_wrong_and_when_it_is_well() {
    let scene = Scene::now();
    let secret = scene.server.put(SECRET, json!({"data": {}}));
    let uid = secret["metadata"]["uid"].as_str().expect("a UID");
    let mut events = scene.server.changes("/apis/events.k8s.io/v1/events");
    let gateway = ObjectRef::new(ObjectKind::Gateway, &ObjectName::new("app", "edge"));
    let empty = "tls.certificateRefs[0]: Secret app/cert has no entry `tls.crt`: use one of type kubernetes.io/tls";
    let statuses = &scene.outputs.statuses;
    statuses.set(&gateway, Some(status(Some(empty))));
    seconds(10).await;
    let text = format!("listener web of Gateway app/edge: {empty}");
    let expected = ["Warning", "InvalidCertificateRef", uid, &text].map(str::to_owned);
    assert_eq!(of_secrets(&mut events), [expected], "once");
    statuses.set(&gateway, Some(status(None)));
    seconds(10).await;
    let found = of_secrets(&mut events);
    let found: Vec<&str> = found.iter().map(|it| &*it[1]).collect();
    assert_eq!(found, ["Resolved"]);
    // One that does not exist has no Events.
    scene.server.remove(SECRET);
    statuses.set(&gateway, Some(status(Some(empty))));
    seconds(10).await;
    assert!(of_secrets(&mut events).is_empty());
}

//! Events about policies.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_policy_with_a_missing_target_gets_an_event_and_is_counted() {
    let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
    let (events, writing) = Events::new(server.client(), OURS, "test");
    tokio::spawn(writing);
    let metrics = Metrics::default();
    let measures = StatusMetrics::new(&metrics);
    let mut writer = StatusWriter::new(
        server.client(),
        Arc::clone(&outputs),
        OURS,
        events,
        measures,
        &QueueMeasures::default(),
    );
    let policy = ObjectRef::of::<api::TrafficPolicy>(&ObjectName::new("app", "tokens"));
    let missing = Condition {
        kind: ConditionType::Accepted,
        status: ConditionStatus::False,
        reason: Reason::TargetNotFound,
        message: "HTTPRoute app/gone does not exist: create it".into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    let target = AncestorReference {
        group: api::GATEWAY_GROUP.to_owned(),
        kind: "HTTPRoute".to_owned(),
        namespace: "app".to_owned(),
        name: "gone".to_owned(),
        section_name: None,
    };
    let status = Status::Policy(PolicyStatus {
        ancestors: vec![PolicyAncestorStatus {
            ancestor_ref: target,
            controller_name: OURS.to_owned(),
            conditions: vec![missing],
        }],
    });
    outputs.statuses.set(&policy, Some(Arc::new(status)));
    let gauge = |count: u32| format!("policies_with_missing_targets {count}\n");
    for _ in 0..2 {
        writer.warn_about_policies([&policy].into_iter());
        seconds(1).await;
        let events = server.writes();
        let events = events.iter().filter(|it| it.uri.contains("/events"));
        assert_eq!(events.count(), 1, "once");
    }
    assert!(metrics.text().contains(&gauge(1)), "{}", metrics.text());
    outputs.statuses.set(&policy, None);
    writer.warn_about_policies([&policy].into_iter());
    assert!(metrics.text().contains(&gauge(0)), "{}", metrics.text());
}

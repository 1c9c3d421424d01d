//! Events about policies, and what only proxies see of them.

use std::time::UNIX_EPOCH;

use xds::delta::Fact;

use super::*;
use crate::outputs::SeenSymptom;
use translate::ObjectKind;

#[tokio::test(start_paused = true)]
async fn a_policy_with_a_missing_target_gets_an_event_and_is_counted() {
    let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
    let (events, writing) = Events::new(server.client(), OURS, "test", metrics_of_events());
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
        group: ObjectKind::Gateway.group().to_owned(),
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
    // An Event needs the UID of its object.
    let observed = Observed {
        uid: "1".into(),
        resource_version: "1".into(),
        generation: 1,
        api_version: "gateway-system.io/v1alpha1".into(),
        is_deleted: false,
        status: Arc::default(),
    };
    outputs.observed.set(&policy, Some(Arc::new(observed)));
    for _ in 0..2 {
        writer.warn([&policy].into_iter());
        seconds(1).await;
        let events = server.writes();
        let events = events.iter().filter(|it| it.uri.contains("/events"));
        assert_eq!(events.count(), 1, "once");
    }
    assert!(metrics.text().contains(&gauge(1)), "{}", metrics.text());
    outputs.statuses.set(&policy, None);
    writer.warn([&policy].into_iter());
    assert!(metrics.text().contains(&gauge(0)), "{}", metrics.text());
}

const POLICY: &str = "/apis/gateway-system.io/v1alpha1/namespaces/app/trafficpolicies/tokens";

/// A policy of a Gateway, in a cluster, whose status has been written.
async fn with_policy() -> Scene {
    let scene = Scene::now();
    scene
        .server
        .put(POLICY, json!({"spec": {"targetRefs": []}}));
    let accepted = Condition {
        kind: ConditionType::Accepted,
        status: ConditionStatus::True,
        reason: Reason::Accepted,
        message: "the policy is valid".into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    let status = Status::Policy(PolicyStatus {
        ancestors: vec![PolicyAncestorStatus {
            ancestor_ref: AncestorReference {
                group: ObjectKind::Gateway.group().to_owned(),
                kind: "Gateway".to_owned(),
                namespace: "app".to_owned(),
                name: "edge".to_owned(),
                section_name: None,
            },
            controller_name: OURS.to_owned(),
            conditions: vec![accepted],
        }],
    });
    let policy = ObjectRef::of::<api::TrafficPolicy>(&ObjectName::new("app", "tokens"));
    scene.outputs.statuses.set(&policy, Some(Arc::new(status)));
    seconds(1).await;
    scene
}

impl Scene {
    /// What both proxies of the Gateway tell: whether the keys of the policy cannot be fetched.
    fn proxies_tell(&self, is_failing: bool) {
        let resource = ResourceKey {
            kind: Kind::Policy,
            key: "TrafficPolicy/app/tokens/Gateway/app/edge".into(),
        };
        let seen = SeenSymptom {
            proxies: 2,
            since: UNIX_EPOCH,
            text: "keys of provider `idp` from http://idp/keys: status 500".to_owned(),
        };
        let told = ((resource, Fact::KeysNotFetched), seen);
        let known = Acknowledgements {
            connected: 2,
            symptoms: Some(told).filter(|_| is_failing).into_iter().collect(),
            ..Acknowledgements::default()
        };
        let gateway = ObjectName::new("app", "edge");
        let acknowledgements = &self.outputs.acknowledgements;
        acknowledgements.set(&gateway, Some(Arc::new(known)));
    }

    /// The condition in the policy's status: its reason and message.
    fn unavailable(&self) -> Option<(String, String)> {
        let policy = self.server.get(POLICY).expect("a policy");
        let conditions = policy["status"]["ancestors"][0]["conditions"].as_array()?;
        let condition = conditions
            .iter()
            .find(|it| it["type"] == "DependencyUnavailable")?;
        assert_eq!(condition["status"], "True");
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some((text("reason"), text("message")))
    }

    fn counts_policies(&self, count: usize) -> bool {
        let line = format!("policies_with_unavailable_dependencies {count}\n");
        self.registry.text().contains(&line)
    }
}

#[tokio::test(start_paused = true)]
async fn what_proxies_see_stands_in_the_status_until_it_is_well_for_a_while() {
    let scene = with_policy().await;
    assert_eq!(scene.unavailable(), None);
    scene.proxies_tell(true);
    seconds(1).await;
    let (reason, message) = scene.unavailable().expect("it is reported");
    assert_eq!(reason, "KeysNotFetched");
    assert!(
        message.starts_with("2 of 2 proxies of Gateway app/edge"),
        "{message}"
    );
    assert!(message.contains("status 500"), "{message}");
    assert!(scene.counts_policies(1), "{}", scene.registry.text());
    let events = scene.server.writes();
    let events = events.iter().filter(|it| it.uri.contains("/events"));
    assert_eq!(events.count(), 1);

    scene.proxies_tell(false);
    seconds(20).await;
    assert!(
        scene.unavailable().is_some(),
        "a proxy may just have reconnected"
    );
    seconds(15).await;
    assert_eq!(scene.unavailable(), None);
    assert!(scene.counts_policies(0), "{}", scene.registry.text());
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_takes_back_what_proxies_saw_only_when_it_has_heard_of_them() {
    let scene = with_policy().await;
    scene.proxies_tell(true);
    seconds(1).await;
    let before = scene.unavailable().expect("it is reported");
    scene.election.set(false);
    seconds(1).await;
    scene
        .outputs
        .acknowledgements
        .set(&ObjectName::new("app", "edge"), None);
    scene.election.set(true);
    seconds(50).await;
    assert_eq!(scene.unavailable(), Some(before));
    seconds(15).await;
    assert_eq!(scene.unavailable(), None);
}

//! On paused time: a minute passes as soon as every task waits.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use translate::status::{
    AncestorReference, Blame, Condition, ConditionStatus, ConditionType, GatewayStatus,
    PolicyAncestorStatus, PolicyStatus, Reason, RouteParentStatus, RouteStatus, Status,
};

use super::*;
use crate::leadership::Election;
use crate::metrics::Metrics;
use crate::outputs::Observed;
use crate::stopping::Stop;
use crate::testing::{ApiServer, Fault};
use xds::model::{Kind, ResourceKey};

const OURS: &str = "gateway-system.io/controller";
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/gateways";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";

/// A running writer on a cluster.
struct Scene {
    server: ApiServer,
    outputs: Arc<Outputs>,
    election: Election,
    registry: Metrics,
    _stop: Stop,
}

impl Scene {
    /// With watches that report a change after `watch_delay`.
    fn begin(watch_delay: Duration) -> Self {
        let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
        let (election, leadership) = Leadership::new();
        let (stop, stopping) = Stopping::new();
        let client = server.client();
        let (events, writing) = Events::new(client.clone(), OURS, "test");
        tokio::spawn(writing);
        let metrics = StatusMetrics::new(&Metrics::default());
        let registry = Metrics::default();
        let measures = QueueMeasures::new(&registry);
        let outputs_of_writer = Arc::clone(&outputs);
        let writer = StatusWriter::new(client, outputs_of_writer, OURS, events, metrics, &measures);
        tokio::spawn(writer.run(leadership, stopping));
        for collection in [ROUTES, GATEWAYS] {
            let changes = server.changes(collection);
            tokio::spawn(watch(changes, Arc::clone(&outputs), watch_delay));
        }
        outputs.translated.send_replace(true);
        election.set(true);
        Self {
            server,
            outputs,
            election,
            registry,
            _stop: stop,
        }
    }

    fn now() -> Self {
        Self::begin(Duration::ZERO)
    }

    /// A route without a status yet.
    fn route(&self, name: &str) {
        self.server.put(&path(name), json!({"spec": {"rules": []}}));
    }

    fn want(&self, name: &str, message: &str) {
        let status = Arc::new(accepted(message));
        self.outputs.statuses.set(&object(name), Some(status));
    }

    /// The route's parents, by controller and message of the first condition.
    fn parents(&self, name: &str) -> Vec<String> {
        let route = self.server.get(&path(name)).expect("a route");
        let parents = route["status"]["parents"].as_array().cloned();
        let text = |it: &Value| {
            let message = it["conditions"][0]["message"].as_str().unwrap_or("-");
            format!(
                "{}: {message}",
                it["controllerName"].as_str().expect("a name")
            )
        };
        parents.unwrap_or_default().iter().map(text).collect()
    }

    /// Another writer replaces the parents of a route.
    fn overwrite(&self, name: &str, change: impl FnOnce(&mut Vec<Value>)) {
        let mut route = self.server.get(&path(name)).expect("a route");
        let mut parents = route["status"]["parents"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        change(&mut parents);
        route["status"]["parents"] = parents.into();
        self.server.put(&path(name), route);
    }

    fn count(&self) -> usize {
        self.server.writes().len()
    }
}

fn path(name: &str) -> String {
    format!("/apis/gateway.networking.k8s.io/v1/namespaces/app/httproutes/{name}")
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::of::<api::HttpRoute>(&ObjectName::new("app", name))
}

fn ours(message: &str) -> String {
    format!("{OURS}: {message}")
}

fn theirs() -> Value {
    json!({"parentRef": {"name": "other"}, "controllerName": "example.com/other",
           "conditions": [{"type": "Accepted", "message": "theirs"}]})
}

fn accepted(message: &str) -> Status {
    let condition = Condition {
        kind: ConditionType::Accepted,
        status: ConditionStatus::True,
        reason: Reason::Accepted,
        message: message.to_owned().into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    let parent_ref = serde_json::from_value(json!({"name": "edge"})).expect("a reference");
    Status::Route(RouteStatus {
        parents: vec![RouteParentStatus {
            parent_ref,
            controller_name: OURS.to_owned(),
            conditions: vec![condition],
        }],
    })
}

/// Stands in for the watches of the controller.
async fn watch(mut changes: UnboundedReceiver<Bytes>, outputs: Arc<Outputs>, delay: Duration) {
    while let Some(line) = changes.recv().await {
        sleep(delay).await;
        let change: Value = serde_json::from_slice(&line).expect("JSON");
        let object = &change["object"];
        let text = |field: &str| object["metadata"][field].as_str().expect("text").to_owned();
        let observed = Observed {
            uid: text("uid").into(),
            resource_version: text("resourceVersion").into(),
            generation: 1,
            api_version: "gateway.networking.k8s.io/v1".into(),
            is_deleted: false,
            status: object["status"].to_string().into(),
        };
        let observed = (change["type"] != "DELETED").then(|| Arc::new(observed));
        let name = ObjectName::new(&text("namespace"), &text("name"));
        let object = if object["spec"]["listeners"].is_null() {
            ObjectRef::of::<api::HttpRoute>(&name)
        } else {
            ObjectRef::of::<api::Gateway>(&name)
        };
        outputs.observed.set(&object, observed);
    }
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_immediately_and_only_once() {
    let scene = Scene::now();
    scene.route("a");
    scene.want("a", "one");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
    seconds(3_600).await;
    assert_eq!(scene.count(), 1, "comparing again finds nothing");
}

#[tokio::test(start_paused = true)]
async fn changes_in_quick_succession_are_written_every_half_second() {
    let scene = Scene::now();
    scene.route("a");
    for count in 0..1_000 {
        scene.want("a", &count.to_string());
        sleep(Duration::from_millis(10)).await;
    }
    seconds(1).await;
    assert_eq!(scene.parents("a"), [ours("999")]);
    let count = scene.count();
    assert!((15..=22).contains(&count), "{count} writes in 10 s");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_and_a_new_leader_compares_everything() {
    let scene = Scene::now();
    scene.election.set(false);
    seconds(1).await;
    scene.route("a");
    scene.want("a", "one");
    seconds(700).await;
    assert_eq!(scene.count(), 0);
    scene.election.set(true);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_keeps_no_names_of_changed_objects() {
    let scene = Scene::now();
    scene.election.set(false);
    seconds(1).await;
    // The watch of these tests sets `observed`.
    scene.route("a");
    scene.want("a", "one");
    let (route, gateway) = (object("a"), ObjectName::new("default", "edge"));
    let outputs = &scene.outputs;
    outputs.invalid.set(&route, Some("invalid".into()));
    outputs.oversized.set(&route, Some("large".into()));
    outputs.acknowledgements.set(&gateway, Some(Arc::default()));
    outputs.deployments.set(&gateway, Some(Deployment::Done));
    seconds(61).await;
    let objects = [
        &outputs.statuses.take_changed(),
        &outputs.observed.take_changed(),
        &outputs.invalid.take_changed(),
        &outputs.oversized.take_changed(),
    ];
    assert_eq!(objects, [&BTreeSet::new(); 4]);
    let gateways = [
        outputs.acknowledgements.take_changed(),
        outputs.deployments.take_changed(),
    ];
    assert_eq!(gateways, [BTreeSet::new(), BTreeSet::new()]);
}

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

#[tokio::test(start_paused = true)]
async fn no_status_is_removed_before_the_first_translation() {
    let scene = Scene::now();
    scene.outputs.translated.send_replace(false);
    let scene = {
        // A controller that has just started, with entries of ours from an earlier run.
        let fresh = Scene::begin(Duration::ZERO);
        drop(scene);
        fresh
    };
    scene.election.set(false);
    scene.route("gone");
    scene.overwrite("gone", |parents| {
        parents.push(theirs());
        parents.push(json!({"parentRef": {"name": "edge"}, "controllerName": OURS}));
    });
    scene.election.set(true);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(scene.parents("gone"), ["example.com/other: theirs"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_status_writers_lose_no_updates() {
    let scene = Scene::begin(Duration::from_millis(30));
    scene.server.set_latency(Duration::from_millis(5));
    scene.route("a");
    for count in 0..100_u64 {
        scene.want("a", &count.to_string());
        scene.overwrite("a", |parents| {
            parents.retain(|it| it["controllerName"] == OURS);
            let mut entry = theirs();
            entry["conditions"][0]["message"] = format!("theirs {count}").into();
            parents.push(entry);
        });
        sleep(Duration::from_millis(count * 7 % 83)).await;
    }
    seconds(2).await;
    let mut parents = scene.parents("a");
    parents.sort();
    assert_eq!(
        parents,
        ["example.com/other: theirs 99".to_owned(), ours("99")]
    );
    let writes = scene.server.writes();
    assert!(writes.iter().any(|it| it.code == 409), "there was no race");
    assert!(writes.len() <= 40, "{} writes in 6 s", writes.len());
}

#[tokio::test(start_paused = true)]
async fn another_manager_replacing_our_status_causes_few_writes() {
    let scene = Scene::now();
    scene.route("a");
    scene.want("a", "one");
    for _ in 0..1_200 {
        sleep(Duration::from_millis(50)).await;
        scene.overwrite("a", Vec::clear);
    }
    let count = scene.count();
    assert!((6..=12).contains(&count), "{count} writes in a minute");
    seconds(120).await;
    assert_eq!(
        scene.parents("a"),
        [ours("one")],
        "the other writer stopped, and our status stays"
    );
}

#[tokio::test(start_paused = true)]
async fn two_thousand_routes_are_written_eight_at_a_time_and_once_each() {
    let scene = Scene::now();
    scene.server.set_latency(Duration::from_millis(4));
    for count in 0..2_000 {
        scene.route(&count.to_string());
        scene.want(&count.to_string(), "one");
    }
    seconds(60).await;
    assert_eq!(scene.count(), 2_000);
    assert_eq!(scene.server.max_in_flight(), 8);
    assert_eq!(scene.parents("1999"), [ours("one")]);
}

#[tokio::test(start_paused = true)]
async fn throttling_reduces_concurrent_writes_without_losing_any() {
    let scene = Scene::now();
    scene.server.fail([Fault::Refused(429, 2); 3]);
    for count in 0..50 {
        scene.route(&count.to_string());
        scene.want(&count.to_string(), "one");
    }
    seconds(30).await;
    for count in 0..50 {
        assert_eq!(scene.parents(&count.to_string()), [ours("one")]);
    }
    assert_eq!(scene.server.faults_left(), 0);
    assert_eq!(scene.count(), 53);
    let writes = scene.server.writes();
    let refused = writes.iter().find(|it| it.code == 429).expect("one");
    let mut later = writes
        .iter()
        .filter(|it| it.at > refused.at + Duration::from_millis(1));
    let waited = later.next().expect("one").at - refused.at;
    assert!(waited >= Duration::from_secs(2), "after {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_applied_without_a_response_is_not_repeated() {
    let scene = Scene::now();
    scene.server.fail([Fault::AppliedWithoutAnswer]);
    scene.route("a");
    scene.want("a", "one");
    seconds(60).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
    assert_eq!(scene.count(), 1, "the watch reported that it was applied");
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried_and_rejected_ones_are_not() {
    let scene = Scene::now();
    scene
        .server
        .fail([Fault::Refused(500, 0), Fault::Refused(503, 0)]);
    scene.route("a");
    scene.want("a", "one");
    seconds(5).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
    scene.server.fail([Fault::Refused(403, 0); 4]);
    scene.want("a", "two");
    seconds(5).await;
    assert_eq!(scene.count(), 6, "three, and three that are forbidden");
    let failing = "gateway_controller_writes_failing{writer=\"status\"} ";
    let text = scene.registry.text();
    assert!(text.contains(&format!("{failing}1\n")), "{text}");
    seconds(20).await;
    assert_eq!(scene.parents("a"), [ours("two")]);
    assert_eq!(scene.count(), 8, "its intervals grew");
    let text = scene.registry.text();
    assert!(text.contains(&format!("{failing}0\n")), "{text}");
}

/// For a route whose processing panics, as by a defect.
pub(super) fn panic_if_wanted(object: &ObjectRef) {
    if object.name.name.starts_with("defect-") {
        // Without a message and a backtrace on the standard error.
        std::panic::resume_unwind(Box::new("a defect"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_objects_that_panic_or_are_refused_do_not_delay_another() {
    let scene = Scene::now();
    scene.server.set_latency(Duration::from_millis(4));
    scene.server.refuse("/httproutes/bad-", 500);
    for count in 0..1_000 {
        for kind in ["defect", "bad"] {
            let name = format!("{kind}-{count}");
            scene.route(&name);
            scene.want(&name, "one");
        }
    }
    let path = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/good";
    let good = ObjectRef::of::<api::HttpRoute>(&ObjectName::new("shop", "good"));
    scene.server.put(path, json!({"spec": {"rules": []}}));
    let status = Arc::new(accepted("one"));
    scene.outputs.statuses.set(&good, Some(status));
    seconds(2).await;
    let route = scene.server.get(path).expect("a route");
    assert_eq!(route["status"]["parents"][0]["controllerName"], OURS);
    seconds(120).await;
    let text = scene.registry.text();
    let failing = "gateway_controller_writes_failing{writer=\"status\"} 2000\n";
    assert!(text.contains(failing), "{text}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_deleted_objects() {
    let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
    let (events, writing) = Events::new(server.client(), OURS, "test");
    tokio::spawn(writing);
    let metrics = StatusMetrics::new(&Metrics::default());
    let measures = QueueMeasures::default();
    let client = server.client();
    let mut writer = StatusWriter::new(
        client,
        Arc::clone(&outputs),
        OURS,
        events,
        metrics,
        &measures,
    );
    let deleted = BTreeSet::from(["a", "b"].map(object));
    // The watch, and then the translation.
    writer.observed(&deleted);
    writer.push(&deleted);
    writer.start_writes().await;
    assert!(writer.queue.is_empty());
}

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

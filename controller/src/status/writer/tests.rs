//! On paused time: a minute passes as soon as every task waits.

mod blamed;
mod failures;
mod gateways;
mod policies;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use translate::status::{
    AncestorReference, Blame, Condition, ConditionStatus, ConditionType, GatewayStatus,
    PolicyAncestorStatus, PolicyStatus, Reason, RouteParentStatus, RouteStatus, Status,
};

use translate::api;

use super::*;
use crate::leadership::Election;
use crate::metrics::Metrics;
use crate::outputs::Observed;
use crate::stopping::Stop;
use crate::testing::{ApiServer, Fault};
use xds::model::{Kind, ResourceKey};

const OURS: &str = "gateway-system.io/controller";
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/gateways";
const POLICIES: &str = "/apis/gateway-system.io/v1alpha1/trafficpolicies";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";

fn metrics_of_events() -> StatusMetrics {
    StatusMetrics::new(&Metrics::default())
}

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
        let (events, writing) = Events::new(client.clone(), OURS, "test", metrics_of_events());
        tokio::spawn(writing);
        let registry = Metrics::default();
        let metrics = StatusMetrics::new(&registry);
        let measures = QueueMeasures::new(&registry);
        let outputs_of_writer = Arc::clone(&outputs);
        let writer = StatusWriter::new(client, outputs_of_writer, OURS, events, metrics, &measures);
        tokio::spawn(writer.run(leadership, stopping));
        for collection in [ROUTES, GATEWAYS, POLICIES] {
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
        let is_policy = !object["spec"]["targetRefs"].is_null();
        let api_version = if is_policy {
            "gateway-system.io/v1alpha1"
        } else {
            "gateway.networking.k8s.io/v1"
        };
        let observed = Observed {
            uid: text("uid").into(),
            resource_version: text("resourceVersion").into(),
            generation: 1,
            api_version: api_version.into(),
            is_deleted: false,
            status: object["status"].to_string().into(),
        };
        let observed = (change["type"] != "DELETED").then(|| Arc::new(observed));
        let name = ObjectName::new(&text("namespace"), &text("name"));
        let object = if is_policy {
            ObjectRef::of::<api::TrafficPolicy>(&name)
        } else if object["spec"]["listeners"].is_null() {
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
async fn nothing_is_kept_of_deleted_objects() {
    let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
    let (events, writing) = Events::new(server.client(), OURS, "test", metrics_of_events());
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

/// For a route whose processing panics, as by a defect.
pub(super) fn panic_if_wanted(object: &ObjectRef) {
    if object.name.name.starts_with("defect-") {
        // Without a message and a backtrace on the standard error.
        std::panic::resume_unwind(Box::new("a defect"));
    }
}

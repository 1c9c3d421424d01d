//! On paused time: a minute passes as soon as every task waits.

use serde_json::{Value, json};
use tokio::time::sleep;
use translate::status::{
    AncestorReference, Blame, Condition, ConditionStatus, ConditionType, PolicyAncestorStatus,
    PolicyStatus, Reason, RouteParentStatus, RouteStatus, Status,
};

use super::*;
use crate::leadership::Election;
use crate::metrics::Metrics;
use crate::outputs::Observed;
use crate::stopping::Stop;
use crate::testing::{ApiServer, Fault};

const OURS: &str = "gateway-system.io/controller";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";

/// A running writer on a cluster.
struct Scene {
    server: ApiServer,
    outputs: Arc<Outputs>,
    election: Election,
    _stop: Stop,
}

impl Scene {
    /// With watches that report a change after `watch_delay`.
    fn begin(watch_delay: Duration) -> Self {
        let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
        let (election, leadership) = Leadership::new();
        let (stop, stopping) = Stopping::new();
        let client = server.client();
        let events = Events::start(client.clone(), OURS, "test");
        let metrics = StatusMetrics::new(&Metrics::default());
        let writer = StatusWriter::new(client, Arc::clone(&outputs), OURS, events, metrics);
        tokio::spawn(writer.run(leadership, stopping));
        tokio::spawn(watch(server.clone(), Arc::clone(&outputs), watch_delay));
        outputs.translated.send_replace(true);
        election.set(true);
        Self {
            server,
            outputs,
            election,
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
async fn watch(server: ApiServer, outputs: Arc<Outputs>, delay: Duration) {
    let mut changes = server.changes(ROUTES);
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
        let name = self::object(&text("name"));
        outputs.observed.set(&name, observed);
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
    let gateway = ObjectName::new("default", "edge");
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
    scene.server.fail([Fault::Refused(403, 0)]);
    scene.want("a", "two");
    seconds(300).await;
    assert_eq!(scene.count(), 4, "three, and one that is forbidden");
    seconds(700).await;
    assert_eq!(
        scene.parents("a"),
        [ours("two")],
        "ten minutes later it is tried again"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_deleted_objects() {
    let (server, outputs) = (ApiServer::default(), Arc::new(Outputs::default()));
    let events = Events::start(server.client(), OURS, "test");
    let metrics = StatusMetrics::new(&Metrics::default());
    let mut writer =
        StatusWriter::new(server.client(), Arc::clone(&outputs), OURS, events, metrics);
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
    let events = Events::start(server.client(), OURS, "test");
    let metrics = Metrics::default();
    let measures = StatusMetrics::new(&metrics);
    let mut writer = StatusWriter::new(
        server.client(),
        Arc::clone(&outputs),
        OURS,
        events,
        measures,
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

fn listener(owner: &str) -> ResourceKey {
    ResourceKey {
        kind: Kind::Listener,
        key: owner.into(),
    }
}

fn bind() -> ResourceKey {
    ResourceKey {
        kind: Kind::Bind,
        key: "tcp/80/default/edge".into(),
    }
}

/// Of a Gateway with two ListenerSets, the name of one of which starts with that of the other.
fn acknowledgements() -> Acknowledgements {
    let listeners = [
        "Gateway/default/edge/web",
        "ListenerSet/a/one/web",
        "ListenerSet/a/one-more/web",
    ];
    Acknowledgements {
        connected: 2,
        listeners: listeners.map(|it| (listener(it), 1)).into(),
        refused: BTreeMap::from([(listener("ListenerSet/a/one/tls"), "no".to_owned())]),
    }
}

fn names(listeners: &BTreeMap<String, AckCount>) -> Vec<&str> {
    listeners.keys().map(String::as_str).collect()
}

#[test]
fn an_object_has_the_acknowledgements_of_its_own_listeners() {
    let known = acknowledgements();
    let set = "ListenerSet/a/one/";
    let listeners = listeners_of(&known, set, set);
    assert_eq!(names(&listeners), ["tls", "web"]);
    assert_eq!(listeners["web"].accepted, 1);
    assert_eq!(listeners["tls"].accepted, 0);
    assert_eq!(listeners["tls"].refused.as_deref(), Some("no"));
    let gateway = listeners_of(&known, "", "Gateway/default/edge/");
    assert_eq!(
        names(&gateway),
        [
            "ListenerSet/a/one-more/web",
            "ListenerSet/a/one/tls",
            "ListenerSet/a/one/web",
            "web"
        ]
    );
    assert!(listeners_of(&known, "ListenerSet/a/on/", "").is_empty());
}

#[test]
fn the_rejection_of_a_bind_concerns_all_listeners_of_an_object() {
    let mut known = acknowledgements();
    known.refused.insert(bind(), "in use".to_owned());
    let set = "ListenerSet/a/one-more/";
    let listeners = listeners_of(&known, set, set);
    assert_eq!(listeners["web"].refused.as_deref(), Some("in use"));
}

#[test]
fn a_changed_acknowledgement_concerns_its_listener_only() {
    let before = acknowledgements();
    let changed = |after: &Acknowledgements| -> Vec<ResourceKey> {
        changed_resources(&before, after)
            .into_iter()
            .cloned()
            .collect()
    };
    assert!(changed(&before).is_empty());
    let mut after = before.clone();
    let web = listener("ListenerSet/a/one/web");
    after.listeners.insert(web.clone(), 2);
    assert_eq!(changed(&after), [web]);
    let mut after = before.clone();
    after.refused.clear();
    assert_eq!(changed(&after), [listener("ListenerSet/a/one/tls")]);
}

#[test]
fn connections_of_proxies_and_rejected_binds_concern_all_listeners() {
    let before = acknowledgements();
    let mut connected = before.clone();
    connected.connected = 3;
    let mut rejected = before.clone();
    rejected.refused.insert(bind(), "in use".to_owned());
    for after in [connected, rejected, Acknowledgements::default()] {
        let changed = changed_resources(&before, &after);
        assert!(before.listeners.keys().all(|it| changed.contains(it)));
    }
}

//! What the controller reads: from an API server with faults to the published model and the
//! statuses. Time is the runtime's, which advances only when all tasks wait.

mod cluster;
mod election;
mod faults;
mod objects;
mod reader;
mod response;
mod scope;
mod served;

use std::time::Duration;

use serde_json::{Value, json};
use xds::model::{Kind, ObjectName};

use crate::cluster::Cluster;
use crate::objects::{class, definition, gateway, route, service, slice, udp_route};
use crate::reader::Reader;

fn site() -> [Value; 5] {
    [
        class(),
        gateway("a", "gw"),
        service("a", "web", 8080),
        slice("a", "web", "10.0.0.1"),
        route("a", "r", ("a", "gw"), "/"),
    ]
}

fn cluster_with(objects: &[Value]) -> Cluster {
    let cluster = Cluster::new();
    for object in objects {
        cluster.put(object);
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn the_published_model_follows_the_objects() {
    let cluster = cluster_with(&site());
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(1)).await;
    assert!(reader.readiness.unsynced().is_empty());
    let edited = route("a", "r", ("a", "gw"), "/edited");
    cluster.put(&edited);
    cluster.put(&route("a", "s", ("a", "gw"), "/more"));
    reader.expect(&cluster, Duration::from_secs(1)).await;
    cluster.delete(&edited);
    reader.expect(&cluster, Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_while_a_core_kind_is_forbidden() {
    let cluster = cluster_with(&site());
    cluster.forbid("services");
    let reader = Reader::start(&cluster, "[]");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(!reader.outputs.published.views().is_complete());
    let unsynced = reader.readiness.unsynced();
    let [("Service", Some(error))] = &*unsynced else {
        panic!("{unsynced:?}");
    };
    assert!(error.contains("services is forbidden"), "{error}");
    // What can be translated is prepared, and nobody acts on it.
    let outputs = &reader.outputs;
    assert!(outputs.published.views().resource_count() > 0);
    assert_eq!(outputs.infrastructure.keys(), []);
    assert_eq!(outputs.ports.keys(), []);
    assert!(!*outputs.gateways_known.borrow());
    assert!(!*outputs.translated.borrow());
    cluster.allow("services");
    reader.expect(&cluster, Duration::from_secs(40)).await;
    let gateways = [ObjectName::new("a", "gw")];
    assert_eq!(outputs.infrastructure.keys(), gateways);
    assert_eq!(outputs.ports.keys(), gateways);
    assert!(*outputs.gateways_known.borrow());
    assert!(*outputs.translated.borrow());
}

/// After the first publication, its previous version stays in effect. Before, none is in effect.
#[tokio::test(start_paused = true)]
async fn a_previous_version_of_a_route_that_is_too_large_stays_only_if_it_was_published() {
    let mut large = route("a", "r", ("a", "gw"), "/");
    let headers = (0..16).map(|it| json!({"name": format!("x-{it}"), "value": "x".repeat(2048)}));
    let headers: Value = headers.collect();
    let matches =
        (0..64).map(|it| json!({"path": {"value": format!("/{it}")}, "headers": headers}));
    large["spec"]["rules"][0]["matches"] = matches.collect();
    let edge = ObjectName::new("a", "gw");
    for (withheld, keeps_previous) in [(Some("services"), false), (None, true)] {
        let cluster = cluster_with(&site());
        if let Some(plural) = withheld {
            cluster.forbid(plural);
        }
        let reader = Reader::start(&cluster, "[]");
        tokio::time::sleep(Duration::from_mins(1)).await;
        let is_served = || {
            let views = reader.outputs.published.views();
            !views.keys(&edge, Kind::Route).is_empty()
        };
        assert!(is_served(), "the small version is prepared, or published");
        cluster.put(&large);
        tokio::time::sleep(Duration::from_mins(1)).await;
        if let Some(plural) = withheld {
            cluster.allow(plural);
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(reader.outputs.published.views().is_complete());
        assert_eq!(is_served(), keeps_previous, "{withheld:?}");
        let oversized = reader.outputs.oversized.get(&objects::reference(&large));
        assert!(oversized.is_some_and(|why| why.contains("split the object")));
    }
}

/// It is an edit of a valid one only if it is the same object.
#[tokio::test(start_paused = true)]
async fn an_invalid_object_does_not_keep_a_deleted_one_of_its_name_in_effect() {
    for (uid, is_kept) in [("u", true), ("another", false)] {
        let mut old = route("a", "r", ("a", "gw"), "/");
        old["metadata"]["uid"] = "u".into();
        let cluster = cluster_with(&site());
        cluster.put(&old);
        let reader = Reader::start(&cluster, "[]");
        reader.expect(&cluster, Duration::from_secs(5)).await;
        let before = reader.outcome();
        let mut new = old.clone();
        new["metadata"]["uid"] = uid.into();
        new["spec"]["rules"] = "none".into();
        // Its watch misses what happens meanwhile, and lists again.
        cluster.set_away(true);
        cluster.delete(&old);
        let remaining = Cluster::new();
        for object in cluster.objects() {
            remaining.put(&object);
        }
        cluster.put(&new);
        cluster.compact();
        cluster.set_away(false);
        if is_kept {
            tokio::time::sleep(Duration::from_mins(5)).await;
            assert_eq!(reader.outcome(), before);
        } else {
            reader.expect(&remaining, Duration::from_mins(5)).await;
        }
    }
}

/// Without policies, requests would not be authenticated. ConfigMaps and Secrets wait for those that name lists of networks
/// and API keys in them, so that they are three kinds.
#[tokio::test(start_paused = true)]
async fn nothing_is_published_while_policies_are_forbidden() {
    for (plural, waiting) in [("trafficpolicies", 3), ("backendtlspolicies", 1)] {
        let cluster = cluster_with(&site());
        cluster.forbid(plural);
        let reader = Reader::start(&cluster, "[]");
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert!(!reader.outputs.published.views().is_complete());
        assert_eq!(reader.readiness.unsynced().len(), waiting);
        cluster.allow(plural);
        reader.expect(&cluster, Duration::from_secs(40)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_until_a_starting_api_server_knows_all_kinds() {
    let cluster = cluster_with(&site());
    cluster.set_ready(false);
    cluster.set_served("httproutes", false);
    // Nor does it know the roles.
    cluster.forbid("udproutes");
    let reader = Reader::start(&cluster, "[]");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!reader.outputs.published.views().is_complete());
    cluster.set_served("httproutes", true);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!reader.outputs.published.views().is_complete());
    cluster.allow("udproutes");
    cluster.set_ready(true);
    reader.expect(&cluster, Duration::from_secs(5)).await;
    // The API server starts again.
    cluster.set_ready(false);
    cluster.set_served("httproutes", false);
    let published = reader.outcome();
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(reader.outcome(), published);
    }
    cluster.set_served("httproutes", true);
    cluster.set_ready(true);
    tokio::time::sleep(Duration::from_mins(5)).await;
    reader.expect(&cluster, Duration::from_secs(5)).await;
}

/// The time that it is away for does not count as time that it takes to start.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_starts_after_a_long_outage_is_waited_for() {
    let cluster = cluster_with(&site());
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(5)).await;
    let published = reader.outcome();
    // While it shuts down, it is not ready.
    cluster.set_ready(false);
    tokio::time::sleep(Duration::from_secs(70)).await;
    cluster.set_away(true);
    tokio::time::sleep(Duration::from_mins(5)).await;
    cluster.set_served("httproutes", false);
    cluster.set_away(false);
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(reader.outcome(), published);
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_never_ready_is_read_all_the_same() {
    let cluster = cluster_with(&site());
    cluster.set_ready(false);
    cluster.set_served("udproutes", false);
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(70)).await;
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_optional_kind_is_treated_as_absent() {
    let cluster = cluster_with(&site());
    cluster.forbid("udproutes");
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(2)).await;
    let metrics = reader.metrics.text();
    let counted = "watch_errors_total{kind=\"UDPRoute\",reason=\"forbidden\"} ";
    let (_, count) = metrics.split_once(counted).expect("a counter");
    assert!(!count.starts_with('0'), "{metrics}");
    cluster.put(&udp_route("a", "u", "gw"));
    cluster.allow("udproutes");
    reader.expect(&cluster, Duration::from_secs(40)).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_watched_once_its_definition_is_installed() {
    let cluster = cluster_with(&site());
    cluster.set_served("udproutes", false);
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(2)).await;
    cluster.put(&udp_route("a", "u", "gw"));
    cluster.set_served("udproutes", true);
    reader.expect(&cluster, Duration::from_secs(10)).await;
    // Its objects go with the definition.
    cluster.delete(&udp_route("a", "u", "gw"));
    cluster.set_served("udproutes", false);
    reader.expect(&cluster, Duration::from_secs(200)).await;
}

#[tokio::test(start_paused = true)]
async fn classes_list_the_features_of_the_installed_release() {
    let cluster = cluster_with(&site());
    cluster.put(&definition("v1.6.3"));
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(1)).await;
    assert!(reader.features().contains(&"HTTPRouteRetry"));
    cluster.put(&definition("v1.7.0"));
    reader.expect(&cluster, Duration::from_secs(1)).await;
    assert!(reader.features().contains(&"HTTPRouteRetryCodes"));
    cluster.delete(&definition("v1.7.0"));
    reader.expect(&cluster, Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_release_does_not_prevent_publication() {
    let cluster = cluster_with(&site());
    cluster.forbid("customresourcedefinitions");
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn objects_deleted_during_a_gap_are_removed_by_the_next_list() {
    let cluster = cluster_with(&site());
    for number in 0..9 {
        let name = format!("n{number}");
        cluster.put(&route("a", &name, ("a", "gw"), &format!("/{name}")));
    }
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(1)).await;
    cluster.set_away(true);
    cluster.delete(&route("a", "n4", ("a", "gw"), "/n4"));
    cluster.put(&route("a", "late", ("a", "gw"), "/late"));
    cluster.compact();
    let before = reader.outcome();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(
        reader.outcome(),
        before,
        "an API server that is away changes nothing"
    );
    cluster.set_away(false);
    reader.expect(&cluster, Duration::from_mins(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_detected() {
    let cluster = cluster_with(&site());
    cluster.set_half_open();
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(1)).await;
    cluster.get_stuck();
    cluster.put(&route("a", "late", ("a", "gw"), "/late"));
    reader.expect(&cluster, Duration::from_secs(70)).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_without_a_new_list() {
    let cluster = cluster_with(&site());
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(1)).await;
    let lists = reader.lists("HTTPRoute");
    cluster.disconnect();
    cluster.put(&route("a", "late", ("a", "gw"), "/late"));
    reader.expect(&cluster, Duration::from_secs(1)).await;
    assert_eq!(reader.lists("HTTPRoute"), lists, "it did not list again");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_object_keeps_its_last_valid_version_in_effect() {
    let cluster = cluster_with(&site());
    let reader = Reader::start(&cluster, "[]");
    reader.expect(&cluster, Duration::from_secs(1)).await;
    let before = reader.outcome();
    let mut broken = route("a", "r", ("a", "gw"), "/");
    broken["spec"]["rules"] = 5.into();
    cluster.put(&broken);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reader.outcome(), before);
    let why = reader.outputs.invalid.get(&objects::reference(&broken));
    assert!(
        why.as_deref().is_some_and(|why| why.contains("spec.rules")),
        "{why:?}"
    );
    cluster.put(&route("a", "r", ("a", "gw"), "/mended"));
    reader.expect(&cluster, Duration::from_secs(1)).await;
    assert_eq!(reader.outputs.invalid.keys(), []);
}

/// A discovery can be incomplete: without these policies and grants, what they protect would be open.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_keeps_its_objects_when_discovery_does_not_name_it() {
    for plural in [
        "trafficpolicies",
        "backendtlspolicies",
        "referencegrants",
        "httproutes",
    ] {
        let cluster = cluster_with(&site());
        let reader = Reader::start(&cluster, "[]");
        reader.expect(&cluster, Duration::from_secs(5)).await;
        let published = reader.outcome();
        cluster.set_hidden(plural, true);
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(reader.outcome(), published, "{plural}");
        }
        // Neither does a controller that starts take it for absent.
        let late = Reader::start(&cluster, "[]");
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert!(!late.outputs.published.views().is_complete(), "{plural}");
        cluster.set_hidden(plural, false);
        late.expect(&cluster, Duration::from_secs(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_server_is_heard_as_long_as_watches_end() {
    let cluster = cluster_with(&site());
    let reader = Reader::start(&cluster, "[]");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let silence = reader.readiness.silence();
        assert!(silence <= Duration::from_secs(62), "{silence:?}");
    }
    // It no longer responds, or its watches get stuck.
    cluster.set_away(true);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(reader.readiness.silence() >= Duration::from_mins(2));
    cluster.set_away(false);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(reader.readiness.silence() <= Duration::from_secs(62));
}

/// Who may write the class decides which parameters its Gateways have.
#[tokio::test(start_paused = true)]
async fn parameters_of_a_class_are_read_in_namespaces_that_are_not_selected() {
    let cluster = cluster_with(&site());
    cluster.put(&json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"namespace": "platform", "name": "standard", "uid": "standard"},
        "spec": {"replicas": 3},
    }));
    let reader = Reader::start(&cluster, "[{matchLabels: {nobody: has}}]");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(reader.outputs.published.views().is_complete());
    let name = ObjectName::new("platform", "standard");
    let parameters = reader.outputs.parameters.get(&name).expect("they are read");
    assert_eq!(parameters["replicas"], 3);
}

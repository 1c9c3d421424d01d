//! `--discovery-namespace-selectors`.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::objects::{class, gateway, namespace, route, service};
use crate::reader::Reader;

const OF_TEAM_A: &str = "[{matchLabels: {team: a}}]";

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    for object in [
        class(),
        namespace("a", "a"),
        namespace("b", "b"),
        gateway("a", "gw"),
        gateway("b", "gw"),
        service("b", "web", 8080),
        route("b", "r", ("a", "gw"), "/b"),
        route("b", "s", ("b", "gw"), "/b"),
    ] {
        cluster.put(&object);
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_namespaces_are_not_read() {
    let cluster = cluster();
    let reader = Reader::start(&cluster, OF_TEAM_A);
    reader.expect(&cluster, Duration::from_secs(2)).await;
    let outcome = reader.outcome();
    assert_eq!(outcome.models.len(), 1, "one Gateway");
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_selected_and_deselected_at_run_time() {
    let cluster = cluster();
    let reader = Reader::start(&cluster, OF_TEAM_A);
    reader.expect(&cluster, Duration::from_secs(2)).await;
    cluster.put(&namespace("b", "a"));
    reader.expect(&cluster, Duration::from_secs(2)).await;
    assert_eq!(reader.outcome().models.len(), 2);
    cluster.put(&namespace("a", "none"));
    reader.expect(&cluster, Duration::from_secs(2)).await;
    cluster.delete(&namespace("b", "a"));
    reader.expect(&cluster, Duration::from_secs(2)).await;
    assert_eq!(reader.outcome().models.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_may_be_selected_after_its_objects_are_created() {
    let cluster = cluster();
    let reader = Reader::start(&cluster, OF_TEAM_A);
    reader.expect(&cluster, Duration::from_secs(2)).await;
    for number in 0..5 {
        let name = format!("n{number}");
        cluster.put(&route(&name, "r", ("a", "gw"), &format!("/{name}")));
        cluster.put(&namespace(&name, "a"));
    }
    reader.expect(&cluster, Duration::from_secs(5)).await;
}

/// Its routes would be published without the policies that protect them.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_not_read_before_its_policies() {
    let cluster = cluster();
    let reader = Reader::start(&cluster, OF_TEAM_A);
    reader.expect(&cluster, Duration::from_secs(2)).await;
    cluster.forbid("trafficpolicies");
    cluster.disconnect();
    cluster.put(&namespace("b", "a"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(reader.outcome().models.len(), 1, "the Gateway of `a` alone");
    cluster.allow("trafficpolicies");
    reader.expect(&cluster, Duration::from_mins(1)).await;
    assert_eq!(reader.outcome().models.len(), 2);
}

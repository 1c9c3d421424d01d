//! Which endpoints get requests: health checks of pods that are ready and fail, and pods of the proxy's zone.

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::edge_gateway::{EdgeGateway, HOST, pod_of, send_get};
use super::live_traffic::{rolled_out, without_failed_requests};
use crate::test::manifests::{
    EchoProtocol, GatewayPod, config_map, echo, gateway, listener, on_node, route,
};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

/// Requests of which none may reach a pod that is out of service, or in another zone.
const REQUESTS: usize = 200;

/// A pod that is ready, and answers 500.
pub(in crate::test) async fn a_ready_pod_whose_health_check_fails_gets_no_requests(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open_with(scope, gateway(&[listener(80, "HTTP")]), 1).await?;
    scope.apply(&[health_check("/")]).await?;
    let failing = [
        gateway(&[listener(3000, "HTTP")]),
        route("HTTPRoute", 3000, "nowhere"),
    ];
    let mut pod = GatewayPod::named(&scope.images, "failing").object();
    pod["metadata"]["labels"] = json!({"app": "echo"});
    scope.apply(&[config_map(&failing), pod]).await?;
    scope.ready("failing").await?;
    let shows = async |words: &[&str]| {
        scope
            .until(&format!("a backend that is {words:?}"), async || {
                let backends = ["config", "backends", "gateway/edge", "-o", "wide"];
                let text = scope.gwctl(&backends).await?;
                let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
                Ok(text.lines().find(has_all).map(str::to_owned))
            })
            .await
    };
    shows(&["out", "status 500"]).await?;
    for _ in 0..REQUESTS {
        let answer = send_get(site.address, HOST, "/").await?;
        ensure!(answer.status == StatusCode::OK, "{answer:?}");
    }
    // A check that nothing passes decides nothing, and says so until it is mended.
    scope.apply(&[health_check("/status/503")]).await?;
    let ignored = expected_condition("DependencyUnavailable", "True", "HealthChecksIgnored");
    scope.condition("TrafficPolicy", "checks", ignored).await?;
    let said = scope.status().await?;
    ensure!(
        said.contains("pass their health checks, which are ignored"),
        "{said}"
    );
    scope.apply(&[health_check("/")]).await?;
    scope
        .until("the condition to go", async || {
            let policy = scope.object("TrafficPolicy", "checks").await?;
            let policy = policy.context("the policy is gone")?;
            let conditions = policy["status"]["ancestors"][0]["conditions"].as_array();
            let is_said = conditions
                .into_iter()
                .flatten()
                .any(|it| it["type"] == "DependencyUnavailable");
            Ok((!is_said).then_some(()))
        })
        .await
}

fn health_check(path: &str) -> Value {
    json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "TrafficPolicy", "metadata": {"name": "checks"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "echo"}],
            "healthCheck": {"path": path, "interval": "1s", "unhealthyAfter": 2, "healthyAfter": 1},
        },
    })
}

/// The proxy and a pod are in zone `b`, another pod in zone `a`.
pub(in crate::test) async fn requests_stay_in_the_zone_until_it_is_drained(
    scope: &Scope,
) -> Result<()> {
    ensure!(
        scope.ours()?.nodes().len() > 1,
        "this test needs two nodes: `e2e up --nodes 2`"
    );
    for (node, zone) in [("node-0", "a"), ("node-1", "b")] {
        let label = format!("{ZONE}={zone}");
        scope
            .kubectl(&["label", "node", node, &label, "--overwrite"], "")
            .await?;
    }
    let outcome = zones(scope).await;
    for node in ["node-0", "node-1"] {
        let label = format!("{ZONE}-");
        scope.kubectl(&["label", "node", node, &label], "").await?;
    }
    outcome
}

async fn zones(scope: &Scope) -> Result<()> {
    let pinned = |node: &str| json!({"spec": {"template": {"spec": {"nodeName": node}}}});
    let parameters = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "edge"}, "spec": {"overlays": {"deployment": pinned("node-1")}},
    });
    scope.apply(&[parameters]).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    let site = EdgeGateway::open_with(scope, edge, 1).await?;
    let patch = pinned("node-0").to_string();
    scope
        .kubectl(&["patch", "deployment/echo", "--patch", &patch], "")
        .await?;
    rolled_out(scope, "echo").await?;
    let mut near = on_node(echo(&scope.images, "near", EchoProtocol::Http), "node-1");
    near["metadata"]["labels"] = json!({"app": "echo"});
    scope.apply(&[near]).await?;
    scope.ready("near").await?;
    let patch = json!({"spec": {"trafficDistribution": "PreferSameZone"}}).to_string();
    scope
        .kubectl(&["patch", "service/echo", "--patch", &patch], "")
        .await?;
    scope
        .until("the proxy to prefer its zone", async || {
            let backends = ["config", "backends", "gateway/edge", "-o", "wide"];
            let text = scope.gwctl(&backends).await?;
            let is_preferred = |line: &str| line.contains(" b ") && line.contains("zone hints");
            Ok(text.lines().any(is_preferred).then_some(()))
        })
        .await?;
    for _ in 0..REQUESTS {
        let answer = send_get(site.address, HOST, "/").await?;
        let pod = pod_of(&answer).context("an answer of a pod")?;
        ensure!(pod == "near", "{pod} of another zone answered");
    }
    without_failed_requests(&site, async || {
        scope.kubectl(&["delete", "pod", "near"], "").await?;
        site.until_answered_by("echo").await
    })
    .await
}

/// The label of a node with its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

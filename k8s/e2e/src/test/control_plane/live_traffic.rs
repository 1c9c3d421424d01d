//! Traffic is not affected by restarts and failures of the control plane, proxies and backends.
//! Clients send requests all the time, and a test fails for a single failed request.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::ControlPlane;
use super::edge_gateway::{EdgeGateway, HOST};
use crate::args::{ComponentArgs, Condition, StopArgs};
use crate::cluster::component::Component;
use crate::test::load::Load;
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

/// Clients that send requests at the same time.
const CLIENTS: usize = 8;

/// Responses before and after the event.
const ANSWERS: usize = 40 * CLIENTS;

/// Runs something under load, and waits for more responses after it.
pub(super) async fn without_failed_requests<T>(
    site: &EdgeGateway<'_>,
    happens: impl AsyncFnOnce() -> Result<T>,
) -> Result<T> {
    let load = Load::start(site.address, CLIENTS);
    load.until_answers(ANSWERS).await?;
    let happened = happens().await;
    let served = load.until_answers(ANSWERS).await;
    let counts = load.stop().await;
    let happened = happened?;
    served?;
    ensure!(
        counts.failed.is_empty(),
        "{} failed, {} were answered: {:?}",
        counts.failed.len(),
        counts.answered,
        counts.failed.iter().take(5).collect::<Vec<_>>()
    );
    Ok(happened)
}

/// A site of two proxies and two backends, on different nodes if possible.
pub(super) async fn redundant(scope: &Scope) -> Result<EdgeGateway<'_>> {
    let parameters = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "edge"}, "spec": {"replicas": 2},
    });
    scope.apply(&[parameters]).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    let site = EdgeGateway::open_with(scope, edge, 2).await?;
    for deployment in ["edge", "echo"] {
        rolled_out(scope, deployment).await?;
    }
    Ok(site)
}

pub(super) async fn rolled_out(scope: &Scope, deployment: &str) -> Result<()> {
    let deployment = format!("deployment/{deployment}");
    let words = ["rollout", "status", &deployment, "--timeout=100s"];
    scope.kubectl(&words, "").await.map(drop)
}

/// Changes the route and waits until the change serves, which shows that the control plane works.
pub(super) async fn follows_changes(site: &EdgeGateway<'_>, path: &str) -> Result<()> {
    let mut more = route("HTTPRoute", 80, "echo");
    more["metadata"]["name"] = json!("more");
    more["spec"]["rules"][0]["matches"] = json!([{"path": {"value": path}}]);
    more["spec"]["rules"][0]["filters"] = json!([{
        "type": "RequestRedirect", "requestRedirect": {"statusCode": 302, "hostname": "moved"}}]);
    more["spec"]["rules"][0]["backendRefs"] = json!([]);
    site.scope.apply(&[more]).await?;
    site.until(HOST, path, StatusCode::FOUND).await?;
    let accepted = expected_condition("Accepted", "True", "Accepted");
    site.scope
        .condition("HTTPRoute", "more", accepted)
        .await
        .map(drop)
}

pub(in crate::test) async fn the_controller_is_killed(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let control_plane = ControlPlane::of(scope);
    without_failed_requests(&site, async || {
        for pod in control_plane.pods().await? {
            control_plane.kill(&pod).await?;
        }
        control_plane.rolled_out().await?;
        follows_changes(&site, "/after").await
    })
    .await
}

pub(in crate::test) async fn another_replica_becomes_the_leader(scope: &Scope) -> Result<()> {
    let control_plane = ControlPlane::of(scope);
    control_plane.scale(2).await?;
    let outcome = async {
        let site = redundant(scope).await?;
        let before = programmed(scope).await?;
        without_failed_requests(&site, async || {
            let leader = control_plane.leader().await?;
            control_plane.kill(&leader).await?;
            let what = "another leader";
            scope
                .until(what, async || {
                    let now = control_plane.leader().await.ok();
                    Ok(now.filter(|now| *now != leader).map(drop))
                })
                .await?;
            follows_changes(&site, "/after").await
        })
        .await?;
        // No condition flips, whichever replica the proxies are connected to.
        let after = programmed(scope).await?;
        ensure!(before == after, "{before} became {after}");
        Ok(())
    };
    let outcome = outcome.await;
    control_plane.scale(1).await?;
    outcome
}

/// The status and last transition time of `Programmed`.
async fn programmed(scope: &Scope) -> Result<Value> {
    let edge = scope
        .object("Gateway", "edge")
        .await?
        .context("a Gateway")?;
    let conditions = edge["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut found = conditions.filter(|it| it["type"] == "Programmed");
    let found = found.next().context("a condition")?;
    Ok(json!([found["status"], found["lastTransitionTime"]]))
}

pub(in crate::test) async fn the_api_server_is_unavailable(scope: &Scope) -> Result<()> {
    without_the_api_server(scope, Duration::from_secs(5)).await
}

pub(super) async fn without_the_api_server(scope: &Scope, time: Duration) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let cluster = scope.ours()?;
    let component = || ComponentArgs {
        component: Component::Apiserver,
        node: 0,
    };
    without_failed_requests(&site, async || {
        cluster.stop(&StopArgs {
            component: component(),
            kill: true,
        })?;
        sleep(time).await;
        cluster.start(&component())?;
        follows_changes(&site, "/after").await
    })
    .await
}

pub(in crate::test) async fn the_xds_mode_changes(scope: &Scope) -> Result<()> {
    let site = redundant(scope).await?;
    let control_plane = ControlPlane::of(scope);
    let outcome = without_failed_requests(&site, async || {
        for mode in ["either", "plaintext"] {
            control_plane
                .set(&[("CONTROLLER_XDS_MODE", Some(mode))])
                .await?;
            follows_changes(&site, &format!("/{mode}")).await?;
        }
        Ok(())
    })
    .await;
    control_plane.set(&[("CONTROLLER_XDS_MODE", None)]).await?;
    outcome
}

pub(in crate::test) async fn proxies_are_replaced_while_the_controller_is_unavailable(
    scope: &Scope,
) -> Result<()> {
    let site = redundant(scope).await?;
    let control_plane = ControlPlane::of(scope);
    let outcome = without_failed_requests(&site, async || {
        control_plane.scale(0).await?;
        // A new pod has no configuration, and must not replace another before it has one.
        let pods: Api<Pod> = scope.api();
        let name = proxies(scope).await?.pop().context("two proxies")?;
        pods.delete(&name, &DeleteParams::default()).await?;
        scope.wait_until_deleted("Pod", &name).await?;
        control_plane.scale(1).await?;
        follows_changes(&site, "/after").await?;
        rolled_out(scope, "edge").await
    })
    .await;
    control_plane.scale(1).await?;
    outcome
}

async fn proxies(scope: &Scope) -> Result<Vec<String>> {
    let pods: Api<Pod> = scope.api();
    let ours = ListParams::default().labels("gateway.networking.k8s.io/gateway-name=edge");
    let pods = pods.list(&ours).await?;
    Ok(pods.iter().map(ResourceExt::name_any).collect())
}

pub(in crate::test) async fn routes_change(scope: &Scope) -> Result<()> {
    change_routes(scope, 100).await
}

/// Keeps changing the serving route: its filters, and the rule before it.
pub(super) async fn change_routes(scope: &Scope, times: usize) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let routes = scope.objects("HTTPRoute")?;
    without_failed_requests(&site, async || {
        for number in 0..times {
            let mut changed = route("HTTPRoute", 80, "echo");
            let backends = changed["spec"]["rules"][0]["backendRefs"].take();
            changed["spec"]["rules"] = json!([
                {"matches": [{"path": {"value": format!("/{number}")}}], "backendRefs": backends},
                {"backendRefs": backends, "filters": [{
                    "type": "ResponseHeaderModifier",
                    "responseHeaderModifier": {"set": [{"name": "x-number", "value": number.to_string()}]},
                }]},
            ]);
            let patch = Patch::Merge(json!({"spec": changed["spec"]}));
            routes.patch("echo-80", &PatchParams::default(), &patch).await?;
        }
        let accepted = expected_condition("Accepted", "True", "Accepted");
        scope.condition("HTTPRoute", "echo-80", accepted).await.map(drop)
    })
    .await
}

/// Backends pause before they terminate, as the operating guide asks.
pub(in crate::test) async fn a_backend_is_restarted(scope: &Scope) -> Result<()> {
    let site = redundant(scope).await?;
    pause_before_termination(scope).await?;
    without_failed_requests(&site, async || {
        scope
            .kubectl(&["rollout", "restart", "deployment/echo"], "")
            .await?;
        rolled_out(scope, "echo").await
    })
    .await
}

pub(in crate::test) async fn proxies_are_scaled_up_and_down(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    without_failed_requests(&site, async || {
        for replicas in [3, 1] {
            let replicas = format!("--replicas={replicas}");
            scope
                .kubectl(&["scale", "deployment/edge", &replicas], "")
                .await?;
            rolled_out(scope, "edge").await?;
        }
        // Terminating pods must be gone before they can be counted.
        scope
            .until("one proxy to be left", async || {
                Ok((proxies(scope).await?.len() == 1).then_some(()))
            })
            .await
    })
    .await
}

/// Prepared as the operating guide asks: a disruption budget for backends, a pause before they terminate, and
/// a controller on another node. Proxies have a budget by default.
pub(in crate::test) async fn a_node_is_drained(scope: &Scope) -> Result<()> {
    let site = redundant(scope).await?;
    pause_before_termination(scope).await?;
    limit_disruption(scope).await?;
    let budget = scope.object("PodDisruptionBudget", "edge").await?;
    let budget = budget.context("the proxies have no disruption budget")?;
    ensure!(budget["spec"]["maxUnavailable"] == 1, "{budget}");
    let control_plane = ControlPlane::of(scope);
    control_plane.pin(Some("node-0")).await?;
    let drain = [
        "drain",
        "node-1",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
        "--timeout=100s",
    ];
    let outcome = without_failed_requests(&site, async || {
        scope.kubectl(&drain, "").await?;
        for deployment in ["edge", "echo"] {
            rolled_out(scope, deployment).await?;
        }
        Ok(())
    })
    .await;
    scope.kubectl(&["uncordon", "node-1"], "").await?;
    control_plane.pin(None).await?;
    outcome
}

/// Keeps each backend running for three seconds after its removal, so that no proxy still sends it
/// requests when it ends.
async fn pause_before_termination(scope: &Scope) -> Result<()> {
    let pause = json!({"preStop": {"sleep": {"seconds": 3}}});
    let pause = json!({"spec": {"template": {"spec": {
        "terminationGracePeriodSeconds": 10,
        "containers": [{"name": "echo", "lifecycle": pause}]}}}});
    let patch = ["patch", "deployment/echo", "--patch", &pause.to_string()];
    scope.kubectl(&patch, "").await?;
    rolled_out(scope, "echo").await
}

async fn limit_disruption(scope: &Scope) -> Result<()> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "echo"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "echo"}}},
    });
    scope.apply(&[budget]).await
}

pub(in crate::test) async fn the_network_between_nodes_is_cut(scope: &Scope) -> Result<()> {
    cut_the_network(scope, Duration::from_secs(10)).await
}

/// The proxy and its backend are on the second node; the API server and the controller on the first.
pub(super) async fn cut_the_network(scope: &Scope, time: Duration) -> Result<()> {
    let cluster = scope.ours()?;
    ensure!(
        cluster.nodes().len() > 1,
        "this test needs two nodes: `e2e up --nodes 2`"
    );
    let on_second = json!({"spec": {"template": {"spec": {"nodeName": "node-1"}}}});
    let parameters = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "edge"}, "spec": {"overlays": {
            "deployment": on_second, "service": {"spec": {"externalTrafficPolicy": "Local"}}}},
    });
    let control_plane = ControlPlane::of(scope);
    control_plane.pin(Some("node-0")).await?;
    scope.apply(&[parameters]).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    let site = EdgeGateway::open_with(scope, edge, 1).await?;
    let patch = on_second.to_string();
    scope
        .kubectl(&["patch", "deployment/echo", "--patch", &patch], "")
        .await?;
    rolled_out(scope, "echo").await?;
    let outcome = without_failed_requests(&site, async || {
        cluster.set_network(&Condition::Cut)?;
        let started = Instant::now();
        sleep(time).await;
        cluster.set_network(&Condition::Heal)?;
        ensure!(
            started.elapsed() >= time,
            "the network was not cut for long enough"
        );
        follows_changes(&site, "/after").await
    })
    .await;
    cluster.set_network(&Condition::Heal)?;
    control_plane.pin(None).await?;
    outcome
}

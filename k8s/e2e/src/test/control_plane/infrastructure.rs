//! Where a Gateway runs, by its GatewayParameters: how many proxies there are and what decides it, at which
//! addresses and ports they are, and what tells load balancers that one is about to end.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::ControlPlane;
use super::edge_gateway::{EdgeGateway, HOST, backend, send_get, until};
use super::haproxy::HaProxy;
use super::kinds::own;
use super::live_traffic::{rolled_out, without_failed_requests};
use super::proxy::pods;
use crate::home;
use crate::test::manifests::{EchoProtocol, gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::{Scope, address};

/// The switch of the controller that reads nodes.
const NODE_ADDRESSES: &str = "CONTROLLER_NODE_ADDRESSES";

/// The role for it, of the tests.
const NODE_ROLE: &str = "gateway-node-addresses-of-tests";

/// From a fixed number to an autoscaler, and back. No metrics are needed for its bounds.
pub(in crate::test) async fn an_autoscaler_takes_over_and_gives_back_the_number_of_proxies(
    scope: &Scope,
) -> Result<()> {
    let site = open_with(scope, &json!({"replicas": 2})).await?;
    rolled_out(scope, "edge").await?;
    without_failed_requests(&site, async || {
        parameters(scope, &scaled(1, 3)).await?;
        scope
            .until("the Gateway's autoscaler", async || {
                scope.object("HorizontalPodAutoscaler", "edge").await
            })
            .await?;
        // It has been looked at, and a number that nobody holds would be 1 by now.
        scope
            .until(
                "the autoscaler to have read the number of proxies",
                async || {
                    let autoscaler = scope.object("HorizontalPodAutoscaler", "edge").await?;
                    let autoscaler = autoscaler.context("the autoscaler is gone")?;
                    Ok((autoscaler["status"]["currentReplicas"] == 2).then_some(()))
                },
            )
            .await?;
        ensure!(replicas(scope).await? == 2, "it is not the autoscaler's");
        for (least, most, expected) in [(3, 3, 3), (1, 1, 1)] {
            parameters(scope, &scaled(least, most)).await?;
            has_replicas(scope, expected).await?;
            rolled_out(scope, "edge").await?;
        }
        parameters(scope, &json!({"replicas": 2})).await?;
        scope
            .wait_until_deleted("HorizontalPodAutoscaler", "edge")
            .await?;
        has_replicas(scope, 2).await?;
        rolled_out(scope, "edge").await
    })
    .await?;
    parameters(scope, &json!({"autoscaling": {"maxReplicas": 3}})).await?;
    let refused = expected_condition("AutoscalingRefused", "True", "NoResourceRequest");
    let why = scope.condition("Gateway", "edge", refused).await?;
    ensure!(why.contains("resources.requests.cpu"), "{why}");
    Ok(())
}

/// By the type of its Service, and as nodes come and go.
pub(in crate::test) async fn gateways_report_the_addresses_of_services_and_nodes(
    scope: &Scope,
) -> Result<()> {
    open_with(scope, &json!({})).await?;
    parameters(scope, &json!({"service": {"type": "NodePort"}})).await?;
    // The plain manifests do not enable it, and what is served is served all the same.
    let unreadable = expected_condition("AddressesAssigned", "False", "NodesNotReadable");
    let why = scope.condition("Gateway", "edge", unreadable).await;
    let why = why.context("without the permission to read nodes")?;
    ensure!(why.contains("nodeAddresses.enabled"), "{why}");
    reading_nodes(scope, async || {
        let nodes = nodes_of_proxies(scope).await?;
        has_addresses(scope, &nodes).await?;
        for kind in ["ClusterIP", "LoadBalancer"] {
            parameters(scope, &json!({"service": {"type": kind}})).await?;
            let what = format!("an address of a Service of type {kind}");
            scope
                .until(&what, async || {
                    let service = scope.object("Service", "edge").await?;
                    let service = service.context("the Service is gone")?;
                    let ip = match kind {
                        "ClusterIP" => &service["spec"]["clusterIP"],
                        _ => &service["status"]["loadBalancer"]["ingress"][0]["ip"],
                    };
                    let found = addresses(scope).await?;
                    Ok((ip.is_string() && found == [ip.clone()]).then_some(()))
                })
                .await?;
        }
        parameters(scope, &json!({"service": {"type": "None"}})).await?;
        scope.wait_until_deleted("Service", "edge").await?;
        has_addresses(scope, &[]).await?;
        let programmed = expected_condition("Programmed", "True", "Programmed");
        scope.condition("Gateway", "edge", programmed).await?;
        parameters(
            scope,
            &json!({"service": {"type": "None"}, "workload": "DaemonSet",
                                  "addresses": {"from": "Nodes"}}),
        )
        .await?;
        scope.wait_until_deleted("Deployment", "edge").await?;
        has_addresses(scope, &nodes_of_proxies(scope).await?).await
    })
    .await
}

/// Both have a pod on each node; a third one finds the port taken, and says so.
pub(in crate::test) async fn gateways_at_ports_of_the_same_nodes_do_not_disturb_each_other(
    scope: &Scope,
) -> Result<()> {
    let spec = json!({"workload": "DaemonSet", "exposure": "HostPort"});
    reading_nodes(scope, async || {
        let site = open_with(scope, &spec).await?;
        has_addresses(scope, &nodes_of_proxies(scope).await?).await?;
        let mut other = with_parameters(gateway(&[listener(8080, "HTTP")]));
        other["metadata"]["name"] = json!("other");
        let mut to_other = route("HTTPRoute", 8080, "echo");
        to_other["metadata"]["name"] = json!("other");
        to_other["spec"]["parentRefs"] = json!([{"name": "other"}]);
        scope.apply(&[other, to_other]).await?;
        let other = SocketAddr::new(site.address.ip(), 8080);
        until(scope, other, (HOST, "/"), StatusCode::OK).await?;
        without_failed_requests(&site, async || {
            let daemon_set = "daemonset/other";
            scope
                .kubectl(&["rollout", "restart", daemon_set], "")
                .await?;
            let status = ["rollout", "status", daemon_set, "--timeout=100s"];
            scope.kubectl(&status, "").await
        })
        .await?;
        until(scope, other, (HOST, "/"), StatusCode::OK).await?;
        let mut third = with_parameters(gateway(&[listener(80, "HTTP")]));
        third["metadata"]["name"] = json!("third");
        scope.apply(&[third]).await?;
        let failed = expected_condition("DeploymentFailed", "True", "DeploymentFailed");
        let why = scope.condition("Gateway", "third", failed).await?;
        ensure!(
            why.contains("free ports") && why.contains("another port"),
            "{why}"
        );
        parameters(scope, &json!({"exposure": "HostPort"})).await?;
        let warned = expected_condition("Degraded", "True", "RolloutsInterrupt");
        scope.condition("Gateway", "edge", warned).await.map(drop)
    })
    .await
}

/// The guide's Gateway, behind an HAProxy that asks its nodes for the health path: its proxies are replaced one
/// after the other, and each says so before it stops to serve.
pub(in crate::test) async fn proxies_on_bare_metal_are_replaced_without_a_failed_request(
    scope: &Scope,
) -> Result<()> {
    reading_nodes(scope, async || {
        scope
            .apply(&backend(scope, "shop", EchoProtocol::Http, 1))
            .await?;
        let guide = home::repository().join("k8s/GUIDES.md");
        let guide = std::fs::read_to_string(&guide)?;
        let yaml = examples_of(&guide, "## Run on bare metal")?;
        scope.kubectl(&["apply", "-f", "-"], &yaml).await?;
        let programmed = expected_condition("Programmed", "True", "Programmed");
        scope.condition("Gateway", "nodes", programmed).await?;
        let mut servers = vec![
            "  option httpchk GET /healthz".to_owned(),
            "  default-server check inter 1s fall 2 rise 1".to_owned(),
        ];
        for pod in pods(scope, "nodes").await? {
            let proxy = SocketAddr::new(node_address(scope, &pod).await?, 80);
            until(scope, proxy, (HOST, "/healthz"), StatusCode::OK).await?;
            servers.push(format!("  server {pod} {proxy}"));
        }
        ensure!(
            servers.len() == 4,
            "a proxy on each of two nodes: {servers:?}"
        );
        let haproxy = HaProxy::start(scope, &servers.join("\n")).await?;
        let site = EdgeGateway {
            scope,
            address: haproxy.address,
        };
        site.until(HOST, "/", StatusCode::OK).await?;
        without_failed_requests(&site, async || {
            let daemon_set = "daemonset/nodes";
            let restart = ["rollout", "restart", daemon_set];
            scope.kubectl(&restart, "").await?;
            let status = ["rollout", "status", daemon_set, "--timeout=200s"];
            scope.kubectl(&status, "").await
        })
        .await?;
        says_that_it_is_about_to_end(scope).await
    })
    .await
}

/// One of the proxies of Gateway `nodes`, before it ends.
async fn says_that_it_is_about_to_end(scope: &Scope) -> Result<()> {
    let pod = pods(scope, "nodes").await?.pop().context("a proxy")?;
    let ready = scope.ready(&pod).await?;
    let ip: IpAddr = address(&ready)?.parse()?;
    let proxy = SocketAddr::new(ip, 80);
    let delete = ["delete", "pod", &pod, "--wait=false"];
    scope.kubectl(&delete, "").await?;
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    until(scope, proxy, (HOST, "/healthz"), unavailable).await?;
    // It still takes new connections, while the load balancer notices.
    let answer = send_get(proxy, HOST, "/").await?;
    ensure!(answer.status == StatusCode::OK, "{answer:?}");
    Ok(())
}

/// The YAML of a section of a guide.
fn examples_of(document: &str, heading: &str) -> Result<String> {
    let (_, section) = document
        .split_once(&format!("{heading}\n"))
        .with_context(|| format!("there is no section {heading}"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|it| it.split("```").next());
    Ok(blocks.collect::<Vec<_>>().join("---\n"))
}

/// Does something while the controller reads nodes, as the chart enables it with `nodeAddresses.enabled`.
async fn reading_nodes(scope: &Scope, test: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let rules =
        json!([{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": NODE_ROLE}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": NODE_ROLE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NODE_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "gateway", "namespace": "gateway-system"}],
    });
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]});
    let apply = ["apply", "--server-side", "-f", "-"];
    scope.kubectl(&apply, &both.to_string()).await?;
    let control_plane = ControlPlane::of(scope);
    control_plane.set(&[(NODE_ADDRESSES, Some("true"))]).await?;
    let outcome = test().await;
    control_plane.set(&[(NODE_ADDRESSES, None)]).await?;
    let delete = ["delete", "clusterrole,clusterrolebinding", NODE_ROLE];
    scope.kubectl(&delete, "").await?;
    outcome
}

/// The addresses of the nodes that have a proxy of Gateway `edge`, in the order of their numbers.
async fn nodes_of_proxies(scope: &Scope) -> Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for pod in pods(scope, "edge").await? {
        found.push(node_address(scope, &pod).await?);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The address of a pod's node, once the pod is ready.
async fn node_address(scope: &Scope, pod: &str) -> Result<IpAddr> {
    let pod = scope.ready(pod).await?;
    let node = pod.spec.and_then(|it| it.node_name).context("a node")?;
    let node = scope.object("Node", &node).await?;
    let node = node.context("the node is gone")?;
    let addresses = node["status"]["addresses"].as_array();
    let mut addresses = addresses.into_iter().flatten();
    let internal = addresses.find(|it| it["type"] == "InternalIP");
    let internal = internal.and_then(|it| it["address"].as_str());
    Ok(internal.context("a node has an address")?.parse()?)
}

/// The addresses in the status of Gateway `edge`.
async fn addresses(scope: &Scope) -> Result<Vec<Value>> {
    let edge = scope.object("Gateway", "edge").await?;
    let edge = edge.context("the Gateway is gone")?;
    let addresses = edge["status"]["addresses"].as_array().into_iter().flatten();
    Ok(addresses.map(|it| it["value"].clone()).collect())
}

async fn has_addresses(scope: &Scope, expected: &[IpAddr]) -> Result<()> {
    let expected: Vec<Value> = expected.iter().map(|it| it.to_string().into()).collect();
    scope
        .until(
            &format!("the Gateway to have the addresses {expected:?}"),
            async || Ok((addresses(scope).await? == expected).then_some(())),
        )
        .await
}

/// A Gateway `edge` that serves, with parameters `edge`.
pub(super) async fn open_with<'a>(scope: &'a Scope, spec: &Value) -> Result<EdgeGateway<'a>> {
    parameters(scope, spec).await?;
    let edge = with_parameters(gateway(&[listener(80, "HTTP")]));
    EdgeGateway::open_with(scope, edge, 2).await
}

/// A Gateway with parameters `edge`.
fn with_parameters(mut gateway: Value) -> Value {
    gateway["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    gateway
}

pub(super) async fn parameters(scope: &Scope, spec: &Value) -> Result<()> {
    scope.apply(&[own("GatewayParameters", "edge", spec)]).await
}

pub(super) fn scaled(least: u32, most: u32) -> Value {
    json!({
        "autoscaling": {"minReplicas": least, "maxReplicas": most},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    })
}

pub(super) async fn replicas(scope: &Scope) -> Result<u64> {
    let edge = scope.object("Deployment", "edge").await?;
    let edge = edge.context("the proxies' Deployment is gone")?;
    edge["spec"]["replicas"]
        .as_u64()
        .context("a number of replicas")
}

pub(super) async fn has_replicas(scope: &Scope, expected: u64) -> Result<()> {
    let what = format!("the proxies' Deployment to have {expected} replicas");
    scope
        .until(&what, async || {
            Ok((replicas(scope).await? == expected).then_some(()))
        })
        .await
}

//! An InferencePool of the Gateway API Inference Extension, whose endpoint picker chooses a pod for each
//! request: served by a release of the chart with `inferenceExtension.enabled`.

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::edge_gateway::{EdgeGateway, HOST, pod_of, send};
use crate::conformance::PICKER;
use crate::test::http::{HttpResponse, request};
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::operator;
use crate::test::scope::{Scope, is_ready};

/// The header that names the pod for the picker to select.
const SELECTION: &str = "test-epp-endpoint-selection";

/// Requests to each pod, of which none may reach another.
const REQUESTS: usize = 10;

pub(in crate::test) async fn an_endpoint_picker_selects_the_pod(scope: &Scope) -> Result<()> {
    let enabled = ["--set", "inferenceExtension.enabled=true"];
    operator::install(scope, &enabled).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["gatewayClassName"] = json!(scope.namespace);
    let site = EdgeGateway::open_with(scope, edge, 3).await?;
    let mut to_pool = route("HTTPRoute", 80, "echo");
    to_pool["spec"]["rules"][0]["backendRefs"] = json!([{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "models"}]);
    scope.apply(&picker(scope)).await?;
    scope.apply(&[pool("FailClose"), to_pool]).await?;
    let accepted = expected_condition("Accepted", "True", "Accepted");
    scope.condition("InferencePool", "models", accepted).await?;
    follows_the_picker(&site, 3).await?;

    scale(scope, "echo", 4).await?;
    follows_the_picker(&site, 4).await?;

    scale(scope, "picker", 0).await?;
    site.until(HOST, "/", StatusCode::SERVICE_UNAVAILABLE)
        .await?;
    scope.apply(&[pool("FailOpen")]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;

    scope.delete("HTTPRoute", "echo-80").await?;
    scope
        .until("the pool to have no parent", async || {
            let pool = scope.object("InferencePool", "models").await?;
            let pool = pool.context("the pool is the user's")?;
            let parents = pool["status"]["parents"].as_array();
            Ok(parents.is_none_or(Vec::is_empty).then_some(()))
        })
        .await?;
    scope.delete("Gateway", "edge").await?;
    scope.helm(&["uninstall", "gateway", "--wait"], "").await?;
    let class = ["delete", "gatewayclass", &scope.namespace];
    scope.kubectl(&class, "").await.map(drop)
}

async fn scale(scope: &Scope, deployment: &str, replicas: usize) -> Result<()> {
    let deployment = format!("deployment/{deployment}");
    let replicas = format!("--replicas={replicas}");
    let words = ["scale", &deployment, &replicas];
    scope.kubectl(&words, "").await.map(drop)
}

/// Waits until each of this many pods receives the requests that select it, and no others.
async fn follows_the_picker(site: &EdgeGateway<'_>, pods: usize) -> Result<()> {
    for (pod, ip) in ready_pods(site.scope, pods).await? {
        let selected = ip.to_string();
        let asks = async || -> Result<HttpResponse> {
            send(site.address, request(HOST, "/", &[(SELECTION, &selected)])?).await
        };
        let reached = async || {
            let answer = asks().await.ok();
            Ok(answer.filter(|it| it.status == StatusCode::OK))
        };
        site.scope
            .until(&format!("the picker to choose {pod}"), reached)
            .await?;
        for _ in 0..REQUESTS {
            let answer = asks().await?;
            let reached = pod_of(&answer).unwrap_or_default();
            ensure!(
                reached == pod,
                "{reached} answers what {pod} was picked for"
            );
        }
    }
    Ok(())
}

/// So many pods of the pool, once they are ready.
async fn ready_pods(scope: &Scope, count: usize) -> Result<Vec<(String, IpAddr)>> {
    let pods: Api<Pod> = scope.api();
    let ours = ListParams::default().labels("app=echo");
    let address = |pod: &Pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
    scope
        .until(&format!("{count} pods to be ready"), async || {
            let pods = pods.list(&ours).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod));
            let found = ready.filter_map(|pod| Some((pod.name_any(), address(pod)?)));
            let found: Vec<(String, IpAddr)> = found.collect();
            Ok((found.len() == count).then_some(found))
        })
        .await
}

fn pool(failure_mode: &str) -> Value {
    json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
        "metadata": {"name": "models"},
        "spec": {
            "selector": {"matchLabels": {"app": "echo"}},
            "targetPorts": [{"number": 3000}],
            "endpointPickerRef": {
                "name": "picker", "port": {"number": 9002}, "failureMode": failure_mode,
            },
        },
    })
}

/// The picker of pool `models`, which has to see the pool and its pods.
fn picker(scope: &Scope) -> [Value; 4] {
    let namespace = &scope.namespace;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "picker"},
        "rules": [
            {"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"],
             "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "picker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "picker"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    });
    let labels = json!({"app": "picker"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "picker"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "picker", "image": PICKER.reference,
                        "args": ["--pool-name=models", format!("--pool-namespace={namespace}")],
                        "readinessProbe": {"tcpSocket": {"port": 9002}, "periodSeconds": 1},
                    }],
                },
            },
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "picker"},
        "spec": {"selector": labels, "ports": [{"port": 9002, "appProtocol": "http2"}]},
    });
    [role, binding, deployment, service]
}

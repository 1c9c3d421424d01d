//! An autoscaler with metrics: the number of proxies follows their CPU time under load, as measured by the
//! metrics server of Kubernetes.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::infrastructure::{has_replicas, open_with, scaled};
use super::live_traffic::{rolled_out, without_failed_requests};
use crate::image::Backend;
use crate::test::load::Load;
use crate::test::scope::Scope;

pub(in crate::test) const METRICS_SERVER: Backend =
    Backend::of("metrics-server", "localhost/metrics-server:1");

/// Few requests: a fraction of the CPU time that a proxy requests.
const IDLE_CLIENTS: usize = 2;
const IDLE_INTERVAL: Duration = Duration::from_millis(200);

pub(in crate::test) async fn an_autoscaler_follows_the_cpu_time_of_proxies(
    scope: &Scope,
) -> Result<()> {
    scope.apply(&metrics_server(&scope.namespace)).await?;
    rolled_out(scope, "metrics-server").await?;
    let outcome = scales_up_and_down(scope).await;
    for kind in ["apiservice", "clusterrole", "clusterrolebinding"] {
        let delete = ["delete", kind, "--selector", LABEL, "--ignore-not-found"];
        scope.kubectl(&delete, "").await?;
    }
    outcome
}

async fn scales_up_and_down(scope: &Scope) -> Result<()> {
    let mut spec = scaled(1, 3);
    spec["resources"]["requests"]["cpu"] = json!("50m");
    // By default, an autoscaler waits for five minutes before it removes pods.
    spec["autoscaling"]["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    let site = open_with(scope, &spec).await?;
    has_replicas(scope, 1).await?;
    without_failed_requests(&site, async || {
        has_replicas(scope, 3).await?;
        rolled_out(scope, "edge").await
    })
    .await?;
    let load = Load::paced(site.address, IDLE_CLIENTS, IDLE_INTERVAL);
    let removed = has_replicas(scope, 1).await;
    let settled = rolled_out(scope, "edge").await;
    let counts = load.stop().await;
    removed?;
    settled?;
    ensure!(
        counts.failed.is_empty(),
        "{} failed, {} were answered: {:?}",
        counts.failed.len(),
        counts.answered,
        counts.failed.first()
    );
    Ok(())
}

/// Of what no namespace contains.
const LABEL: &str = "app=metrics-server";

/// The metrics server in this namespace, with the rights of its own manifests.
fn metrics_server(namespace: &str) -> Vec<Value> {
    let labels = json!({"app": "metrics-server"});
    let name = json!({"name": "metrics-server", "labels": labels});
    let subjects = json!([{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]);
    let bound = |name: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": subjects,
        })
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name,
        "rules": [
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
             "resourceNames": ["extension-apiserver-authentication"]},
        ],
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": name,
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 4443}]},
    });
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io", "labels": labels},
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"name": "metrics-server", "namespace": namespace},
        },
    });
    vec![
        role,
        bound("metrics-server", "metrics-server"),
        bound("metrics-server:delegator", "system:auth-delegator"),
        deployment(&name, &labels),
        service,
        api,
    ]
}

fn deployment(name: &Value, labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": name,
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "metrics-server", "image": METRICS_SERVER.reference,
                        // Kubelets of these clusters sign their own certificates.
                        "args": ["--secure-port=4443", "--cert-dir=/tmp", "--metric-resolution=10s",
                                 "--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP"],
                        "readinessProbe": {
                            "httpGet": {"path": "/readyz", "port": 4443, "scheme": "HTTPS"},
                            "periodSeconds": 1, "failureThreshold": 60,
                        },
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    })
}

//! Where a Gateway runs, by its GatewayParameters: how many proxies there are, and what decides it.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::edge_gateway::EdgeGateway;
use super::kinds::own;
use super::live_traffic::{rolled_out, without_failed_requests};
use crate::test::manifests::{gateway, listener};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

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

/// A Gateway `edge` that serves, with parameters `edge`.
async fn open_with<'a>(scope: &'a Scope, spec: &Value) -> Result<EdgeGateway<'a>> {
    parameters(scope, spec).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    EdgeGateway::open_with(scope, edge, 2).await
}

async fn parameters(scope: &Scope, spec: &Value) -> Result<()> {
    scope.apply(&[own("GatewayParameters", "edge", spec)]).await
}

fn scaled(least: u32, most: u32) -> Value {
    json!({
        "autoscaling": {"minReplicas": least, "maxReplicas": most},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    })
}

async fn replicas(scope: &Scope) -> Result<u64> {
    let edge = scope.object("Deployment", "edge").await?;
    let edge = edge.context("the proxies' Deployment is gone")?;
    edge["spec"]["replicas"]
        .as_u64()
        .context("a number of replicas")
}

async fn has_replicas(scope: &Scope, expected: u64) -> Result<()> {
    let what = format!("the proxies' Deployment to have {expected} replicas");
    scope
        .until(&what, async || {
            Ok((replicas(scope).await? == expected).then_some(()))
        })
        .await
}

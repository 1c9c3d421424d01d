//! Tests that take minutes each: `e2e test --long`. The crate's README has the results.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use kube::api::PostParams;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::ControlPlane;
use super::edge_gateway::{EdgeGateway, HOST};
use super::live_traffic::{
    change_routes, cut_the_network, follows_changes, redundant, rolled_out,
    without_failed_requests, without_the_api_server,
};
use super::proxy::{AUDIENCE, ControllerTunnel, pods, token};
use crate::test::manifests::route;
use crate::test::scope::Scope;
use crate::test::tls::xds_authority;

/// Longest outage of the control plane.
const OUTAGE: Duration = Duration::from_mins(2);

/// Until the next certificate authority signs: it is published ten minutes before.
const ROTATION: Duration = Duration::from_mins(13);

/// Life of the user's authority: so short that the controller would replace one that it generated.
const LIFE: Duration = Duration::from_hours(30 * 24);

/// Routes without a backend.
const BROKEN: usize = 10_000;

/// Longest time that a change may take while their statuses are written.
const NEIGHBOUR: Duration = Duration::from_secs(5);

pub(in crate::test) async fn the_api_server_is_unavailable_for_minutes(
    scope: &Scope,
) -> Result<()> {
    without_the_api_server(scope, OUTAGE).await
}

pub(in crate::test) async fn the_network_is_cut_for_minutes(scope: &Scope) -> Result<()> {
    cut_the_network(scope, OUTAGE).await
}

pub(in crate::test) async fn routes_change_a_thousand_times(scope: &Scope) -> Result<()> {
    change_routes(scope, 1_000).await
}

pub(in crate::test) async fn the_certificate_authority_is_replaced(scope: &Scope) -> Result<()> {
    let site = redundant(scope).await?;
    without_failed_requests(&site, async || {
        let (certificate, key) = xds_authority("of the user", LIFE)?;
        let control_plane = ControlPlane::of(scope);
        control_plane.set_authority(&certificate, &key).await?;
        let door = ControllerTunnel::trusting(scope, &certificate).await?;
        let started = Instant::now();
        loop {
            let pod = pods(scope, "edge").await?.pop().context("a proxy")?;
            let token = token(scope, "edge", AUDIENCE, Some(&pod)).await?;
            let node = format!("{}/edge/{pod}", scope.namespace);
            if door.connect(&token, &node).await.is_ok() {
                break;
            }
            ensure!(
                started.elapsed() < ROTATION,
                "the new authority does not sign"
            );
            sleep(Duration::from_secs(10)).await;
        }
        // New pods know only the authorities that are trusted now.
        scope
            .kubectl(&["rollout", "restart", "deployment/edge"], "")
            .await?;
        rolled_out(scope, "edge").await?;
        follows_changes(&site, "/after").await
    })
    .await
}

pub(in crate::test) async fn ten_thousand_broken_routes_do_not_delay_other_gateways(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let neighbour = scope.another().await?;
    let outcome = async {
        let neighbour = EdgeGateway::open(&neighbour).await?;
        let routes = scope.objects("HTTPRoute")?;
        let mut slowest = Duration::ZERO;
        for number in 0..BROKEN {
            let mut broken = route("HTTPRoute", 80, "missing");
            broken["metadata"]["name"] = json!(format!("broken-{number}"));
            broken["spec"]["hostnames"] = json!([format!("h{number}.example.com")]);
            let broken = serde_json::from_value(broken)?;
            routes.create(&PostParams::default(), &broken).await?;
            if number % 1_000 == 999 {
                let started = Instant::now();
                follows_changes(&neighbour, &format!("/{number}")).await?;
                slowest = slowest.max(started.elapsed());
            }
        }
        ensure!(slowest < NEIGHBOUR, "a neighbour's change took {slowest:?}");
        let last = format!("broken-{}", BROKEN - 1);
        let missing =
            crate::test::objects::expected_condition("ResolvedRefs", "False", "BackendNotFound");
        scope.condition("HTTPRoute", &last, missing).await?;
        site.until(HOST, "/", StatusCode::OK).await.map(drop)
    };
    let outcome = outcome.await;
    neighbour.close().await?;
    outcome
}

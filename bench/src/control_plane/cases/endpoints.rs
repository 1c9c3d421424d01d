//! All endpoints of a Service are replaced at once under load, and the old ones stop soon after:
//! whether a request fails, and when the last one goes to an old endpoint.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::control_plane::context::Context;
use crate::control_plane::meter::Meter;
use crate::control_plane::objects::{address, service, slice};
use crate::control_plane::prober::Prober;
use crate::control_plane::record::{Measured, millis};
use crate::control_plane::serving_gateway::ServingGateway;
use crate::control_plane::traffic::Traffic;
use crate::stats::{count, count64};

/// Endpoints in one EndpointSlice, as Kubernetes makes them.
const ENDPOINTS_PER_SLICE: usize = 100;

/// How long old endpoints keep responding after the last write, like terminating pods.
const GRACE: Duration = Duration::from_secs(2);

/// How long requests are sent before and after.
const LOAD_MARGIN: Duration = Duration::from_secs(5);

const HOST: &str = "many.example.com";

pub(super) async fn run(context: &Context<'_>) -> Result<Measured> {
    let result = replace(context).await;
    context.backend.revive();
    result
}

async fn replace(context: &Context<'_>) -> Result<Measured> {
    let (cluster, backend) = (context.cluster, context.backend);
    let site = ServingGateway::open(context).await?;
    let endpoints = context.sizes.endpoints;
    let state = |state: usize| -> Vec<Ipv4Addr> {
        let first = 1_000 + state * endpoints;
        let numbers = first..first + endpoints;
        numbers.map(|it| address(backend.range, it)).collect()
    };
    let slices = |addresses: &[Ipv4Addr]| -> Vec<Value> {
        let parts = addresses.chunks(ENDPOINTS_PER_SLICE).enumerate();
        let part = |(number, part)| slice(&site.namespace, "many", number, part, backend.port);
        parts.map(part).collect()
    };
    let (old, new) = (state(0), state(1));
    cluster.create(&service(&site.namespace, "many")).await?;
    cluster.create_all(slices(&old)).await?;
    let mut route = site.route("many", HOST, "/");
    route.service = "many";
    cluster.create(&route.object()).await?;
    Prober::new(site.address, None)?
        .until_served(HOST, "/")
        .await?;

    let meter = Meter::start(context).await?;
    let traffic = Traffic::start(site.address, HOST);
    tokio::time::sleep(LOAD_MARGIN).await;
    cluster.patch_all(slices(&new)).await?;
    let replaced = Instant::now();
    tokio::time::sleep(GRACE).await;
    backend.retire(&old);
    tokio::time::sleep(LOAD_MARGIN).await;
    let counts = tokio::task::spawn_blocking(|| traffic.stop()).await??;

    let of_old = old
        .iter()
        .filter_map(|it| counts.last_seen.get(&it.to_string()));
    let last = of_old.max().copied().unwrap_or(replaced);
    let answering = new
        .iter()
        .filter(|it| counts.last_seen.contains_key(&it.to_string()));
    let answering = answering.count();
    ensure!(
        answering > 0,
        "no new endpoint got a request: {:?}",
        counts.errors
    );
    let mut measured = meter.stop().await?;
    measured.errors = counts.errors;
    measured.figure("endpoints", count(endpoints), "");
    measured.figure("requests answered", count64(counts.answered), "");
    measured.figure("errors", measured.error_count(), "");
    let late = millis(last.saturating_duration_since(replaced));
    measured.figure("last answer of an old one after", late, "ms");
    Ok(measured)
}

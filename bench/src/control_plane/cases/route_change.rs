//! Whether a request fails while its route changes every 200 ms: to another port of its Service and back,
//! with and without a header filter.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::control_plane::context::Context;
use crate::control_plane::meter::Meter;
use crate::control_plane::prober::Prober;
use crate::control_plane::record::Measured;
use crate::control_plane::serving_gateway::ServingGateway;
use crate::control_plane::traffic::Traffic;
use crate::stats::{count, count64};

/// Time between two changes of a route.
const PERIOD: Duration = Duration::from_millis(200);

const HOST: &str = "route.example.com";

pub(super) async fn run(context: &Context<'_>) -> Result<Measured> {
    let site = ServingGateway::open(context).await?;
    let route = site.route("route", HOST, "/").object();
    context.cluster.create(&route).await?;
    Prober::new(site.address, None)?
        .until_served(HOST, "/")
        .await?;
    let meter = Meter::start(context).await?;
    let traffic = Traffic::start(site.address, HOST);
    let end = Instant::now() + Duration::from_secs(context.sizes.change_seconds);
    let mut due = tokio::time::interval(PERIOD);
    let mut changes = 0_usize;
    while Instant::now() < end {
        due.tick().await;
        let mut changed = route.clone();
        let rule = &mut changed["spec"]["rules"][0];
        if changes.is_multiple_of(2) {
            rule["backendRefs"][0]["port"] = json!(8080);
            let add = json!({"add": [{"name": "x-changed", "value": "yes"}]});
            rule["filters"] =
                json!([{"type": "ResponseHeaderModifier", "responseHeaderModifier": add}]);
        }
        context.cluster.patch(&changed).await?;
        changes += 1;
    }
    let counts = tokio::task::spawn_blocking(|| traffic.stop()).await??;
    let mut measured = meter.stop().await?;
    measured.errors = counts.errors;
    measured.figure("changes", count(changes), "");
    measured.figure("requests answered", count64(counts.answered), "");
    measured.figure("errors", measured.error_count(), "");
    Ok(measured)
}

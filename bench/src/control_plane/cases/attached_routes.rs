//! Whether `attachedRoutes` of a Gateway's listener follows the creation and deletion of routes,
//! and in how many writes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::control_plane::cluster::{Cluster, Followed};
use crate::control_plane::context::Context;
use crate::control_plane::meter::Meter;
use crate::control_plane::record::Measured;
use crate::control_plane::serving_gateway::ServingGateway;
use crate::stats::count;

/// How long the number may take to be right.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Time after the number is right, to see whether it stays right.
const OBSERVED_AFTER: Duration = Duration::from_secs(5);

/// The number, whenever the Gateway was written.
type Samples = Rc<RefCell<Vec<(Instant, usize)>>>;

pub(super) async fn run(context: &Context<'_>) -> Result<Measured> {
    let site = ServingGateway::open(context).await?;
    let samples = Samples::default();
    let _watch = follow(context.cluster, &site, Rc::clone(&samples));
    until(context.cluster, &samples, 0).await?;
    samples.borrow_mut().clear();
    let meter = Meter::start(context).await?;
    let routes = site.routes(context.sizes.attached);

    context.cluster.create_all(routes.clone()).await?;
    let created = Instant::now();
    let right = until(context.cluster, &samples, routes.len()).await?;
    tokio::time::sleep(OBSERVED_AFTER).await;
    context.cluster.delete_all(routes).await?;
    let deleted = Instant::now();
    let gone = until(context.cluster, &samples, 0).await?;
    tokio::time::sleep(OBSERVED_AFTER).await;

    let at: Vec<_> = samples.borrow().clone();
    let coming: Vec<_> = at.iter().filter(|(it, _)| *it <= right).copied().collect();
    let attached = at.iter().map(|(time, it)| (meter.at(*time), count(*it)));
    let attached = attached.collect();
    let mut measured = meter.stop().await?;
    let after = |end: Instant, begin| end.saturating_duration_since(begin).as_secs_f64();
    measured.figure(
        "right after the last was created",
        after(right, created),
        "s",
    );
    measured.figure("zero after the last was deleted", after(gone, deleted), "s");
    measured.figure("writes of the Gateway", count(at.len()), "");
    measured.figure(
        "writes of it per second while routes come",
        rate(&coming),
        "",
    );
    let wrong = at.last().map_or(0, |(_, last)| *last);
    measured.figure("routes attached in the end", count(wrong), "");
    measured.attached = attached;
    Ok(measured)
}

/// Each event is one write: a watch leaves none out.
fn follow(cluster: &Cluster, site: &ServingGateway, samples: Samples) -> Followed {
    let gateways = cluster.api(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        Some(&site.namespace),
    );
    Cluster::follow(gateways, move |gateway| {
        let attached = gateway.data["status"]["listeners"][0]["attachedRoutes"].as_u64();
        if let Some(attached) = attached.and_then(|it| usize::try_from(it).ok()) {
            samples.borrow_mut().push((Instant::now(), attached));
        }
    })
}

/// Waits until the number is this, and returns when it became so.
async fn until(cluster: &Cluster, samples: &Samples, wanted: usize) -> Result<Instant> {
    let what = format!("attachedRoutes to be {wanted}");
    cluster
        .until(&what, TIMEOUT, async || {
            let samples = samples.borrow();
            let right = samples.iter().rev().take_while(|(_, it)| *it == wanted);
            Ok(right.last().map(|(time, _)| *time))
        })
        .await
}

/// Writes per second from the first to the last.
fn rate(samples: &[(Instant, usize)]) -> f64 {
    let (Some((first, _)), Some((last, _))) = (samples.first(), samples.last()) else {
        return 0.0;
    };
    let seconds = last.saturating_duration_since(*first).as_secs_f64();
    count(samples.len() - 1) / seconds.max(1.0)
}

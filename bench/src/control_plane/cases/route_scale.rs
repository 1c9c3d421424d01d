//! Many routes, each with a Service of its own: the cost of adding and of keeping them, and how
//! long one more route takes, idle and while some of them change.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::Done;
use super::probe::probe;
use super::settled::settled;
use crate::control_plane::churn;
use crate::control_plane::cluster::Cluster;
use crate::control_plane::context::Context;
use crate::control_plane::fleet::Fleet;
use crate::control_plane::meter::Meter;
use crate::control_plane::prober::Prober;
use crate::control_plane::record::Measured;
use crate::control_plane::serving_gateway::ServingGateway;
use crate::stats::count;

/// How long all routes may take to be accepted.
const TIMEOUT: Duration = Duration::from_mins(20);

/// Time without changes, to measure its cost.
const IDLE_PHASE: Duration = Duration::from_secs(30);

pub(super) async fn run(context: &Context<'_>, done: &mut Done) -> Result<()> {
    let site = ServingGateway::open(context).await?;
    let fleet = Fleet::plan(context, &site).await?;
    done.push((
        "route-scale".to_owned(),
        take_up(context, &site, &fleet).await?,
    ));

    let meter = Meter::start(context).await?;
    let probed = probe(context, &site, &meter, context.sizes.probes_at_scale).await?;
    let mut measured = meter.stop().await?;
    probed.add_to(&mut measured);
    done.push(("probe-at-scale".to_owned(), measured));

    let under_churn = context.cluster.namespace("bench").await?;
    let site = ServingGateway {
        namespace: under_churn,
        ..site
    };
    site.add_service(context).await?;
    let meter = Meter::start(context).await?;
    let probes = probe(context, &site, &meter, context.sizes.probes_at_scale);
    let churn = churn::during(context.cluster, &fleet, context.sizes.churn, probes);
    let (probed, changes) = churn.await?;
    let mut measured = meter.stop().await?;
    probed.add_to(&mut measured);
    let rate = f64::from(changes) / measured.seconds;
    measured.figure("other changes per second", rate, "");
    done.push(("probe-under-churn".to_owned(), measured));
    Ok(())
}

async fn take_up(context: &Context<'_>, site: &ServingGateway, fleet: &Fleet) -> Result<Measured> {
    let cluster = context.cluster;
    let accepted = Rc::new(RefCell::new((HashSet::new(), Instant::now())));
    let by_watch = Rc::clone(&accepted);
    let routes = cluster.api("gateway.networking.k8s.io/v1", "HTTPRoute", None);
    let watch = Cluster::follow(routes, move |route| {
        if is_accepted(&route) {
            let mut accepted = by_watch.borrow_mut();
            if accepted.0.insert((route.namespace(), route.name_any())) {
                accepted.1 = Instant::now();
            }
        }
    });
    let meter = Meter::start(context).await?;
    cluster.create_all(fleet.objects()).await?;
    let created = Instant::now();
    let last = Fleet::host(fleet.len() - 1);
    let prober = Prober::new(site.address, None)?;
    let (_, outcome) = prober.until_served(&last, "/state-0").await?;
    cluster
        .until("all routes to be accepted", TIMEOUT, async || {
            Ok((accepted.borrow().0.len() >= fleet.len()).then_some(()))
        })
        .await?;
    let all = accepted.borrow().1;
    drop(watch);
    settled(context).await?;
    let mut measured = meter.stop().await?;
    measured.figure("routes", count(fleet.len()), "");
    let mut after = |name: &str, time: Instant| {
        let seconds = time.saturating_duration_since(created).as_secs_f64();
        measured.figure(name, seconds, "s");
    };
    after("last one serves after its creation", outcome.served);
    after("all are Accepted after the last's creation", all);
    at_rest(context, &mut measured).await?;
    Ok(measured)
}

/// The cost while nothing changes, and the memory at the end of that.
pub(super) async fn at_rest(context: &Context<'_>, measured: &mut Measured) -> Result<()> {
    let meter = Meter::start(context).await?;
    tokio::time::sleep(IDLE_PHASE).await;
    let rest = meter.stop().await?;
    let megabytes = |bytes: f64| bytes / 1e6;
    let share = |cpu: f64| cpu / rest.seconds * 100.0;
    measured.figure("controller at rest", share(rest.controller.cpu), "% CPU");
    measured.figure("proxy at rest", share(rest.proxies.cpu), "% CPU");
    measured.figure("controller", megabytes(rest.controller.rss[1]), "MB");
    measured.figure("proxy", megabytes(rest.proxies.rss[1]), "MB");
    let grown = rest.proxies.rss[1] - measured.proxies.rss[0];
    measured.figure("proxy above empty", megabytes(grown), "MB");
    Ok(())
}

fn is_accepted(route: &DynamicObject) -> bool {
    let conditions = route.data["status"]["parents"][0]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Accepted" && condition["status"] == "True")
}

//! How long a new route takes to serve: routes are created one after the other, and each is
//! requested every millisecond from before its write until the status is 200. Until then only 404
//! is allowed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Result;
use kube::ResourceExt as _;

use crate::control_plane::cluster::Cluster;
use crate::control_plane::context::Context;
use crate::control_plane::meter::Meter;
use crate::control_plane::prober::Prober;
use crate::control_plane::record::{Measured, Propagation, millis, quantile};
use crate::control_plane::serving_gateway::ServingGateway;
use crate::stats::count;

pub(super) async fn run(context: &Context<'_>) -> Result<Measured> {
    let site = ServingGateway::open(context).await?;
    let meter = Meter::start(context).await?;
    let probed = probe(context, &site, &meter, context.sizes.probes).await?;
    let mut measured = meter.stop().await?;
    probed.add_to(&mut measured);
    Ok(measured)
}

/// Results of some probes.
#[derive(Default)]
pub(super) struct Probed {
    measured: Measured,
    /// Milliseconds that each write took.
    writes: Vec<f64>,
    /// Milliseconds from each response to the event of a watch: the lower bound of every
    /// implementation.
    floor: Vec<f64>,
    /// Milliseconds from the event of a watch to the first response: the share of the implementation.
    after_event: Vec<f64>,
    /// The longest delay of a request of each route.
    late: Vec<f64>,
}

/// Probes this many routes, which are kept.
pub(super) async fn probe(
    context: &Context<'_>,
    site: &ServingGateway,
    meter: &Meter<'_>,
    routes: usize,
) -> Result<Probed> {
    let seen = Rc::new(RefCell::new(HashMap::new()));
    let by_watch = Rc::clone(&seen);
    let api = context.cluster.api(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        Some(&site.namespace),
    );
    let _watch = Cluster::follow(api, move |route| {
        let mut seen = by_watch.borrow_mut();
        seen.entry(route.name_any()).or_insert_with(Instant::now);
    });
    let mut probed = Probed::default();
    let mut answered = Vec::with_capacity(routes);
    let mut prober = Prober::new(site.address, None)?;
    for number in 0..routes {
        let name = format!("probe-{number}");
        // Another one in each namespace, which has not served before.
        let host = format!("{name}.{}.example.com", site.namespace);
        let path = format!("/{number}");
        let route = site.route(&name, &host, &path).with_broken_rest();
        let asking = prober.ask(host, path);
        let started = Instant::now();
        context.cluster.create(&route).await?;
        let written = Instant::now();
        let (same, outcome) = asking.end().await?;
        prober = same;
        probed.writes.push(millis(written - started));
        probed.late.push(millis(outcome.late));
        probed.measured.changes.push(Propagation {
            at: meter.at(written),
            took: millis(outcome.served.saturating_duration_since(written)),
        });
        for (error, times) in outcome.errors {
            *probed.measured.errors.entry(error).or_insert(0) += times;
        }
        answered.push((name, written));
    }
    let seen = seen.borrow();
    for ((name, written), change) in answered.iter().zip(&probed.measured.changes) {
        if let Some(event) = seen.get(name) {
            let floor = millis(event.saturating_duration_since(*written));
            probed.floor.push(floor);
            probed.after_event.push((change.took - floor).max(0.0));
        }
    }
    Ok(probed)
}

impl Probed {
    /// Adds the results to the cost.
    pub(super) fn add_to(self, measured: &mut Measured) {
        measured.changes = self.measured.changes;
        measured.errors = self.measured.errors;
        measured.figure_changes();
        measured.figure("errors", measured.error_count(), "");
        // Unlike times, these hardly depend on other load of the machine.
        let thousands = count(measured.changes.len()) / 1e3;
        let of_controller = measured.controller.cpu / thousands;
        measured.figure("CPU of the controller per route", of_controller, "ms");
        let of_proxies = measured.proxies.cpu / thousands;
        measured.figure("CPU of the proxies per route", of_proxies, "ms");
        for (name, mut values) in [
            ("watch event", self.floor),
            ("served after the watch event", self.after_event),
            ("write", self.writes),
            ("prober late by", self.late),
        ] {
            values.sort_by(f64::total_cmp);
            measured.figure(&format!("{name}, p50"), quantile(&values, 0.5), "ms");
            measured.figure(&format!("{name}, p99"), quantile(&values, 0.99), "ms");
        }
    }
}

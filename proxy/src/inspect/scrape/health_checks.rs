//! Health checks of endpoints, and requests to those of other zones.

use admin::metrics::{Exposition, Labels};

use super::Scrape;
use crate::config::ClusterHealthCheck;

impl Scrape<'_> {
    pub(super) fn health_checks(&self, out: &mut Exposition) {
        let checked = self.snapshot.checked_clusters().filter_map(|cluster| {
            let labels = Labels::none().with("backend", &cluster.name);
            Some((labels, cluster.health_check.as_deref()?))
        });
        let checked: Vec<(Labels, &ClusterHealthCheck)> = checked.collect();
        let mut family = out.counter("health_checks", "Probes of endpoints, by result.");
        for (labels, check) in &checked {
            family.number(&labels.with("result", "success"), check.counts.succeeded());
            family.number(&labels.with("result", "failure"), check.counts.failed());
        }
        let help = "Endpoints whose health check fails.";
        let mut family = out.gauge("health_check_unhealthy", help);
        for (labels, check) in &checked {
            family.number(labels, check.endpoints.unhealthy() as u64);
        }
        let help = "Whether health checks are ignored, because too many fail.";
        let mut family = out.gauge("health_check_ignored", help);
        for (labels, check) in &checked {
            family.number(labels, check.endpoints.panics().into());
        }
        let help = "Time between two probes of an endpoint.";
        let mut family = out.gauge("health_check_interval_seconds", help);
        for (labels, check) in &checked {
            let interval = check.counts.stretched().unwrap_or(check.check.interval);
            family.fraction(labels, interval.as_secs_f64());
        }
    }

    pub(super) fn zones(&self, out: &mut Exposition) {
        let help = "Requests, connections and sessions of datagrams to endpoints in other zones.";
        let mut family = out.counter("cross_zone_requests", help);
        for (_, cluster) in self.snapshot.clusters.entries() {
            if let Some(locality) = cluster.set.locality() {
                let labels = Labels::none().with("backend", &cluster.name);
                family.number(&labels, locality.crossed());
            }
        }
    }
}

//! Metrics of translation.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use xds::model::Kind;

use crate::metrics::Metrics;

#[derive(Debug)]
pub(super) struct Measures {
    batches: Counter,
    events: Counter,
    translate: Histogram,
    publish: Histogram,
    lag: Histogram,
    resources: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Measures {
    pub(super) fn register(metrics: &Metrics) -> Self {
        // From 0.1 ms to 3 s.
        let seconds = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        let own = Self {
            batches: Counter::default(),
            events: Counter::default(),
            translate: seconds(),
            publish: seconds(),
            lag: seconds(),
            resources: Family::default(),
        };
        metrics.register(|registry| {
            let help = "Batches of changes that were translated";
            registry.register("batches", help, own.batches.clone());
            let help = "Changes in these batches";
            registry.register("batch_events", help, own.events.clone());
            let help = "Time to translate a batch";
            registry.register("translate_seconds", help, own.translate.clone());
            let help = "Time to encode and publish the changes of a batch";
            registry.register("publish_seconds", help, own.publish.clone());
            let help = "Time from receiving a change to publishing its results";
            registry.register("watch_lag_seconds", help, own.lag.clone());
            let help = "Versions of resources that were prepared or published, and removals";
            registry.register("published_resources", help, own.resources.clone());
        });
        own
    }

    pub(super) fn record_pass(&self, events: usize, translate: Duration, publish: Duration) {
        self.batches.inc();
        self.events.inc_by(events as u64);
        self.translate.observe(translate.as_secs_f64());
        self.publish.observe(publish.as_secs_f64());
    }

    pub(super) fn lag(&self, lag: Duration) {
        self.lag.observe(lag.as_secs_f64());
    }

    pub(super) fn resource(&self, kind: Kind) {
        self.resources
            .get_or_create(&[("type", kind.as_str())])
            .inc();
    }
}

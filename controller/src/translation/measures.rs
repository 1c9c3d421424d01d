//! Metrics of translation.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use translate::budgets::Budget;
use translate::{BudgetUse, Series};
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
    used: Family<BudgetLabels, Gauge<f64, AtomicU64>>,
    refused: Family<BudgetLabels, Gauge>,
    services_in_part: Gauge,
    panics: Counter,
}

/// A budget, and the Gateway if it is a Gateway's.
type BudgetLabels = [(&'static str, String); 2];

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
            used: Family::default(),
            refused: Family::default(),
            services_in_part: Gauge::default(),
            panics: Counter::default(),
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
            let help = "Share of a budget that is used by a Gateway, or by the largest object if that uses half";
            registry.register("budget_used_ratio", help, own.used.clone());
            let help = "Objects that are refused because they exceed a budget";
            registry.register("budget_refused_objects", help, own.refused.clone());
            let help = "Services some of whose endpoints are not used: no proxy may, or they are too many";
            registry.register("services_with_refused_endpoints", help, own.services_in_part.clone());
            let help = "Panics of the translation of single objects, which affect no others";
            registry.register("translation_panics", help, own.panics.clone());
        });
        for budget in Budget::ALL {
            own.budget(&(budget, None), Some(BudgetUse::default()));
        }
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

    /// Sets what is used of a budget. The series of a Gateway ends with it.
    pub(super) fn budget(&self, (budget, gateway): &Series, used: Option<BudgetUse>) {
        let of_gateway = gateway.as_ref().map(ToString::to_string);
        let is_gone = used.is_none() && of_gateway.is_some();
        let labels = [
            ("budget", budget.to_string()),
            ("gateway", of_gateway.unwrap_or_default()),
        ];
        if is_gone {
            self.used.remove(&labels);
            self.refused.remove(&labels);
            return;
        }
        let BudgetUse { share, refused } = used.unwrap_or_default();
        self.used.get_or_create(&labels).set(share);
        let refused = i64::try_from(refused).unwrap_or(i64::MAX);
        self.refused.get_or_create(&labels).set(refused);
    }

    pub(super) fn panicked(&self, units: usize) {
        self.panics.inc_by(units as u64);
    }

    pub(super) fn services_in_part(&self, services: usize) {
        let services = i64::try_from(services).unwrap_or(i64::MAX);
        self.services_in_part.set(services);
    }

    pub(super) fn resource(&self, kind: Kind) {
        self.resources
            .get_or_create(&[("type", kind.as_str())])
            .inc();
    }
}

#[cfg(test)]
mod tests {
    use xds::model::ObjectName;

    use super::*;

    #[test]
    fn what_is_used_of_a_budget_is_a_metric() {
        let metrics = Metrics::default();
        let measures = Measures::register(&metrics);
        let line = |metric: &str, gateway: &str, value: &str| {
            let labels = format!("budget=\"route_rules\",gateway=\"{gateway}\"");
            format!("gateway_controller_budget_{metric}{{{labels}}} {value}\n")
        };
        let text = metrics.text();
        assert!(text.contains(&line("used_ratio", "", "0.0")), "{text}");
        let used = BudgetUse {
            share: 1.25,
            refused: 3,
        };
        let series = (Budget::RouteRules, Some(ObjectName::new("infra", "edge")));
        measures.budget(&series, Some(used));
        let text = metrics.text();
        assert!(
            text.contains(&line("used_ratio", "infra/edge", "1.25")),
            "{text}"
        );
        assert!(
            text.contains(&line("refused_objects", "infra/edge", "3")),
            "{text}"
        );
        measures.budget(&series, None);
        assert!(!metrics.text().contains("infra/edge"));
    }
}

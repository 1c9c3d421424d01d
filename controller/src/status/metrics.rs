//! Metrics of the status writer.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;
use crate::queue::Outcome;

/// Metrics of the status writer. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct StatusMetrics {
    writes: Family<Labels, Counter>,
    backlog: Gauge,
    missing_targets: Gauge,
    unavailable: Gauge,
    events_dropped: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

impl StatusMetrics {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let new = Self::default();
        // From 0: `rate()` would miss the first event of a series that begins with it.
        for result in RESULTS {
            drop(new.writes.get_or_create(&Labels { result }));
        }
        metrics.register(|registry| {
            registry.register(
                "status_writes",
                "Status writes by result: written, conflict, throttled, unavailable, failed or refused",
                new.writes.clone(),
            );
            registry.register(
                "status_backlog",
                "Objects whose status waits to be compared or is being written",
                new.backlog.clone(),
            );
            registry.register(
                "policies_with_missing_targets",
                "Policies with a target that does not exist, as a whole or in the part that they name: what \
                 they should protect may be open. 0 on replicas that are not the leader",
                new.missing_targets.clone(),
            );
            registry.register(
                "policies_with_unavailable_dependencies",
                "Policies that name something which proxies cannot reach, such as a JWKS: their requests may be \
                 rejected. 0 on replicas that are not the leader",
                new.unavailable.clone(),
            );
            registry.register(
                "events_dropped",
                "Kubernetes Events that could not be written: the API server did not take them in time, or the object \
                 is gone. Conditions have the same text",
                new.events_dropped.clone(),
            );
        });
        new
    }

    pub(super) fn count(&self, outcome: Outcome) {
        let [written, conflict, throttled, unavailable, failed, refused] = RESULTS;
        let result = match outcome {
            Outcome::Unchanged | Outcome::Unfinished => return,
            Outcome::Written(_) => written,
            Outcome::Conflict { .. } => conflict,
            Outcome::Throttled(_) => throttled,
            Outcome::Unavailable => unavailable,
            Outcome::Failed => failed,
            Outcome::Refused => refused,
        };
        self.writes.get_or_create(&Labels { result }).inc();
    }

    pub(super) fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    pub(super) fn set_missing_targets(&self, policies: usize) {
        self.missing_targets
            .set(i64::try_from(policies).unwrap_or(i64::MAX));
    }

    pub(super) fn set_unavailable(&self, policies: usize) {
        self.unavailable
            .set(i64::try_from(policies).unwrap_or(i64::MAX));
    }

    pub(super) fn set_backlog(&self, backlog: usize) {
        self.backlog.set(i64::try_from(backlog).unwrap_or(i64::MAX));
    }
}

/// Results of writes.
const RESULTS: [&str; 6] = [
    "written",
    "conflict",
    "throttled",
    "unavailable",
    "failed",
    "refused",
];

#[cfg(test)]
mod tests {
    use super::{RESULTS, StatusMetrics};
    use crate::metrics::Metrics;
    use crate::queue::Outcome;

    #[test]
    fn counters_of_all_results_begin_with_zero() {
        let metrics = Metrics::default();
        let measures = StatusMetrics::new(&metrics);
        let line = |result: &str, count: u64| {
            format!("gateway_controller_status_writes_total{{result=\"{result}\"}} {count}\n")
        };
        let text = metrics.text();
        for result in RESULTS {
            assert!(text.contains(&line(result, 0)), "{text}");
        }
        measures.count(Outcome::Refused);
        measures.count(Outcome::Unchanged);
        let text = metrics.text();
        assert!(text.contains(&line("refused", 1)), "{text}");
        assert!(text.contains(&line("written", 0)), "{text}");
    }
}

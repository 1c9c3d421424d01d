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
        metrics.register(|registry| {
            registry.register(
                "status_writes",
                "Status writes by result: written, conflict, throttled, unavailable or refused",
                new.writes.clone(),
            );
            registry.register(
                "status_backlog",
                "Objects whose status waits to be compared or is being written",
                new.backlog.clone(),
            );
        });
        new
    }

    pub(super) fn count(&self, outcome: Outcome) {
        let result = match outcome {
            Outcome::Unchanged => return,
            Outcome::Written(_) => "written",
            Outcome::Conflict { .. } => "conflict",
            Outcome::Throttled(_) => "throttled",
            Outcome::Unavailable => "unavailable",
            Outcome::Refused => "refused",
        };
        self.writes.get_or_create(&Labels { result }).inc();
    }

    pub(super) fn set_backlog(&self, backlog: usize) {
        self.backlog.set(i64::try_from(backlog).unwrap_or(i64::MAX));
    }
}

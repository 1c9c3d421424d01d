//! Metrics of the queues: objects that fail, and panics.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;

/// Metrics of the queues of all writers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct QueueMeasures {
    failing: Family<WriterLabel, Gauge>,
    panics: Family<WriterLabel, Counter>,
}

/// Metrics of one writer's queue.
#[derive(Debug, Clone)]
pub(crate) struct WriterMeasures {
    failing: Gauge,
    panics: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriterLabel {
    writer: &'static str,
}

impl QueueMeasures {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let new = Self::default();
        metrics.register(|registry| {
            registry.register(
                "writes_failing",
                "Objects whose last write failed and is tried again, by writer: status or deployer",
                new.failing.clone(),
            );
            registry.register(
                "write_panics",
                "Panics while an object was written, each of which is a defect of the controller, by \
                 writer: status or deployer",
                new.panics.clone(),
            );
        });
        new
    }

    /// The metrics of a writer, from 0.
    pub(crate) fn of(&self, writer: &'static str) -> WriterMeasures {
        let label = WriterLabel { writer };
        WriterMeasures {
            failing: self.failing.get_or_create(&label).clone(),
            panics: self.panics.get_or_create(&label).clone(),
        }
    }
}

impl WriterMeasures {
    pub(crate) fn set_failing(&self, count: usize) {
        self.failing.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn panicked(&self) {
        self.panics.inc();
    }
}

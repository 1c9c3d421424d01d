//! Metrics of the watches.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;

type ByKind = [(&'static str, &'static str); 1];
type ByKindAndReason = [(&'static str, &'static str); 2];

/// Metrics of the watches. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Measures {
    events: Family<ByKind, Counter>,
    lists: Family<ByKind, Counter>,
    objects: Family<ByKind, Gauge>,
    invalid: Family<ByKind, Gauge>,
    errors: Family<ByKindAndReason, Counter>,
}

impl Measures {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("watch");
            let help = "Object changes received";
            registry.register("events", help, own.events.clone());
            let help = "Lists of all objects of a kind that were completed";
            registry.register("lists", help, own.lists.clone());
            let help = "Objects in the selected namespaces";
            registry.register("objects", help, own.objects.clone());
            let help = "Objects that are refused because they are invalid";
            registry.register("invalid_objects", help, own.invalid.clone());
            let help = "Failed lists and watches";
            registry.register("errors", help, own.errors.clone());
        });
        own
    }

    pub(super) fn event(&self, kind: &'static str) {
        self.events.get_or_create(&[("kind", kind)]).inc();
    }

    pub(super) fn list(&self, kind: &'static str) {
        self.lists.get_or_create(&[("kind", kind)]).inc();
    }

    pub(super) fn objects(&self, kind: &'static str, objects: usize, invalid: usize) {
        let labels = [("kind", kind)];
        let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
        self.objects.get_or_create(&labels).set(count(objects));
        self.invalid.get_or_create(&labels).set(count(invalid));
    }

    pub(super) fn error(&self, kind: &'static str, reason: &'static str) {
        let labels = [("kind", kind), ("reason", reason)];
        self.errors.get_or_create(&labels).inc();
    }
}

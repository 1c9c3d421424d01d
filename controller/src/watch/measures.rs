//! Metrics of the watches.

use std::ops::Deref;

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
    /// Registers them for these kinds. Counters begin with 0: `rate()` would miss the first event of a
    /// series that begins with it.
    pub(super) fn register(metrics: &Metrics, kinds: impl Iterator<Item = &'static str>) -> Self {
        let own = Self::default();
        kinds.for_each(|kind| own.begin(kind));
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

    fn begin(&self, kind: &'static str) {
        drop(self.events.get_or_create(&[("kind", kind)]));
        drop(self.lists.get_or_create(&[("kind", kind)]));
        for reason in REASONS {
            drop(self.errors_of(kind, reason));
        }
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

    /// Counts a failed list or watch, by the status code of the response if there was one.
    pub(super) fn error(&self, kind: &'static str, code: Option<u16>) {
        self.errors_of(kind, reason(code)).inc();
    }

    fn errors_of(&self, kind: &'static str, reason: &'static str) -> impl Deref<Target = Counter> {
        self.errors
            .get_or_create(&[("kind", kind), ("reason", reason)])
    }
}

/// Why lists and watches fail.
const REASONS: [&str; 6] = [
    "forbidden",
    "not_found",
    "gone",
    "throttled",
    "api",
    "connection",
];

fn reason(code: Option<u16>) -> &'static str {
    let [forbidden, not_found, gone, throttled, api, connection] = REASONS;
    match code {
        Some(403) => forbidden,
        Some(404) => not_found,
        Some(410) => gone,
        Some(429) => throttled,
        Some(_) => api,
        None => connection,
    }
}

#[cfg(test)]
mod tests {
    use super::{Measures, REASONS};
    use crate::metrics::Metrics;

    fn errors(kind: &str, reason: &str, count: u64) -> String {
        let name = "gateway_controller_watch_errors_total";
        format!("{name}{{kind=\"{kind}\",reason=\"{reason}\"}} {count}\n")
    }

    #[test]
    fn counters_of_all_kinds_begin_with_zero() {
        let metrics = Metrics::default();
        let measures = Measures::register(&metrics, ["Secret", "Service"].into_iter());
        let text = metrics.text();
        for kind in ["Secret", "Service"] {
            for reason in REASONS {
                assert!(text.contains(&errors(kind, reason, 0)), "{text}");
            }
            let events = format!("gateway_controller_watch_events_total{{kind=\"{kind}\"}} 0\n");
            assert!(text.contains(&events), "{text}");
        }
        measures.error("Secret", Some(403));
        measures.error("Secret", None);
        let text = metrics.text();
        assert!(text.contains(&errors("Secret", "forbidden", 1)), "{text}");
        assert!(text.contains(&errors("Secret", "connection", 1)), "{text}");
    }
}

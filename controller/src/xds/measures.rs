//! Metrics of the xDS server.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use xds::model::Kind;
use xds_grpc::server::Event;

use crate::metrics::Metrics;

pub(super) struct Measures {
    connected: Gauge,
    connections: Counter,
    responses: ByType,
    bytes: ByType,
    refused: ByType,
    too_large: Counter,
    outdated: Counter,
    acknowledgement: Histogram,
}

type ByType = Family<[(&'static str, &'static str); 1], Counter>;

impl Measures {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let own = Self {
            connected: Gauge::default(),
            connections: Counter::default(),
            responses: Family::default(),
            bytes: Family::default(),
            refused: Family::default(),
            too_large: Counter::default(),
            outdated: Counter::default(),
            // From 1 ms to 32 s.
            acknowledgement: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        };
        // From 0: `rate()` would miss the first event of a series that begins with it.
        for counters in [&own.responses, &own.bytes, &own.refused] {
            for kind in Kind::ALL {
                count(counters, kind, 0);
            }
        }
        metrics.register(|registry| {
            let help = "Streams of proxies";
            registry.register("xds_connected_proxies", help, own.connected.clone());
            let help = "Streams opened by proxies";
            registry.register("xds_streams", help, own.connections.clone());
            let help = "Responses passed to connections";
            registry.register("xds_responses", help, own.responses.clone());
            let help = "Bytes of these responses";
            registry.register("xds_response_bytes", help, own.bytes.clone());
            let help = "Resources rejected by proxies";
            registry.register("xds_refused_resources", help, own.refused.clone());
            let help = "Streams that ended because requests of the proxy were too large";
            registry.register("xds_too_large_requests", help, own.too_large.clone());
            let help = "Streams that ended because a Gateway has too many rules for its proxies, which are of the \
                        release before";
            registry.register("xds_outdated_proxies", help, own.outdated.clone());
            let help = "Time from starting to send a batch to each acknowledgement of a proxy";
            let measure = own.acknowledgement.clone();
            registry.register("xds_acknowledgement_seconds", help, measure);
        });
        own
    }

    /// A stream ended because its requests are too large.
    pub(super) fn too_large(&self) {
        self.too_large.inc();
    }

    /// A stream ended because its proxy is too old for its Gateway.
    pub(super) fn outdated(&self) {
        self.outdated.inc();
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Connected => {
                self.connected.inc();
                self.connections.inc();
            }
            Event::Disconnected { .. } => {
                self.connected.dec();
            }
            Event::Sent { kind, bytes } => {
                count(&self.responses, *kind, 1);
                count(&self.bytes, *kind, *bytes);
            }
            // The status writer counts the objects that they are about.
            Event::Symptoms => {}
            Event::Accepted { after } => self.acknowledgement.observe(after.as_secs_f64()),
            Event::Refused { refusals, after } => {
                self.acknowledgement.observe(after.as_secs_f64());
                for refusal in *refusals {
                    count(&self.refused, refusal.key.kind, 1);
                }
            }
        }
    }
}

fn count(counters: &ByType, kind: Kind, count: usize) {
    let counter = counters.get_or_create(&[("type", kind.as_str())]);
    counter.inc_by(count as u64);
}

#[cfg(test)]
mod tests {
    use xds::model::Kind;

    use super::Measures;
    use crate::metrics::Metrics;

    #[test]
    fn counters_of_all_types_begin_with_zero() {
        let metrics = Metrics::default();
        drop(Measures::register(&metrics));
        let text = metrics.text();
        for name in ["too_large_requests", "outdated_proxies"] {
            let line = format!("gateway_controller_xds_{name}_total 0\n");
            assert!(text.contains(&line), "{line}: {text}");
        }
        for name in ["responses", "response_bytes", "refused_resources"] {
            for kind in Kind::ALL.map(Kind::as_str) {
                let line = format!("gateway_controller_xds_{name}_total{{type=\"{kind}\"}} 0\n");
                assert!(text.contains(&line), "{line}: {text}");
            }
        }
    }
}

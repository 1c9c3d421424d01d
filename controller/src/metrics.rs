//! The metrics registry and its text format.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::leadership::Leadership;
use crate::outputs::Outputs;

/// The metrics registry. Clones share it.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::with_prefix("gateway_controller");
        Self(Arc::new(Mutex::new(registry)))
    }
}

impl Metrics {
    /// The `content-type` that [`Metrics::text`] is served with.
    pub const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Registers the leadership gauge.
    pub fn register_leader(&self, leadership: Leadership) {
        self.register(|registry| {
            registry.register_collector(Box::new(Leader(leadership)));
        });
    }

    /// Registers the gauges of classes that other installations serve, and of those that cannot be claimed.
    pub fn register_claims(&self, outputs: Arc<Outputs>) {
        let unclaimed = UnclaimedClasses(Arc::clone(&outputs));
        self.register(|registry| {
            registry.register_collector(Box::new(unclaimed));
            registry.register_collector(Box::new(ForeignClasses(outputs)));
        });
    }

    /// Registers metrics. The prefix `gateway_controller_` and the suffix `_total` of counters are
    /// added.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to a String cannot fail.
            Err(std::fmt::Error) => String::new(),
        }
    }
}

/// 1 on the leader.
#[derive(Debug)]
struct Leader(Leadership);

impl Collector for Leader {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let gauge = ConstGauge::new(i64::from(self.0.is_leader()));
        let help = "1 on the replica that is the leader";
        let encoder = encoder.encode_descriptor("leader", help, None, MetricType::Gauge)?;
        gauge.encode(encoder)
    }
}

/// The number of classes whose claim cannot be written.
#[derive(Debug)]
struct UnclaimedClasses(Arc<Outputs>);

impl Collector for UnclaimedClasses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let count = self.0.claims.unclaimed_count();
        let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
        let help =
            "GatewayClasses whose claim cannot be written, so that nothing of them is deployed";
        let encoder =
            encoder.encode_descriptor("unclaimed_classes", help, None, MetricType::Gauge)?;
        gauge.encode(encoder)
    }
}

/// The number of classes with this controller's name that another installation serves.
#[derive(Debug)]
struct ForeignClasses(Arc<Outputs>);

impl Collector for ForeignClasses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let count = self.0.claims.foreign_count();
        let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
        let help =
            "GatewayClasses with the name of this controller that another installation serves";
        let encoder = encoder.encode_descriptor(
            "classes_of_other_installations",
            help,
            None,
            MetricType::Gauge,
        )?;
        gauge.encode(encoder)
    }
}

//! Latencies: HDR histograms, and the few quantiles that are kept of them.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::stats::count64;

/// Quantiles of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// The starting point of the latencies.
    pub(crate) basis: LatencyBasis,
    /// Quantile and microseconds, ascending.
    pub(crate) curve: Vec<(f64, f64)>,
}

/// The starting point of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LatencyBasis {
    /// From the moment the request was due at its fixed rate: a stall counts for every request it
    /// delays.
    Corrected,
    /// From the moment it was sent, the next one waiting for it: comparable between proxies only
    /// at the same throughput.
    ClosedLoop,
}

/// The quantiles that are kept.
pub(crate) const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0];

impl Latency {
    /// Microseconds at one of [`QUANTILES`].
    pub(crate) fn at(&self, quantile: f64) -> Option<f64> {
        self.curve
            .iter()
            .find(|(q, _)| (q - quantile).abs() < 1e-9)
            .map(|(_, us)| *us)
    }
}

/// Collects latencies, in nanoseconds with three digits.
#[derive(Debug)]
pub(crate) struct Collector {
    basis: LatencyBasis,
    histogram: Histogram<u64>,
}

impl Collector {
    pub(crate) fn new(basis: LatencyBasis) -> Self {
        let mut histogram = Histogram::new(3).expect("three digits are allowed");
        histogram.auto(true);
        Self { basis, histogram }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // It resizes itself, and a count cannot overflow in a run.
        let _ = self.histogram.record(nanos);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let _ = self.histogram.add(&other.histogram);
    }

    /// The quantiles; none of nothing.
    pub(crate) fn latency(&self) -> Option<Latency> {
        if self.histogram.is_empty() {
            return None;
        }
        let us = |q| count64(self.histogram.value_at_quantile(q)) / 1e3;
        Some(Latency {
            basis: self.basis,
            curve: QUANTILES.map(|q| (q, us(q))).to_vec(),
        })
    }
}

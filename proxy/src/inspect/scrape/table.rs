//! Blocks of counters summed over all shards, with their labels.

use std::collections::BTreeMap;

use admin::metrics::{Exposition, Labels};

use crate::names::{Cause, Interned};
use crate::observe::causes::ByCause;
use crate::observe::counters::{Block, Blocks, Histogram, HistogramSum};

/// Blocks of counters summed over all shards, with their labels.
pub(super) struct Table<'a, T> {
    pub(super) ids: Vec<(Interned, &'a Labels)>,
    pub(super) blocks: Vec<&'a Blocks<T>>,
}

/// Ids and their labels, for a table.
pub(super) fn ids(named: &[(Interned, Labels)]) -> Vec<(Interned, &Labels)> {
    named.iter().map(|(id, labels)| (*id, labels)).collect()
}

impl<T: Block> Table<'_, T> {
    pub(super) fn counter(
        &self,
        out: &mut Exposition,
        name: &'static str,
        help: &str,
        of: impl Fn(&T) -> u64,
    ) {
        let mut family = out.counter(name, help);
        for (id, labels) in &self.ids {
            family.number(labels, self.sum(*id, &of));
        }
    }

    pub(super) fn gauge(
        &self,
        out: &mut Exposition,
        name: &'static str,
        help: &str,
        of: impl Fn(&T) -> u64,
    ) {
        let mut family = out.gauge(name, help);
        for (id, labels) in &self.ids {
            family.number(labels, self.sum(*id, &of));
        }
    }

    pub(super) fn sum(&self, id: Interned, of: impl Fn(&T) -> u64) -> u64 {
        let blocks = self.blocks.iter().filter_map(|blocks| blocks.read(id));
        blocks.map(of).sum()
    }

    pub(super) fn histogram(
        &self,
        out: &mut Exposition,
        name: &'static str,
        help: &str,
        of: impl Fn(&T) -> &Histogram,
    ) {
        let mut family = out.histogram(name, help);
        for (id, labels) in &self.ids {
            let mut sum = HistogramSum::default();
            let blocks = self.blocks.iter().filter_map(|blocks| blocks.read(*id));
            blocks.for_each(|block| sum.merge(of(block)));
            // Empty histograms would take twenty lines each.
            if sum.count() > 0 {
                family.distribution(labels, &BOUNDS, &sum.buckets, seconds(&sum));
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of seconds need not be exact to the µs"
)]
pub(super) fn seconds(sum: &HistogramSum) -> f64 {
    sum.sum_micros as f64 / 1e6
}

/// The bounds of histograms in seconds, as text; same order as `BOUNDS_MICROS`.
pub(super) const BOUNDS: [&str; 16] = [
    "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1",
    "2.5", "5", "10", "30", "60",
];

/// A counter with a sample for each cause, summed over all shards.
pub(super) fn by_cause<'a, C: Cause>(
    out: &mut Exposition,
    name: &'static str,
    help: &str,
    shards: impl Iterator<Item = &'a ByCause<C>>,
) {
    let counts = shards.flat_map(ByCause::iter);
    by_reason(
        out,
        name,
        help,
        counts.map(|(cause, count)| (cause.name(), count)),
    );
}

/// A histogram over all shards.
pub(super) fn durations<'a>(
    out: &mut Exposition,
    name: &'static str,
    help: &str,
    shards: impl Iterator<Item = &'a Histogram>,
) {
    let mut sum = HistogramSum::default();
    shards.for_each(|it| sum.merge(it));
    let mut family = out.histogram(name, help);
    family.distribution(&Labels::none(), &BOUNDS, &sum.buckets, seconds(&sum));
}

/// A counter with a sample for each reason, over all shards.
pub(super) fn by_reason(
    out: &mut Exposition,
    name: &'static str,
    help: &str,
    counts: impl Iterator<Item = (&'static str, u64)>,
) {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in counts {
        *sums.entry(reason).or_default() += count;
    }
    let mut family = out.counter(name, help);
    for (reason, count) in sums {
        family.number(&Labels::none().with("reason", reason), count);
    }
}

#[cfg(test)]
mod tests {
    use super::BOUNDS;
    use crate::observe::counters::BOUNDS_MICROS;

    #[test]
    fn bucket_bounds_match_the_counts() {
        for (text, micros) in BOUNDS.iter().zip(BOUNDS_MICROS) {
            let seconds: f64 = text.parse().expect("a number");
            let micros = f64::from(u32::try_from(micros).expect("a minute at most"));
            assert!((seconds * 1e6 - micros).abs() < 1e-6, "{text}");
        }
    }
}

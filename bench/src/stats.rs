//! The few statistics a report rests on. Pure functions over slices of finite numbers.

use serde::{Deserialize, Serialize};

/// Below this many pairs a comparison has no confidence interval.
pub(crate) const PAIRS_FOR_INTERVAL: usize = 10;

/// Median with the extremes beside it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// Middle value; mean of the two middle ones of an even number.
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// The spread of the finite values; `None` if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            median: median_of_sorted(&sorted)?,
            min,
            max,
            count: sorted.len(),
        })
    }
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

/// How one side compares with another over interleaved pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// Geometric mean of the gateway's values over the peer's.
    pub(crate) value: f64,
    /// 95 % confidence interval, from [`PAIRS_FOR_INTERVAL`] pairs on.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) pairs: usize,
}

impl Ratio {
    /// Of pairs `(ours, theirs)` measured in the same round.
    ///
    /// Rounds drift together (other tenants, temperature), so each pair is divided first; ratios
    /// multiply, so their logarithms are averaged, and Student's t gives the interval.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let logs: Vec<f64> = pairs
            .iter()
            .map(|(ours, theirs)| (ours / theirs).ln())
            .filter(|l| l.is_finite())
            .collect();
        let pairs = logs.len();
        if pairs == 0 {
            return None;
        }
        let (mean, deviation) = mean_and_deviation(&logs);
        let half = student_t95(pairs.saturating_sub(1)) * deviation / count(pairs).sqrt();
        let interval =
            (pairs >= PAIRS_FOR_INTERVAL).then(|| ((mean - half).exp(), (mean + half).exp()));
        Some(Self {
            value: mean.exp(),
            interval,
            pairs,
        })
    }
}

/// Mean and sample standard deviation (zero for a single value).
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / count(values.len());
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / count(values.len() - 1)).sqrt())
}

/// Two-sided 95 % quantile of Student's t. The row at or below `freedom` is used: never too narrow.
fn student_t95(freedom: usize) -> f64 {
    STUDENT_T95
        .iter()
        .rev()
        .find(|(f, _)| *f <= freedom)
        .map_or(f64::INFINITY, |(_, t)| *t)
}

/// Degrees of freedom and quantile.
const STUDENT_T95: [(usize, f64); 17] = [
    (1, 12.706),
    (2, 4.303),
    (3, 3.182),
    (4, 2.776),
    (5, 2.571),
    (6, 2.447),
    (7, 2.365),
    (8, 2.306),
    (9, 2.262),
    (10, 2.228),
    (12, 2.179),
    (15, 2.131),
    (20, 2.086),
    (30, 2.042),
    (60, 2.000),
    (120, 1.980),
    (1000, 1.962),
];

/// A number of things as a float. Exact: nothing here is counted beyond 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

/// As [`count`], for 64-bit counters.
#[expect(
    clippy::cast_precision_loss,
    reason = "counters of a run stay below 2^53"
)]
pub(crate) fn count64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are exact in binary")]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).expect("some").median, 2.0);
        let even = Spread::of([4.0, 1.0, 3.0, 2.0]).expect("some");
        assert_eq!(
            (even.median, even.min, even.max, even.count),
            (2.5, 1.0, 4.0, 4)
        );
    }

    #[test]
    fn an_empty_sample_has_no_spread_and_nan_is_dropped() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, 7.0]).expect("some").median, 7.0);
    }

    #[test]
    fn nine_pairs_give_no_confidence_interval() {
        let ratio = Ratio::of(&[(9.0, 10.0); 9]).expect("some");
        assert!((ratio.value - 0.9).abs() < 1e-12);
        assert_eq!(ratio.interval, None);
    }

    /// Against values worked out by hand: logs are ±0.1 around 0, deviation 0.10541, t(9) 2.262.
    #[test]
    fn ten_pairs_give_a_confidence_interval() {
        let up = 0.1_f64.exp();
        let pairs: Vec<_> = (0..10)
            .map(|i| if i % 2 == 0 { (up, 1.0) } else { (1.0, up) })
            .collect();
        let ratio = Ratio::of(&pairs).expect("some");
        let (low, high) = ratio.interval.expect("ten pairs");
        assert!((ratio.value - 1.0).abs() < 1e-12);
        assert!((high.ln() - 0.075_40).abs() < 1e-4, "{high}");
        assert!((low.ln() + 0.075_40).abs() < 1e-4, "{low}");
    }

    #[test]
    fn drift_common_to_both_sides_cancels() {
        let pairs: Vec<_> = (1..=12)
            .map(|i| (f64::from(i) * 0.95, f64::from(i)))
            .collect();
        let (low, high) = Ratio::of(&pairs).expect("some").interval.expect("twelve");
        assert!(low > 0.949 && high < 0.951);
    }
}

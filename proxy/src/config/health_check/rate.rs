//! The rate of all probes of a proxy: no moment has more than the limit, and where the configured intervals would
//! need more, those of the services with the most probes become longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::{PROBE_BURST, PROBES_PER_SECOND};

/// When the next probe may begin.
#[derive(Debug)]
pub(super) struct Pace {
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { next: None }
    }

    /// When the next probe may begin; `None` if at once.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Takes the time of one probe, unless it is too early.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let one = Duration::from_secs(1) / PROBES_PER_SECOND;
        // What was not used a moment ago can be used now, so that timers need not be exact.
        let earliest = now.checked_sub(one * PROBE_BURST).unwrap_or(now);
        let next = self.next.map_or(earliest, |next| next.max(earliest));
        let may = next <= now;
        if may {
            self.next = Some(next + one);
        }
        may
    }
}

/// By how much the intervals of each service become longer, by its probes per second: services with few keep
/// theirs, all others get the same rate. Only those that become longer are in the result.
pub(super) fn stretch(wanted: &BTreeMap<Arc<str>, f64>) -> BTreeMap<Arc<str>, f64> {
    let mut rates: Vec<f64> = wanted.values().copied().collect();
    rates.sort_unstable_by(f64::total_cmp);
    let mut left = f64::from(PROBES_PER_SECOND);
    let mut most = f64::INFINITY;
    for (index, rate) in rates.iter().enumerate() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are fewer services than a float counts exactly"
        )]
        let share = left / (rates.len() - index) as f64;
        if *rate > share {
            most = share;
            break;
        }
        left -= rate;
    }
    let longer = wanted.iter().filter(|(_, rate)| **rate > most);
    let longer = longer.map(|(object, rate)| (Arc::clone(object), rate / most));
    longer.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretched(rates: &[(&str, f64)]) -> Vec<(String, f64)> {
        let rates = rates.iter().map(|(name, rate)| (Arc::from(*name), *rate));
        let longer = stretch(&rates.collect());
        let rounded = longer.into_iter();
        let rounded = rounded.map(|(name, by)| (name.to_string(), (by * 100.0).round() / 100.0));
        rounded.collect()
    }

    #[test]
    fn the_services_with_the_most_probes_become_slower() {
        assert!(stretched(&[("a", 900.0), ("b", 1_100.0)]).is_empty());
        assert_eq!(stretched(&[("a", 5_000.0)]), [("a".to_owned(), 2.5)]);
        let found = stretched(&[("a", 10.0), ("b", 4_000.0), ("c", 90.0)]);
        assert_eq!(found, [("b".to_owned(), 2.11)], "4000 / 1900");
        let found = stretched(&[("a", 3_000.0), ("b", 1_500.0), ("c", 500.0)]);
        let expected = [("a".to_owned(), 4.0), ("b".to_owned(), 2.0)];
        assert_eq!(found, expected, "750 each");
    }

    #[test]
    fn no_second_has_more_probes_than_the_limit() {
        let mut pace = Pace::new();
        let mut now = Instant::now();
        let mut begun = 0;
        for _ in 0..1_000 {
            while pace.take(now) {
                begun += 1;
            }
            now += Duration::from_millis(1);
        }
        assert!((1_995..=2_020).contains(&begun), "{begun}");
        assert!(pace.next().is_some_and(|next| next <= now));
        let mut after_a_pause = 0;
        while pace.take(now + Duration::from_mins(1)) {
            after_a_pause += 1;
        }
        assert_eq!(after_a_pause, PROBE_BURST + 1);
    }
}

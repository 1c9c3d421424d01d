//! The minimum rate of a receiver.
//!
//! A write completes only once a whole buffer has fitted, which takes a slow receiver longer than
//! its timeout. So its progress is measured several times within that time.

use std::time::Duration;

use super::wheel::Tick;
use crate::limits::{RECEIVER_CHECKS, RECEIVER_MIN_RATE};

/// The progress of a receiver while bytes wait for it.
#[derive(Debug, Clone)]
pub(crate) struct Stall {
    /// Timeout for too little progress.
    timeout: Duration,
    /// Deadline, regardless of progress.
    until: Tick,
    /// Its total when it was last fast enough; unknown before the first measurement.
    taken: Option<u64>,
    checks: u32,
}

impl Stall {
    /// For a receiver with this timeout.
    pub(super) fn new(timeout: Duration, until: Tick) -> Self {
        Self {
            timeout,
            until,
            taken: None,
            checks: 0,
        }
    }

    pub(super) fn interval(&self) -> Duration {
        self.timeout / RECEIVER_CHECKS
    }

    /// Measures the total received so far; returns when to measure again, or `None` if it has timed
    /// out.
    pub(super) fn measure(&mut self, taken: u64, now: Tick) -> Option<Duration> {
        if now >= self.until {
            return None;
        }
        let interval = self.interval();
        if let Some(before) = self.taken {
            self.checks = self.checks.saturating_add(1);
            let time = interval.saturating_mul(self.checks);
            let least = time.as_millis().saturating_mul(RECEIVER_MIN_RATE.into()) / 1000;
            let progress = u128::from(taken.saturating_sub(before));
            if progress < least.max(1) {
                return (self.checks < RECEIVER_CHECKS).then_some(self.next(now));
            }
        }
        self.taken = Some(taken);
        self.checks = 0;
        Some(self.next(now))
    }

    fn next(&self, now: Tick) -> Duration {
        self.interval().min(self.until.since(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stall;
    use crate::limits::{RECEIVER_CHECKS, RECEIVER_MIN_RATE};
    use crate::shard::wheel::Tick;

    const TIMEOUT: Duration = Duration::from_secs(8);

    /// The number of checks that a receiver passes which has taken this much at each of them.
    fn checks_passed(taken: impl Fn(u64) -> u64) -> u64 {
        let mut stall = Stall::new(TIMEOUT, Tick::NEVER);
        (0..100)
            .find(|look| stall.measure(taken(*look), Tick::default()).is_none())
            .unwrap_or(100)
    }

    #[test]
    fn a_receiver_that_does_not_read_times_out() {
        assert_eq!(checks_passed(|_| 7), u64::from(RECEIVER_CHECKS));
    }

    #[test]
    fn a_receiver_above_the_minimum_rate_does_not_time_out() {
        let each = u64::from(RECEIVER_MIN_RATE) * TIMEOUT.as_secs() / u64::from(RECEIVER_CHECKS);
        assert_eq!(checks_passed(|look| look * each), 100);
        // The same amount, taken in lumps instead of evenly.
        let lumps = |look: u64| look / u64::from(RECEIVER_CHECKS) * 4 * each;
        assert_eq!(checks_passed(lumps), 100);
    }

    #[test]
    fn a_receiver_below_the_minimum_rate_times_out() {
        assert_eq!(checks_passed(|look| look), u64::from(RECEIVER_CHECKS));
    }

    #[test]
    fn waiting_for_a_peer_ends_at_the_deadline() {
        let end = Tick::default().after(Duration::from_secs(1));
        let mut stall = Stall::new(TIMEOUT, end);
        let remaining = stall
            .measure(0, Tick::default())
            .expect("there is time left");
        assert!(remaining <= Duration::from_millis(1100), "{remaining:?}");
        assert!(stall.measure(1 << 20, end).is_none());
    }
}

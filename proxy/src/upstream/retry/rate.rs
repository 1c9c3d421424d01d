//! The budget of retries by their rate (GEP-3388): a share of the requests of an interval, and a
//! rate that is always allowed.

use std::time::Instant;

use xds::model::RetryConstraint;

use super::window::Window;

/// Requests and retries of a service on this shard.
#[derive(Debug)]
pub(super) struct Rate {
    /// Requests and retries of the budget's interval.
    attempts: Window,
    /// Retries of the budget's interval.
    retries: Window,
    /// Retries of the interval of the least rate.
    least: Window,
}

impl Rate {
    pub(super) fn new(constraint: &RetryConstraint, now: Instant) -> Self {
        Self {
            attempts: Window::new(constraint.interval, now),
            retries: Window::new(constraint.interval, now),
            least: Window::new(constraint.min_rate.interval, now),
        }
    }

    /// Whether it counts over the intervals of this constraint.
    pub(super) fn fits(&self, constraint: &RetryConstraint) -> bool {
        self.attempts.interval() == constraint.interval
            && self.least.interval() == constraint.min_rate.interval
    }

    /// Counts a request's first attempt.
    pub(super) fn request(&mut self, now: Instant) {
        self.attempts.add(now);
    }

    /// Counts a retry, if the constraint allows it.
    pub(super) fn retry(&mut self, constraint: &RetryConstraint, now: Instant) -> bool {
        let attempts = self.attempts.sum(now).saturating_add(1);
        let retries = self.retries.sum(now).saturating_add(1);
        let share = attempts.saturating_mul(u64::from(constraint.percent));
        let within_budget = retries.saturating_mul(100) <= share;
        let count = u64::from(constraint.min_rate.count.get());
        if !within_budget && self.least.sum(now) >= count {
            return false;
        }
        self.attempts.add(now);
        self.retries.add(now);
        self.least.add(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::{Duration, Instant};

    use xds::model::{RetryConstraint, RetryRate};

    use super::Rate;

    const SECOND: Duration = Duration::from_secs(1);

    fn constraint(percent: u32, count: u32) -> RetryConstraint {
        RetryConstraint {
            percent,
            interval: 10 * SECOND,
            min_rate: RetryRate {
                count: NonZeroU32::new(count).expect("a count"),
                interval: SECOND,
            },
        }
    }

    fn allowed(rate: &mut Rate, constraint: &RetryConstraint, tries: u32, now: Instant) -> u32 {
        let allowed = (0..tries).filter(|_| rate.retry(constraint, now)).count();
        u32::try_from(allowed).expect("a small number")
    }

    #[test]
    fn retries_are_limited_to_a_percentage_of_attempts() {
        let (constraint, start) = (constraint(20, 1), Instant::now());
        let mut rate = Rate::new(&constraint, start);
        for _ in 0..800 {
            rate.request(start);
        }
        assert_eq!(allowed(&mut rate, &constraint, 1000, start), 200);
        let later = start + 5 * SECOND;
        assert_eq!(
            allowed(&mut rate, &constraint, 10, later),
            1,
            "the least rate"
        );
        let over = start + 10 * SECOND;
        assert_eq!(
            allowed(&mut rate, &constraint, 10, over),
            1,
            "of no request"
        );
    }

    #[test]
    fn the_minimum_retry_rate_is_allowed_at_zero_percent() {
        let (constraint, start) = (constraint(0, 3), Instant::now());
        let mut rate = Rate::new(&constraint, start);
        rate.request(start);
        assert_eq!(allowed(&mut rate, &constraint, 10, start), 3);
        assert_eq!(allowed(&mut rate, &constraint, 10, start + SECOND), 3);
    }

    #[test]
    fn no_retry_is_refused_at_one_hundred_percent() {
        let (constraint, start) = (constraint(100, 1), Instant::now());
        let mut rate = Rate::new(&constraint, start);
        assert_eq!(allowed(&mut rate, &constraint, 1000, start), 1000);
    }
}

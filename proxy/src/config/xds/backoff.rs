//! Reconnect delays: exponential with full jitter, since all proxies lose a controller at the same
//! time.

use std::time::Duration;

use crate::limits::{CONTROLLER_RETRY, CONTROLLER_RETRY_MIN};

/// Exponential back-off between attempts to connect, with jitter.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next delay, up to `longest`; `random` is between 0 and 1.
    pub(super) fn next(&mut self, longest: Duration, random: f64) -> Duration {
        let doubled = CONTROLLER_RETRY.saturating_mul(1 << self.tries);
        if doubled < longest {
            self.tries = self.tries.saturating_add(1);
        }
        let max = doubled.min(longest);
        max.mul_f64(random).max(CONTROLLER_RETRY_MIN)
    }

    /// Resets the delay after a success.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(15);

    #[test]
    fn delays_grow_to_a_maximum_and_never_fall_below_a_minimum() {
        let mut backoff = Backoff::default();
        let mut before = Duration::ZERO;
        for _ in 0..100 {
            let max = backoff.next(LONGEST, 1.0);
            assert!(before <= max, "{before:?} before {max:?}");
            before = max;
        }
        assert_eq!(before, LONGEST);
        assert_eq!(backoff.next(LONGEST, 0.5), LONGEST / 2);
        assert_eq!(backoff.next(LONGEST, 0.0), CONTROLLER_RETRY_MIN);
        backoff.reset();
        assert_eq!(backoff.next(LONGEST, 1.0), CONTROLLER_RETRY);
    }

    /// As while a controller starts, which then fails once.
    #[test]
    fn delays_grow_from_a_lower_maximum() {
        let (mut backoff, lower) = (Backoff::default(), Duration::from_secs(2));
        let delays = (0..100).map(|_| backoff.next(lower, 1.0));
        assert_eq!(delays.max(), Some(lower));
        assert!(backoff.next(LONGEST, 1.0) <= 2 * lower);
    }
}

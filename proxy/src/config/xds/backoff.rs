//! Reconnect delays: exponential with full jitter, since all proxies lose a controller at the same
//! time.

use std::time::Duration;

use crate::limits::{CONTROLLER_RETRY, CONTROLLER_RETRY_MAX, CONTROLLER_RETRY_MIN};

/// Exponential back-off between attempts to connect, with jitter.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next delay; `random` is between 0 and 1.
    pub(super) fn next(&mut self, random: f64) -> Duration {
        let doubled = CONTROLLER_RETRY.saturating_mul(1 << self.tries.min(DOUBLINGS));
        self.tries = self.tries.saturating_add(1);
        let max = doubled.min(CONTROLLER_RETRY_MAX);
        max.mul_f64(random).max(CONTROLLER_RETRY_MIN)
    }

    /// Resets the delay after a success.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// More of them change nothing.
const DOUBLINGS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_maximum_and_never_fall_below_a_minimum() {
        let mut backoff = Backoff::default();
        let mut before = Duration::ZERO;
        for _ in 0..100 {
            let max = backoff.next(1.0);
            assert!(before <= max, "{before:?} before {max:?}");
            before = max;
        }
        assert_eq!(before, CONTROLLER_RETRY_MAX);
        assert_eq!(backoff.next(0.5), CONTROLLER_RETRY_MAX / 2);
        assert_eq!(backoff.next(0.0), CONTROLLER_RETRY_MIN);
        backoff.reset();
        assert_eq!(backoff.next(1.0), CONTROLLER_RETRY);
    }
}

//! The backoff of a watch after errors.

use std::time::Duration;

use rand::RngExt as _;

/// Waits that double with each error, up to a limit, with jitter: replicas must not all query a
/// recovering API server at once.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST_DELAY }
    }
}

impl Backoff {
    /// The wait after another error.
    pub(super) fn wait(&mut self) -> Duration {
        let longest = self.next;
        self.next = (longest * 2).min(MAX_DELAY);
        rand::rng().random_range(longest / 2..=longest)
    }

    /// Resets it after a success.
    pub(super) fn reset(&mut self) {
        self.next = FIRST_DELAY;
    }
}

const FIRST_DELAY: Duration = Duration::from_millis(200);
const MAX_DELAY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_the_limit() {
        let mut backoff = Backoff::default();
        for longest in [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4] {
            let wait = backoff.wait();
            assert!((longest / 2..=longest).contains(&wait), "{wait:?}");
        }
        for _ in 0..100 {
            assert!(backoff.wait() <= MAX_DELAY);
        }
        backoff.reset();
        assert!(backoff.wait() <= FIRST_DELAY);
    }
}

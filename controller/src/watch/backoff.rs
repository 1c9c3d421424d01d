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
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The wait after another error.
    pub(super) fn wait(&mut self) -> Duration {
        let longest = self.next;
        self.next = (longest * 2).min(LONGEST);
        rand::rng().random_range(longest / 2..=longest)
    }

    /// Resets it after a success.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }
}

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_the_limit() {
        let mut backoff = Backoff::default();
        for longest in [FIRST, FIRST * 2, FIRST * 4] {
            let wait = backoff.wait();
            assert!((longest / 2..=longest).contains(&wait), "{wait:?}");
        }
        for _ in 0..100 {
            assert!(backoff.wait() <= LONGEST);
        }
        backoff.reset();
        assert!(backoff.wait() <= FIRST);
    }
}

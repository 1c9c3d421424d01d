//! The backoff of a watch after errors.

use std::time::Duration;

use rand::RngExt as _;
use tokio::time::Instant;

/// Waits that double with each error, up to a limit, with jitter: replicas must not all query a
/// recovering API server at once. They start anew once there was no error for some time, since a watch
/// of objects that rarely change tells of no success.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    /// End of the last wait.
    waited_until: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            next: FIRST_DELAY,
            waited_until: None,
        }
    }
}

impl Backoff {
    /// The wait after another error.
    pub(super) fn wait(&mut self) -> Duration {
        if self.is_over() {
            self.reset();
        }
        let longest = self.next;
        self.next = (longest * 2).min(MAX_DELAY);
        let wait = rand::rng().random_range(longest / 2..=longest);
        self.waited_until = Some(Instant::now() + wait);
        wait
    }

    /// Whether there was no error for so long that another one has a new cause.
    pub(super) fn is_over(&self) -> bool {
        let is_past = |until: Instant| until + QUIET <= Instant::now();
        self.waited_until.is_none_or(is_past)
    }

    /// Resets it after a success.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

const FIRST_DELAY: Duration = Duration::from_millis(200);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Time without errors after which waits start anew: the longest wait.
const QUIET: Duration = MAX_DELAY;

#[cfg(test)]
mod tests {
    use tokio::time::advance;

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

    #[tokio::test(start_paused = true)]
    async fn waits_start_anew_after_some_time_without_errors() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_over());
        for _ in 0..10 {
            advance(backoff.wait()).await;
            assert!(!backoff.is_over());
        }
        advance(QUIET / 2).await;
        assert!(backoff.wait() >= MAX_DELAY / 2, "too early");
        advance(MAX_DELAY + QUIET).await;
        assert!(backoff.is_over());
        assert!(backoff.wait() <= FIRST_DELAY);
    }
}

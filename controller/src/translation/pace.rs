//! When to translate: immediately while it is quiet, in batches while changes keep coming.

use std::time::Duration;

use tokio::time::Instant;

/// The pace of translation.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Until this time, changes are collected.
    next: Option<Instant>,
}

impl Pace {
    /// Records the end and duration of a pass.
    pub(super) fn passed(&mut self, ended: Instant, took: Duration) {
        self.next = Some(ended + (took * 3).clamp(MIN_INTERVAL, MAX_DELAY));
    }

    /// Until when changes are collected before the next pass; `None` to start at once.
    pub(super) fn gather_until(&self) -> Option<Instant> {
        self.next.filter(|next| *next > Instant::now())
    }
}

/// Shortest interval of passes under load: the events of one `kubectl apply` arrive within it.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// Longest time that a change waits for others.
const MAX_DELAY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_change_after_a_quiet_period_is_not_delayed() {
        let mut pace = Pace::default();
        assert_eq!(pace.gather_until(), None);
        let now = Instant::now();
        pace.passed(now, Duration::from_millis(10));
        assert_eq!(pace.gather_until(), Some(now + Duration::from_millis(30)));
        tokio::time::advance(Duration::from_millis(30)).await;
        assert_eq!(pace.gather_until(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn batching_delays_have_a_minimum_and_a_maximum() {
        let mut pace = Pace::default();
        let now = Instant::now();
        pace.passed(now, Duration::ZERO);
        assert_eq!(pace.gather_until(), Some(now + MIN_INTERVAL));
        pace.passed(now, Duration::from_secs(9));
        assert_eq!(pace.gather_until(), Some(now + MAX_DELAY));
    }
}

//! Counts of the last while, in slots that are forgotten one by one.

use std::time::{Duration, Instant};

use crate::limits::RETRY_WINDOW_SLOTS;

/// The number of events in the last interval, accurate to a slot of it.
#[derive(Debug)]
pub(super) struct Window {
    interval: Duration,
    /// When slot 0 began.
    since: Instant,
    /// Number of the newest slot.
    newest: u64,
    counts: [u32; RETRY_WINDOW_SLOTS],
}

impl Window {
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            since: now,
            newest: 0,
            counts: [0; RETRY_WINDOW_SLOTS],
        }
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Counts an event in the newest slot.
    pub(super) fn add(&mut self, now: Instant) {
        self.advance(now);
        let newest = Self::place(self.newest);
        if let Some(count) = self.counts.get_mut(newest) {
            *count = count.saturating_add(1);
        }
    }

    /// The events of the interval before `now`.
    pub(super) fn sum(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.counts.iter().copied().map(u64::from).sum()
    }

    /// Forgets the slots that are older than the interval.
    fn advance(&mut self, now: Instant) {
        let slots = RETRY_WINDOW_SLOTS as u128;
        let passed = now.saturating_duration_since(self.since).as_nanos();
        let slot = passed * slots / self.interval.as_nanos().max(1);
        let slot = u64::try_from(slot).unwrap_or(u64::MAX);
        let new = slot.saturating_sub(self.newest);
        for number in 1..=new.min(RETRY_WINDOW_SLOTS as u64) {
            let place = Self::place(self.newest.saturating_add(number));
            if let Some(count) = self.counts.get_mut(place) {
                *count = 0;
            }
        }
        self.newest = self.newest.max(slot);
    }

    fn place(slot: u64) -> usize {
        usize::try_from(slot % RETRY_WINDOW_SLOTS as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Window;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn events_expire_after_the_interval() {
        let start = Instant::now();
        let mut window = Window::new(10 * SECOND, start);
        for second in 0..10 {
            window.add(start + second * SECOND);
        }
        for (second, left) in [(9, 10), (10, 9), (15, 4), (19, 0), (100, 0)] {
            assert_eq!(
                window.sum(start + second * SECOND),
                left,
                "after {second} s"
            );
        }
    }

    #[test]
    fn all_events_expire_after_a_long_pause() {
        let start = Instant::now();
        let mut window = Window::new(SECOND, start);
        for hours in [1, 2, 1000] {
            let now = start + hours * 3600 * SECOND;
            assert_eq!(window.sum(now), 0);
            window.add(now);
            window.add(now);
            assert_eq!(window.sum(now), 2);
        }
    }

    #[test]
    fn events_are_counted_when_the_clock_goes_backwards() {
        let start = Instant::now();
        let mut window = Window::new(SECOND, start);
        window.add(start + SECOND);
        window.add(start);
        assert_eq!(window.sum(start), 2);
    }
}

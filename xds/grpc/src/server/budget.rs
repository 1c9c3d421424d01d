//! A token bucket: a burst, refilled at a fixed rate per second.

use std::time::Instant;

#[derive(Debug)]
pub(super) struct Budget {
    max: u32,
    per_second: u32,
    left: u32,
    since: Instant,
}

impl Budget {
    pub(super) fn new(max: u32, per_second: u32, now: Instant) -> Self {
        Self {
            max,
            per_second,
            left: max,
            since: now,
        }
    }

    /// Takes a token; false if none is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        if seconds > 0 {
            let granted = seconds.saturating_mul(u64::from(self.per_second));
            let granted = u32::try_from(granted).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(granted).min(self.max);
            self.since = now;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_budget_is_spent_and_replenished() {
        let now = Instant::now();
        let mut budget = Budget::new(2, 1, now);
        assert!(budget.take(now) && budget.take(now));
        assert!(!budget.take(now + Duration::from_millis(900)));
        assert!(budget.take(now + Duration::from_secs(1)));
        assert!(!budget.take(now + Duration::from_secs(1)));
    }

    #[test]
    fn the_budget_is_capped() {
        let now = Instant::now();
        let mut budget = Budget::new(2, 1, now);
        let later = now + Duration::from_secs(1_000);
        assert!(budget.take(later) && budget.take(later));
        assert!(!budget.take(later));
    }
}

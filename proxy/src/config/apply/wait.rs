//! How long a change waits for answers of name servers and issuers before it is applied.
//!
//! The answers come from servers that any user may choose, and one that does not respond must not
//! delay the changes of others. So only the first configuration waits for it, and changes have a
//! small allowance, which all of them share.

use std::time::{Duration, Instant};

use crate::limits::{DNS_CHANGE_WAIT, DNS_WAIT_INTERVAL, FIRST_WAIT};

/// What an update may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum Wait {
    /// The first configuration, while nobody is served: for names and keys.
    First,
    /// A change: for names, so that a route to a new one fails no request.
    Change,
}

/// The time that changes may still wait for names.
#[derive(Debug)]
pub(super) struct WaitAllowance {
    left: Duration,
    counted: Instant,
}

impl WaitAllowance {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left: DNS_CHANGE_WAIT,
            counted: now,
        }
    }

    /// When an update that begins now has to be applied.
    pub(super) fn deadline(&mut self, wait: Wait, now: Instant) -> Instant {
        match wait {
            Wait::First => now + FIRST_WAIT,
            Wait::Change => {
                let passed = now.saturating_duration_since(self.counted);
                let refilled = DNS_CHANGE_WAIT.mul_f64(passed.div_duration_f64(DNS_WAIT_INTERVAL));
                self.left = self.left.saturating_add(refilled).min(DNS_CHANGE_WAIT);
                self.counted = now;
                now + self.left
            }
        }
    }

    /// Takes the time that a change has waited.
    pub(super) fn spend(&mut self, wait: Wait, waited: Duration) {
        if wait == Wait::Change {
            self.left = self.left.saturating_sub(waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_resolve_delay_changes_for_a_small_part_of_the_time() {
        let begun = Instant::now();
        let (mut allowance, mut now) = (WaitAllowance::new(begun), begun);
        let mut waited = Duration::ZERO;
        // A change of somebody with such a name every 50 ms, for a minute.
        while now < begun + 6 * DNS_WAIT_INTERVAL {
            let delay = allowance.deadline(Wait::Change, now) - now;
            allowance.spend(Wait::Change, delay);
            waited += delay;
            now += Duration::from_millis(50);
        }
        assert!(waited <= 7 * DNS_CHANGE_WAIT, "{waited:?}");
    }

    #[test]
    fn the_allowance_returns_but_does_not_accumulate() {
        let begun = Instant::now();
        let mut allowance = WaitAllowance::new(begun);
        assert_eq!(
            allowance.deadline(Wait::Change, begun),
            begun + DNS_CHANGE_WAIT
        );
        allowance.spend(Wait::Change, DNS_CHANGE_WAIT);
        assert_eq!(allowance.deadline(Wait::Change, begun), begun);
        assert_eq!(allowance.deadline(Wait::First, begun), begun + FIRST_WAIT);
        let later = begun + 10 * DNS_WAIT_INTERVAL;
        assert_eq!(
            allowance.deadline(Wait::Change, later),
            later + DNS_CHANGE_WAIT
        );
    }
}

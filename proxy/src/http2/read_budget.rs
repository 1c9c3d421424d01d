//! Limits how much of the input is passed to `h2` per iteration: it processes everything at once,
//! such as hundreds of heads of a flood for a millisecond, before any other connection gets its turn.

use crate::limits::H2_HEADS_PER_TURN;

/// The bytes that may be passed on.
#[derive(Debug)]
pub(super) struct ReadBudget {
    share: usize,
    /// Remaining bytes of that.
    left: usize,
    /// The iteration in which the limit was exceeded.
    exceeded_in: Option<u64>,
}

/// Whether available bytes may be processed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowance {
    /// This many may be passed on.
    Now(usize),
    /// Wait for another iteration, and request it.
    NextTurn,
    /// Wait; it was requested before.
    Later,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self {
            share: usize::MAX,
            left: usize::MAX,
            exceeded_in: None,
        }
    }
}

impl ReadBudget {
    /// Adds bytes read, in which this many heads begin, at unknown positions. An iteration has its
    /// number of them on average, and more if other frames follow them.
    pub(super) fn read(&mut self, bytes: usize, heads: u64) {
        let heads = usize::try_from(heads).unwrap_or(usize::MAX);
        self.share = match bytes.saturating_mul(H2_HEADS_PER_TURN).checked_div(heads) {
            Some(share) if heads > H2_HEADS_PER_TURN => share.max(1),
            _ => usize::MAX,
        };
        if self.share == usize::MAX && self.exceeded_in.is_none() {
            // The rest of a burst's share does not limit later ones.
            self.left = usize::MAX;
        }
        self.left = self.left.min(self.share);
    }

    /// How many of these bytes may be passed on in this iteration.
    pub(super) fn take(&mut self, bytes: usize, turn: u64) -> Allowance {
        if self.exceeded_in.is_some_and(|exceeded| exceeded != turn) {
            self.exceeded_in = None;
            self.left = self.share;
        }
        if self.left == 0 && bytes > 0 {
            return match self.exceeded_in.replace(turn) {
                None => Allowance::NextTurn,
                Some(_) => Allowance::Later,
            };
        }
        let allowed = bytes.min(self.left);
        self.left = self.left.saturating_sub(allowed);
        Allowance::Now(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, ReadBudget};
    use crate::limits::H2_HEADS_PER_TURN;

    const BUDGET: u64 = H2_HEADS_PER_TURN as u64;

    #[test]
    fn few_request_heads_are_not_delayed() {
        let mut read_budget = ReadBudget::default();
        for _ in 0..3 {
            read_budget.read(64 * 1024, BUDGET);
            assert_eq!(read_budget.take(64 * 1024, 0), Allowance::Now(64 * 1024));
        }
        assert_eq!(read_budget.take(0, 0), Allowance::Now(0));
    }

    #[test]
    fn many_request_heads_are_spread_over_several_turns() {
        let mut read_budget = ReadBudget::default();
        read_budget.read(1_000, 4 * BUDGET);
        let mut remaining = 1_000;
        for turn in 0..4 {
            assert_eq!(read_budget.take(remaining, turn), Allowance::Now(250));
            remaining -= 250;
            let more = read_budget.take(remaining, turn);
            if remaining > 0 {
                assert_eq!(more, Allowance::NextTurn, "turn {turn}");
                assert_eq!(
                    read_budget.take(remaining, turn),
                    Allowance::Later,
                    "turn {turn}"
                );
            }
        }
        assert_eq!(remaining, 0);
    }

    #[test]
    fn later_reads_share_the_allowance_of_their_turn() {
        let mut read_budget = ReadBudget::default();
        read_budget.read(1_000, 4 * BUDGET);
        assert_eq!(read_budget.take(200, 7), Allowance::Now(200));
        read_budget.read(1_000, 4 * BUDGET);
        assert_eq!(read_budget.take(1_000, 7), Allowance::Now(50));
        assert_eq!(read_budget.take(950, 7), Allowance::NextTurn);
        assert_eq!(read_budget.take(950, 8), Allowance::Now(250));
    }

    #[test]
    fn a_finished_burst_limits_no_other_connection() {
        let mut read_budget = ReadBudget::default();
        read_budget.read(1_000, 4 * BUDGET);
        for turn in 0..4 {
            assert_eq!(read_budget.take(250, turn), Allowance::Now(250));
            if turn < 3 {
                assert_eq!(read_budget.take(1, turn), Allowance::NextTurn);
            }
        }
        read_budget.read(100, 1);
        assert_eq!(read_budget.take(100, 3), Allowance::Now(100));
    }
}

//! How much of what was read a turn of the shard hands on to `h2`, which takes in whatever it is given
//! at once: hundreds of heads of a flood, for a millisecond, before any neighbour.

use crate::limits::H2_HEADS_PER_TURN;

/// The bytes that may be handed on.
#[derive(Debug)]
pub(super) struct Ration {
    /// In a turn.
    share: usize,
    /// Of that, the bytes that were not handed on yet.
    left: usize,
    /// The turn in which there was more than that.
    exceeded_in: Option<u64>,
}

/// What may be done with bytes that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    /// So many are handed on.
    Now(usize),
    /// They wait for another turn, which is to be asked for.
    NextTurn,
    /// It was asked for before.
    Later,
}

impl Default for Ration {
    fn default() -> Self {
        Self {
            share: usize::MAX,
            left: usize::MAX,
            exceeded_in: None,
        }
    }
}

impl Ration {
    /// So many bytes were read, and so many heads begin in them: anywhere, so that a turn has its
    /// number of them on average, and more where other frames lie behind them.
    pub(super) fn read(&mut self, bytes: usize, heads: u64) {
        let heads = usize::try_from(heads).unwrap_or(usize::MAX);
        self.share = match bytes.saturating_mul(H2_HEADS_PER_TURN).checked_div(heads) {
            Some(share) if heads > H2_HEADS_PER_TURN => share.max(1),
            _ => usize::MAX,
        };
        if self.share == usize::MAX && self.exceeded_in.is_none() {
            // What a burst left of its share is no limit for those who come later.
            self.left = usize::MAX;
        }
        self.left = self.left.min(self.share);
    }

    /// What of so many bytes may be handed on in this turn.
    pub(super) fn take(&mut self, bytes: usize, turn: u64) -> Allowed {
        if self.exceeded_in.is_some_and(|exceeded| exceeded != turn) {
            self.exceeded_in = None;
            self.left = self.share;
        }
        if self.left == 0 && bytes > 0 {
            return match self.exceeded_in.replace(turn) {
                None => Allowed::NextTurn,
                Some(_) => Allowed::Later,
            };
        }
        let allowed = bytes.min(self.left);
        self.left = self.left.saturating_sub(allowed);
        Allowed::Now(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowed, Ration};
    use crate::limits::H2_HEADS_PER_TURN;

    const FEW: u64 = H2_HEADS_PER_TURN as u64;

    #[test]
    fn few_heads_pass_at_once() {
        let mut ration = Ration::default();
        for _ in 0..3 {
            ration.read(64 * 1024, FEW);
            assert_eq!(ration.take(64 * 1024, 0), Allowed::Now(64 * 1024));
        }
        assert_eq!(ration.take(0, 0), Allowed::Now(0));
    }

    #[test]
    fn many_heads_pass_in_shares_of_a_turn_each() {
        let mut ration = Ration::default();
        ration.read(1_000, 4 * FEW);
        let mut left = 1_000;
        for turn in 0..4 {
            assert_eq!(ration.take(left, turn), Allowed::Now(250));
            left -= 250;
            let more = ration.take(left, turn);
            if left > 0 {
                assert_eq!(more, Allowed::NextTurn, "turn {turn}");
                assert_eq!(ration.take(left, turn), Allowed::Later, "turn {turn}");
            }
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn what_is_read_later_in_a_turn_counts_for_it() {
        let mut ration = Ration::default();
        ration.read(1_000, 4 * FEW);
        assert_eq!(ration.take(200, 7), Allowed::Now(200));
        ration.read(1_000, 4 * FEW);
        assert_eq!(ration.take(1_000, 7), Allowed::Now(50));
        assert_eq!(ration.take(950, 7), Allowed::NextTurn);
        assert_eq!(ration.take(950, 8), Allowed::Now(250));
    }

    #[test]
    fn a_burst_that_is_over_limits_nobody() {
        let mut ration = Ration::default();
        ration.read(1_000, 4 * FEW);
        for turn in 0..4 {
            assert_eq!(ration.take(250, turn), Allowed::Now(250));
            if turn < 3 {
                assert_eq!(ration.take(1, turn), Allowed::NextTurn);
            }
        }
        ration.read(100, 1);
        assert_eq!(ration.take(100, 3), Allowed::Now(100));
    }
}

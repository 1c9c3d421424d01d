//! Random choices, reproducible by their seed.

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// A source of random choices.
pub(super) struct Random(SmallRng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// A number between two others, both included.
    pub(super) fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0.random_range(least..=most.max(least))
    }

    /// Whether something of this probability in percent happens.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// One of some values, of which there is at least one.
    pub(super) fn one_of<'a, T: ?Sized>(&mut self, values: &[&'a T]) -> &'a T {
        values[self.below(values.len())]
    }
}

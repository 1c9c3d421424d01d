//! Decides when to take a sample: a countdown of bytes in each thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::stacks::{self, Weight};
use super::{live, walk};
use crate::limits::HEAP_SAMPLING_BYTES;

/// Whether allocations are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// One sample in this many bytes on average.
    Every(u32),
    /// This thread takes no samples.
    Off,
}

/// Whether and how often allocations are sampled.
#[must_use]
pub fn sampling() -> Sampling {
    match DISTANCE.load(Ordering::Relaxed) {
        0 => Sampling::Off,
        bytes => Sampling::Every(bytes),
    }
}

/// Sets whether allocations are sampled. Call it before other threads start: each reads it when its
/// countdown ends.
pub fn set_sampling(sampling: Sampling) {
    let bytes = match sampling {
        Sampling::Every(bytes) => bytes,
        Sampling::Off => 0,
    };
    DISTANCE.store(bytes, Ordering::Relaxed);
}

/// How many samples there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samples {
    /// Samples taken since the start.
    pub taken: u64,
    /// Samples of allocations not freed yet.
    pub live: u64,
}

/// The current numbers of samples.
#[must_use]
pub fn samples() -> Samples {
    Samples {
        taken: SAMPLES_TAKEN.load(Ordering::Relaxed),
        live: live::count(),
    }
}

static SAMPLES_TAKEN: AtomicU64 = AtomicU64::new(0);

/// Average distance between two samples in bytes; 0 takes none.
static DISTANCE: AtomicU32 = AtomicU32::new(HEAP_SAMPLING_BYTES);

thread_local! {
    /// Bytes until the next sample. A cell without destructor, so that it exists as long as its
    /// thread allocates.
    static LEFT: Cell<i64> = const { Cell::new(0) };
    /// State of the random number generator; 0 before the first use.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// Counts an allocation; a null pointer is a failed one.
pub(super) fn record_allocation(address: *mut u8, size: usize) {
    let left = LEFT.get().saturating_sub_unsigned(size as u64);
    LEFT.set(left);
    if left <= 0 {
        run_out(address, size);
    }
}

#[cold]
fn run_out(address: *mut u8, size: usize) {
    let Sampling::Every(distance) = sampling() else {
        return LEFT.set(i64::MAX);
    };
    let is_first = RANDOM.get() == 0;
    LEFT.set(draw(distance));
    // A thread's first allocation only starts its countdown.
    if is_first || address.is_null() {
        return;
    }
    SAMPLES_TAKEN.fetch_add(1, Ordering::Relaxed);
    let weight = Weight::of(size, distance);
    let stack = stacks::record(&walk::stack(), weight);
    live::record(address, stack, weight);
}

/// Bytes up to the next sample, exponentially distributed.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a random number, rounded; at most 37 times the distance"
)]
fn draw(distance: u32) -> i64 {
    let uniform = (random() >> 11) as f64 / (1_u64 << 53) as f64;
    (-(1.0 - uniform).ln() * f64::from(distance)) as i64 + 1
}

/// The next random number (xorshift64*). Each thread has its own seed, so that short-lived threads
/// do not all draw the same.
fn random() -> u64 {
    static SEED: AtomicU64 = AtomicU64::new(GOLDEN);
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = match RANDOM.get() {
        0 => SEED.fetch_add(GOLDEN, Ordering::Relaxed) | 1,
        state => state,
    };
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    RANDOM.set(state);
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn sampling_distances_are_exponentially_distributed() {
        const DRAWS: i64 = 100_000;
        let mut draws: Vec<i64> = (0..DRAWS).map(|_| draw(1_000)).collect();
        draws.sort_unstable();
        let mean = draws.iter().sum::<i64>() / DRAWS;
        assert!((970..1030).contains(&mean), "mean {mean}");
        // The median of an exponential distribution is its mean times ln 2.
        let median = draws[draws.len() / 2];
        assert!((670..720).contains(&median), "median {median}");
        assert!(draws[0] > 0, "a countdown never starts at its end");
    }
}

//! The stacks of samples, each with its allocated and freed amounts since the start.
//!
//! A fixed-size open-addressing table that is never emptied: the number of stacks is bounded by the
//! code. What does not fit is counted without a stack.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::walk::Frames;
use crate::limits::{HEAP_FRAMES, HEAP_STACKS};

/// Number of allocations and bytes that a sample stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    /// Allocations, in units of 1/[`OBJECT`].
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

/// The unit of allocations: large ones stand for little more than one.
const OBJECT: u64 = 1 << 10;

impl Weight {
    /// The weight of a sample of `size` bytes, with one sample in `distance` bytes.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, never negative"
    )]
    pub(super) fn of(size: usize, distance: u32) -> Self {
        let size = size.max(1) as f64;
        let objects = 1.0 / -(-size / f64::from(distance)).exp_m1();
        Self {
            objects: (objects * OBJECT as f64) as u64,
            bytes: (objects * size) as u64,
        }
    }
}

/// A number of allocations and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Estimated number of allocations.
    pub objects: u64,
    /// Estimated sum of their sizes in bytes.
    pub bytes: u64,
}

/// A stack with its estimated allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Return addresses, the innermost first; empty for stacks without a table entry.
    pub frames: Vec<usize>,
    /// Allocated since the start.
    pub allocated: Amount,
    /// Part of it that is not freed yet.
    pub live: Amount,
}

/// Every stack with samples, of all threads.
pub fn stacks() -> impl Iterator<Item = Stack> {
    TABLE.iter().filter_map(Entry::read)
}

/// A stack's index in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StackId(usize);

impl StackId {
    /// The index, for storing it in an atomic.
    pub(super) fn to_number(self) -> usize {
        self.0
    }

    pub(super) fn of_number(number: usize) -> Self {
        Self(number)
    }
}

/// Counts a sample of a stack.
pub(super) fn record(frames: &Frames, weight: Weight) -> StackId {
    let id = find_or_insert(frames.addresses());
    let entry = &TABLE[id.0];
    entry
        .allocated_objects
        .fetch_add(weight.objects, Ordering::Relaxed);
    entry
        .allocated_bytes
        .fetch_add(weight.bytes, Ordering::Relaxed);
    id
}

/// Counts that a sampled allocation was freed.
pub(super) fn record_free(id: StackId, weight: Weight) {
    let Some(entry) = TABLE.get(id.0) else { return };
    entry
        .freed_objects
        .fetch_add(weight.objects, Ordering::Relaxed);
    entry.freed_bytes.fetch_add(weight.bytes, Ordering::Relaxed);
}

/// One stack. `hash` is claimed first, `depth` published last; counts may arrive in between.
struct Entry {
    hash: AtomicU64,
    depth: AtomicUsize,
    frames: [AtomicUsize; HEAP_FRAMES],
    allocated_objects: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_objects: AtomicU64,
    freed_bytes: AtomicU64,
}

/// Entries examined for one stack.
const PROBES: usize = 32;

/// The last entry is for all stacks without a free one.
static TABLE: [Entry; HEAP_STACKS + 1] = [const { Entry::empty() }; HEAP_STACKS + 1];

fn find_or_insert(addresses: &[usize]) -> StackId {
    let hash = hash(addresses);
    let first = usize::try_from(hash % HEAP_STACKS as u64).unwrap_or_default();
    for at in (first..first + PROBES).map(|at| at % HEAP_STACKS) {
        let claimed =
            TABLE[at]
                .hash
                .compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
        match claimed {
            Ok(_) => {
                TABLE[at].fill(addresses);
                return StackId(at);
            }
            Err(found) if found == hash => return StackId(at),
            Err(_) => {}
        }
    }
    StackId(HEAP_STACKS)
}

/// FNV-1a over the addresses, mixed; never 0, which marks a free entry.
fn hash(addresses: &[usize]) -> u64 {
    let mixed = addresses
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &address| {
            (hash ^ address as u64)
                .wrapping_mul(0x100_0000_01b3)
                .rotate_left(29)
        });
    mixed | 1 << 63
}

impl Entry {
    const fn empty() -> Self {
        Self {
            hash: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            frames: [const { AtomicUsize::new(0) }; HEAP_FRAMES],
            allocated_objects: AtomicU64::new(0),
            allocated_bytes: AtomicU64::new(0),
            freed_objects: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
        }
    }

    fn fill(&self, addresses: &[usize]) {
        for (frame, &address) in self.frames.iter().zip(addresses) {
            frame.store(address, Ordering::Relaxed);
        }
        self.depth.store(addresses.len(), Ordering::Release);
    }

    /// The entry's stack, if any. Frees are read first: an allocation is counted before it is
    /// freed.
    fn read(&self) -> Option<Stack> {
        let freed_objects = self.freed_objects.load(Ordering::Acquire);
        let freed_bytes = self.freed_bytes.load(Ordering::Acquire);
        let allocated_objects = self.allocated_objects.load(Ordering::Relaxed);
        let allocated_bytes = self.allocated_bytes.load(Ordering::Relaxed);
        let depth = self.depth.load(Ordering::Acquire);
        let frames = self.frames.iter().take(depth);
        (allocated_objects > 0).then(|| Stack {
            frames: frames.map(|frame| frame.load(Ordering::Relaxed)).collect(),
            allocated: Amount {
                objects: allocated_objects.div_ceil(OBJECT),
                bytes: allocated_bytes,
            },
            live: Amount {
                objects: allocated_objects
                    .saturating_sub(freed_objects)
                    .div_ceil(OBJECT),
                bytes: allocated_bytes.saturating_sub(freed_bytes),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{OBJECT, Weight};

    #[test]
    fn sampled_allocations_are_weighted_by_their_size() {
        const DISTANCE: u32 = 512 * 1024;
        for (size, objects, bytes) in [
            (64, 8192, 512 * 1024),
            (512 * 1024, 1, 829_423),
            (64 * 1024 * 1024, 1, 64 * 1024 * 1024),
        ] {
            let weight = Weight::of(size, DISTANCE);
            assert_eq!(weight.objects / OBJECT, objects, "{size}");
            let error = weight.bytes.abs_diff(bytes) * 1000 / bytes;
            assert!(error <= 1, "{size}: {} bytes", weight.bytes);
        }
    }
}

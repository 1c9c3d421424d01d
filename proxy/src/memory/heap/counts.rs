//! How much each shard, and the rest of the process, has allocated: counted, not sampled.
//!
//! A shard counts in a slot that it alone writes, so counting is a load and a store; all other
//! threads share one. What one thread allocates and another frees is counted by each for its part,
//! so that the sum over all slots is exact, and what lives of one shard a close estimate.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::limits::HEAP_SHARDS;

/// What was allocated since the start, and what of that was freed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Allocations.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Allocations that were freed.
    pub freed_count: u64,
    /// Their bytes.
    pub freed_bytes: u64,
}

impl Allocated {
    fn add(self, other: Self) -> Self {
        Self {
            count: self.count.wrapping_add(other.count),
            bytes: self.bytes.wrapping_add(other.bytes),
            freed_count: self.freed_count.wrapping_add(other.freed_count),
            freed_bytes: self.freed_bytes.wrapping_add(other.freed_bytes),
        }
    }
}

/// Has the calling thread counted as this shard from here on. A shard that is started again goes on
/// counting where its predecessor ended.
pub fn count_as_shard(id: u16) {
    OWN.set(SHARDS.get(usize::from(id)).map(|slot| &**slot));
}

/// What a shard has allocated; `None` for one without a slot, which counts among the others.
#[must_use]
pub fn of_shard(id: u16) -> Option<Allocated> {
    SHARDS.get(usize::from(id)).map(|slot| slot.read())
}

/// What the whole process has allocated.
#[must_use]
pub fn of_process() -> Allocated {
    let shards = SHARDS.iter().map(|slot| slot.read());
    shards.fold(OTHERS.read(), Allocated::add)
}

struct Slot {
    count: AtomicU64,
    bytes: AtomicU64,
    freed_count: AtomicU64,
    freed_bytes: AtomicU64,
}

static SHARDS: [CachePadded<Slot>; HEAP_SHARDS] =
    [const { CachePadded::new(Slot::new()) }; HEAP_SHARDS];
static OTHERS: CachePadded<Slot> = CachePadded::new(Slot::new());

thread_local! {
    /// Where a shard's thread counts. A cell without a destructor, so that it is there as long as
    /// its thread allocates.
    static OWN: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

/// Counts an allocation.
pub(super) fn note_allocated(size: usize) {
    if let Some(slot) = OWN.get() {
        advance(&slot.count, 1);
        advance(&slot.bytes, size as u64);
    } else {
        OTHERS.count.fetch_add(1, Ordering::Relaxed);
        OTHERS.bytes.fetch_add(size as u64, Ordering::Relaxed);
    }
}

/// Counts that an allocation is freed.
pub(super) fn note_freed(size: usize) {
    if let Some(slot) = OWN.get() {
        advance(&slot.freed_count, 1);
        advance(&slot.freed_bytes, size as u64);
    } else {
        OTHERS.freed_count.fetch_add(1, Ordering::Relaxed);
        OTHERS.freed_bytes.fetch_add(size as u64, Ordering::Relaxed);
    }
}

/// Adds to a number that one thread writes.
fn advance(number: &AtomicU64, by: u64) {
    let sum = number.load(Ordering::Relaxed).wrapping_add(by);
    number.store(sum, Ordering::Relaxed);
}

impl Slot {
    const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            freed_count: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
        }
    }

    /// The numbers as they come: while threads allocate they may be of slightly different moments,
    /// and what was freed may seem more than what was allocated.
    fn read(&self) -> Allocated {
        Allocated {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            freed_count: self.freed_count.load(Ordering::Relaxed),
            freed_bytes: self.freed_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{count_as_shard, note_allocated, note_freed, of_process, of_shard};

    #[test]
    fn a_shard_counts_for_itself_and_for_the_process() {
        const ID: u16 = 200;
        let counted = std::thread::spawn(|| {
            count_as_shard(ID);
            note_allocated(100);
            note_allocated(28);
            note_freed(100);
            of_shard(ID).expect("it has a slot")
        });
        let counted = counted.join().expect("no panic");
        assert_eq!((counted.count, counted.bytes), (2, 128));
        assert_eq!((counted.freed_count, counted.freed_bytes), (1, 100));
        assert!(of_process().bytes >= 128);
        assert_eq!(of_shard(u16::MAX), None);
    }
}

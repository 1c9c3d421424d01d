//! Exact allocation counts of each shard, and of the rest of the process.
//!
//! A shard counts in a slot that only it writes, so counting is a load and a store; all other
//! threads share one. If one thread allocates and another frees, each counts its part, so that the
//! sum over all slots is exact, and the live memory of one shard a close estimate.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::limits::HEAP_SHARDS;

/// Allocated and freed amounts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Number of allocations since the start.
    pub count: u64,
    /// Bytes allocated since the start.
    pub bytes: u64,
    /// Number of freed allocations.
    pub freed_count: u64,
    /// Bytes freed since the start.
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

/// Counts the calling thread as this shard from now on. A restarted shard continues its
/// predecessor's counts.
pub fn count_as_shard(id: u16) {
    OWN.set(SHARDS.get(usize::from(id)).map(|slot| &**slot));
}

/// The counts of a shard; `None` if it has no slot and is counted among the others.
#[must_use]
pub fn of_shard(id: u16) -> Option<Allocated> {
    SHARDS.get(usize::from(id)).map(|slot| slot.read())
}

/// The counts of the whole process.
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
    /// The slot of a shard's thread. A cell without destructor, so that it exists as long as its
    /// thread allocates.
    static OWN: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

pub(super) fn record_allocation(size: usize) {
    if let Some(slot) = OWN.get() {
        advance(&slot.count, 1);
        advance(&slot.bytes, size as u64);
    } else {
        OTHERS.count.fetch_add(1, Ordering::Relaxed);
        OTHERS.bytes.fetch_add(size as u64, Ordering::Relaxed);
    }
}

/// Counts a freed allocation.
pub(super) fn record_free(size: usize) {
    if let Some(slot) = OWN.get() {
        advance(&slot.freed_count, 1);
        advance(&slot.freed_bytes, size as u64);
    } else {
        OTHERS.freed_count.fetch_add(1, Ordering::Relaxed);
        OTHERS.freed_bytes.fetch_add(size as u64, Ordering::Relaxed);
    }
}

/// Adds to a number that only one thread writes.
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

    /// Reads the numbers one by one: while threads allocate they may be of slightly different
    /// moments, and more may seem freed than allocated.
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
    use super::{count_as_shard, of_process, of_shard, record_allocation, record_free};

    #[test]
    fn allocations_of_a_shard_count_for_the_shard_and_the_process() {
        const ID: u16 = 200;
        let counts = std::thread::spawn(|| {
            count_as_shard(ID);
            record_allocation(100);
            record_allocation(28);
            record_free(100);
            of_shard(ID).expect("it has a slot")
        });
        let counts = counts.join().expect("no panic");
        assert_eq!((counts.count, counts.bytes), (2, 128));
        assert_eq!((counts.freed_count, counts.freed_bytes), (1, 100));
        assert!(of_process().bytes >= 128);
        assert_eq!(of_shard(u16::MAX), None);
    }
}

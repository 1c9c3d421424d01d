//! The sampled allocations that are not freed yet.
//!
//! A fixed-size hash table with buckets of one cache line. Every free has to check whether its
//! address was sampled; one byte per bucket, which counts its entries, answers that in nearly all
//! cases.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::stacks::{self, StackId, Weight};
use crate::limits::HEAP_LIVE_SAMPLES;

const BUCKETS: usize = HEAP_LIVE_SAMPLES / PLACES;
/// Slots per bucket: their addresses fill a cache line.
const PLACES: usize = 8;

static PRESENT: [AtomicU8; BUCKETS] = [const { AtomicU8::new(0) }; BUCKETS];
static TABLE: [Bucket; BUCKETS] = [const { Bucket::empty() }; BUCKETS];

#[repr(align(64))]
struct Bucket {
    addresses: [AtomicUsize; PLACES],
    samples: [Sample; PLACES],
}

struct Sample {
    stack: AtomicUsize,
    objects: AtomicU64,
    bytes: AtomicU64,
}

/// Marks a slot that is claimed and not filled yet; no allocation has this address.
const CLAIMED: usize = 1;

/// Records a sampled allocation until it is freed. One without a free slot counts as live forever:
/// better than a hidden leak.
pub(super) fn record(address: *mut u8, stack: StackId, weight: Weight) {
    let at = bucket_of(address);
    let bucket = &TABLE[at];
    for (place, sample) in bucket.addresses.iter().zip(&bucket.samples) {
        let taken = place.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            sample.stack.store(stack.to_number(), Ordering::Relaxed);
            sample.objects.store(weight.objects, Ordering::Relaxed);
            sample.bytes.store(weight.bytes, Ordering::Relaxed);
            PRESENT[at].fetch_add(1, Ordering::Relaxed);
            place.store(address.addr(), Ordering::Release);
            return;
        }
    }
}

/// Number of recorded allocations.
pub(super) fn count() -> u64 {
    let present = PRESENT.iter();
    present
        .map(|count| u64::from(count.load(Ordering::Relaxed)))
        .sum()
}

/// Counts a sampled allocation that is about to be freed. The freeing thread received the address
/// from the allocating one, so that one's writes are visible.
pub(super) fn record_free(address: *mut u8) {
    let at = bucket_of(address);
    if PRESENT[at].load(Ordering::Relaxed) != 0 {
        find_sample(at, address);
    }
}

#[cold]
fn find_sample(at: usize, address: *mut u8) {
    let bucket = &TABLE[at];
    for (place, sample) in bucket.addresses.iter().zip(&bucket.samples) {
        if place.load(Ordering::Acquire) != address.addr() {
            continue;
        }
        let stack = StackId::of_number(sample.stack.load(Ordering::Relaxed));
        let weight = Weight {
            objects: sample.objects.load(Ordering::Relaxed),
            bytes: sample.bytes.load(Ordering::Relaxed),
        };
        PRESENT[at].fetch_sub(1, Ordering::Relaxed);
        place.store(0, Ordering::Release);
        return stacks::record_free(stack, weight);
    }
}

/// Fibonacci hashing; allocations are aligned to 16 bytes.
fn bucket_of(address: *mut u8) -> usize {
    let mixed = (address.addr() as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bucket = mixed >> (u64::BITS - BUCKETS.trailing_zeros());
    usize::try_from(bucket).unwrap_or_default()
}

impl Bucket {
    const fn empty() -> Self {
        Self {
            addresses: [const { AtomicUsize::new(0) }; PLACES],
            samples: [const {
                Sample {
                    stack: AtomicUsize::new(0),
                    objects: AtomicU64::new(0),
                    bytes: AtomicU64::new(0),
                }
            }; PLACES],
        }
    }
}

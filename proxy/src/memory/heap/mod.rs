//! The sampling heap profiler: cheap enough to be always on.
//!
//! [`SamplingAllocator`] wraps the allocator. Each thread counts down the bytes it allocates, and when the
//! count runs out (every 512 KiB on average, at exponentially distributed distances, so that no
//! pattern of sizes is missed) records the stack and, until it is freed, the allocation. A sample
//! of size s stands for 1 / (1 - e^(-s/512 KiB)) allocations of its size, and is scaled by that, as
//! in Go and tcmalloc.
//!
//! In addition, [`counts`] has exact numbers, without stacks.
//!
//! Nothing in here allocates, locks or waits: it runs inside of every allocation.

pub mod counts;
mod live;
mod stacks;
mod thread;
mod walk;

use std::alloc::{GlobalAlloc, Layout};

pub use self::stacks::{Amount, Stack, stacks};
pub use self::thread::{Samples, Sampling, samples, sampling, set_sampling};

/// An allocator with sampling.
#[derive(Debug, Default)]
pub struct SamplingAllocator<A>(A);

impl<A> SamplingAllocator<A> {
    /// Adds sampling to an allocator; it is off until a rate is set.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

#[expect(unsafe_code, reason = "the interface of allocators")]
// SAFETY: every call is passed on unchanged to the wrapped allocator; the rest only uses addresses
// and sizes, and neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SamplingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let address = unsafe { self.0.alloc(layout) };
        record_allocation(address, layout.size());
        address
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let address = unsafe { self.0.alloc_zeroed(layout) };
        record_allocation(address, layout.size());
        address
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // First, since another thread may receive the address as soon as it is free.
        live::record_free(address);
        counts::record_free(layout.size());
        // SAFETY: as above.
        unsafe { self.0.dealloc(address, layout) };
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        live::record_free(address);
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(address, layout, size) };
        if !moved.is_null() {
            counts::record_free(layout.size());
        }
        record_allocation(moved, size);
        moved
    }
}

/// Records an allocation; a null pointer is a failed one.
fn record_allocation(address: *mut u8, size: usize) {
    thread::record_allocation(address, size);
    if !address.is_null() {
        counts::record_allocation(size);
    }
}

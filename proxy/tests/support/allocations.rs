//! The allocator of tests that count allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of each thread on their way to the system's allocator.
struct Counting;

thread_local! {
    /// Allocations of the thread so far.
    pub(crate) static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; this one only counts"
)]
// SAFETY: every call goes to `System` unchanged, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

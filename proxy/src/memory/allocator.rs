//! The allocator of the process: mimalloc, by the shortest path.

use std::alloc::{GlobalAlloc, Layout};

use mimalloc::MiMalloc;

/// mimalloc. It is asked for an alignment only where one above that of every block is needed: finding an aligned
/// block takes up to ten times the instructions of taking the next one.
#[derive(Debug, Default)]
pub struct Allocator;

/// The alignment of every block: sizes are rounded up to multiples of a word.
const WORD: usize = size_of::<usize>();

#[expect(unsafe_code, reason = "the interface of allocators")]
// SAFETY: every call goes to mimalloc, whose functions with and without an alignment may be mixed.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD {
            // SAFETY: it takes any size.
            return unsafe { libmimalloc_sys::mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD {
            // SAFETY: as above.
            return unsafe { libmimalloc_sys::mi_zalloc(layout.size()) }.cast();
        }
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(address, layout) };
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(address, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        unsafe_code,
        reason = "calls an allocator as the standard library does"
    )]
    fn blocks_have_their_alignment_and_keep_their_content() {
        for align in (0..=7).map(|power| 1 << power) {
            for size in [1, 3, 8, 24, 40, 1000, 1025, 5000, 70_000] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: the layout is not empty, and the blocks are freed by it.
                unsafe {
                    let block = Allocator.alloc(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align));
                    block.write_bytes(7, size);
                    let block = Allocator.realloc(block, layout, 2 * size);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align));
                    assert!((0..size).all(|at| block.add(at).read() == 7));
                    let larger = Layout::from_size_align(2 * size, align).expect("a layout");
                    Allocator.dealloc(block, larger);
                    let block = Allocator.alloc_zeroed(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align));
                    assert!((0..size).all(|at| block.add(at).read() == 0));
                    Allocator.dealloc(block, layout);
                }
            }
        }
    }
}

//! The heap profile contains leaked allocations, and not freed ones.

use std::hint::black_box;

use mimalloc::MiMalloc;
use proxy::memory::heap::{SamplingAllocator, Stack, stacks};

#[global_allocator]
static ALLOCATOR: SamplingAllocator<MiMalloc> = SamplingAllocator::new(MiMalloc);

const PIECE: usize = 1_000;
const PIECES: usize = 128 * 1024;
const LEAKED: u64 = (PIECE * PIECES) as u64;

#[inline(never)]
fn leak() -> Vec<Vec<u8>> {
    (0..PIECES).map(|_| piece()).collect()
}

/// The line of the next function that allocates.
const LINE: u32 = line!() + 4;

#[inline(never)]
fn piece() -> Vec<u8> {
    black_box(Vec::with_capacity(PIECE))
}

/// Whether one of a stack's frames is at a line of this file.
fn is_at(stack: &Stack, line: u32) -> bool {
    stack.frames.iter().any(|&frame| {
        let mut found = false;
        // A return address is after its call.
        backtrace::resolve(std::ptr::without_provenance_mut(frame - 1), |symbol| {
            found |= symbol.lineno() == Some(line)
                && symbol
                    .filename()
                    .is_some_and(|file| file.ends_with("tests/heap.rs"));
        });
        found
    })
}

fn live_at(line: u32) -> u64 {
    let here = stacks().filter(|stack| is_at(stack, line));
    here.map(|stack| stack.live.bytes).sum()
}

/// One test: there is one heap.
#[test]
fn sampled_allocations_are_reported_until_they_are_freed() {
    a_leak_is_attributed_to_its_line_until_it_is_freed();
    allocations_freed_by_another_thread_are_not_reported();
}

fn allocations_freed_by_another_thread_are_not_reported() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let made = scope.spawn(pieces_made_here).join().expect("pieces");
            assert!(live_at(OTHER_LINE) > 0, "they are sampled");
            scope.spawn(|| drop(made)).join().expect("freed");
            assert_eq!(live_at(OTHER_LINE), 0);
        }
    });
}

/// The line of the next function that allocates.
const OTHER_LINE: u32 = line!() + 5;

#[inline(never)]
fn pieces_made_here() -> Vec<Box<[u8]>> {
    (0..16 * 1024)
        .map(|_| black_box(Box::<[u8]>::from([0; PIECE])))
        .collect()
}

fn a_leak_is_attributed_to_its_line_until_it_is_freed() {
    let before: u64 = stacks().map(|stack| stack.live.bytes).sum();
    let leaked = leak();
    let live: u64 = stacks().map(|stack| stack.live.bytes).sum();
    let found = live_at(LINE);
    // 250 samples: their number deviates by 6 % (one sigma).
    assert!(
        found.abs_diff(LEAKED) < LEAKED / 4,
        "{found} bytes of {LEAKED} were found"
    );
    let others = live - before - found;
    assert!(others <= live / 20, "{others} of {live} bytes elsewhere");
    drop(leaked);
    assert_eq!(live_at(LINE), 0, "all of it was freed");
}

//! An allocator that counts the allocations of one thread, and prints the backtrace of the first
//! ones.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Allocations of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Allocations and reallocations.
    pub(crate) allocations: usize,
    pub(crate) frees: usize,
}

/// A thread whose allocations are counted until this is dropped.
pub(crate) struct Watched {
    allocations: &'static AtomicUsize,
    frees: &'static AtomicUsize,
}

impl Watched {
    /// Counts from here on, and prints the backtraces of the first few.
    #[track_caller]
    pub(crate) fn thread(name: &str) -> Self {
        Self::start(name, BACKTRACES)
    }

    /// Counts from here on.
    #[track_caller]
    pub(crate) fn quietly(name: &str) -> Self {
        Self::start(name, 0)
    }

    #[track_caller]
    fn start(name: &str, backtraces: usize) -> Self {
        ALLOCATIONS.store(0, Ordering::Relaxed);
        FREES.store(0, Ordering::Relaxed);
        TO_SHOW.store(backtraces, Ordering::Relaxed);
        WATCHED.store(thread_id(name), Ordering::SeqCst);
        Self {
            allocations: &ALLOCATIONS,
            frees: &FREES,
        }
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            allocations: self.allocations.load(Ordering::Relaxed),
            frees: self.frees.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED.store(NOBODY, Ordering::SeqCst);
    }
}

/// The kernel's id of this process's only thread of that name.
#[track_caller]
fn thread_id(name: &str) -> i32 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc is mounted");
    let named = tasks.filter_map(|task| {
        let path = task.ok()?.path();
        let comm = std::fs::read_to_string(path.join("comm")).ok()?;
        (comm.trim_end() == name).then(|| path.file_name()?.to_str()?.parse().ok())?
    });
    let found: Vec<i32> = named.collect();
    assert_eq!(found.len(), 1, "one thread is called `{name}`");
    found[0]
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

const NOBODY: i32 = 0;
static WATCHED: AtomicI32 = AtomicI32::new(NOBODY);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static FREES: AtomicUsize = AtomicUsize::new(0);
/// Backtraces left to print.
static TO_SHOW: AtomicUsize = AtomicUsize::new(0);
/// Whether one is being printed, which allocates.
static SHOWING: AtomicBool = AtomicBool::new(false);

/// Backtraces printed per test: more would hide the first.
const BACKTRACES: usize = 3;

thread_local! {
    static THREAD: Cell<i32> = const { Cell::new(NOBODY) };
}

fn is_watched() -> bool {
    let watched = WATCHED.load(Ordering::Relaxed);
    watched != NOBODY && this_thread() == watched && !SHOWING.load(Ordering::Relaxed)
}

#[expect(
    unsafe_code,
    reason = "the standard library does not tell a thread's id"
)]
fn this_thread() -> i32 {
    if THREAD.get() == NOBODY {
        // SAFETY: gettid takes nothing and cannot fail.
        THREAD.set(unsafe { libc::gettid() });
    }
    THREAD.get()
}

fn note(counter: &AtomicUsize) {
    if !is_watched() {
        return;
    }
    counter.fetch_add(1, Ordering::Relaxed);
    let show = |left: usize| left.checked_sub(1);
    let shown = TO_SHOW.fetch_update(Ordering::Relaxed, Ordering::Relaxed, show);
    if shown.is_ok() {
        SHOWING.store(true, Ordering::Relaxed);
        eprintln!(
            "the shard's heap is used by\n{}",
            Backtrace::force_capture()
        );
        SHOWING.store(false, Ordering::Relaxed);
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; this one only counts"
)]
// SAFETY: every call goes to `System` unchanged, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(&ALLOCATIONS);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(&ALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(&ALLOCATIONS);
        // SAFETY: as above; the memory came from `System` with this layout.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(&FREES);
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

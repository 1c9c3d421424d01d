//! Returns memory to the system after bursts.

#![expect(unsafe_code, reason = "madvise(2), and calls of the allocator's")]

use std::ffi::CStr;
use std::mem::MaybeUninit;

use admin_types::memory::Allocator;

/// Returns the whole pages of memory that is about to be freed immediately: the allocator would
/// keep them for a while. Their contents are lost.
pub(crate) fn discard(memory: &mut [MaybeUninit<u8>]) {
    let start = memory.as_mut_ptr();
    let skipped = start.align_offset(PAGE);
    let Some(length) = memory.len().checked_sub(skipped) else {
        return;
    };
    // SAFETY: the pages lie within `memory`, which nothing else can access, and whose bytes need no
    // value. On an error they stay as they are.
    unsafe {
        let first = start.add(skipped).cast();
        libc::madvise(first, length / PAGE * PAGE, libc::MADV_DONTNEED);
    }
}

/// Unmaps the code of the program, which is read from the page cache again as it runs. The kernel maps
/// the 64 KiB around each page that is used, so starting, or loading a large configuration, leaves
/// two thirds of the program mapped, 14 MiB, of which serving requests needs little. Each 64 KiB
/// costs one minor page fault when it is used next.
pub fn unmap_code() {
    let start = &raw const __executable_start;
    let skipped = start.align_offset(PAGE);
    let length = (&raw const etext).addr() - start.addr() - skipped;
    // SAFETY: from the start of the program to the end of its code, pages are never written, so they
    // are read from the file again. On an error they stay mapped.
    unsafe {
        let first = start.add(skipped).cast_mut().cast();
        libc::madvise(first, length / PAGE * PAGE, libc::MADV_DONTNEED);
    }
}

// Addresses that the linker defines.
unsafe extern "C" {
    static __executable_start: u8;
    static etext: u8;
}

/// Lets the allocator return the memory freed by this thread.
pub(crate) fn trim() {
    // SAFETY: it only affects the allocator's own free memory, on any thread.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Statistics of the allocator.
#[must_use]
pub fn report() -> Allocator {
    let [
        mut elapsed,
        mut user,
        mut system,
        mut rss,
        mut peak_rss,
        mut committed,
    ] = [0_usize; 6];
    let [mut peak_committed, mut faults] = [0_usize; 2];
    // SAFETY: each pointer names a live number of the type that the call writes.
    unsafe {
        libmimalloc_sys::mi_process_info(
            &raw mut elapsed,
            &raw mut user,
            &raw mut system,
            &raw mut rss,
            &raw mut peak_rss,
            &raw mut committed,
            &raw mut peak_committed,
            &raw mut faults,
        );
    }
    Allocator {
        name: "mimalloc".to_owned(),
        committed: committed as u64,
        peak_committed: peak_committed as u64,
        reserved: reserved().unwrap_or(committed as u64),
        rss: rss as u64,
        peak_rss: peak_rss as u64,
        page_faults: faults as u64,
    }
}

/// Reserved address space, which the allocator reports only in its JSON.
fn reserved() -> Option<u64> {
    // SAFETY: without a buffer the call allocates one, which is freed below; it ends in a zero.
    let json = unsafe {
        let text = libmimalloc_sys::mi_stats_get_json(0, std::ptr::null_mut());
        if text.is_null() {
            return None;
        }
        let json = CStr::from_ptr(text).to_string_lossy().into_owned();
        libmimalloc_sys::mi_free(text.cast());
        json
    };
    let json: serde_json::Value = serde_json::from_str(&json).ok()?;
    json.get("reserved")?.get("current")?.as_u64()
}

/// Bytes of a page; where pages are larger, `madvise` refuses what is not aligned to them.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::{PAGE, discard, unmap_code};

    /// Kilobytes of code that are mapped.
    fn mapped_code() -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel reports it");
        let mut mappings = maps.lines().skip_while(|line| !line.contains(" r-xp "));
        let rss = mappings.find_map(|line| line.strip_prefix("Rss:"));
        let kilobytes = rss.and_then(|rss| rss.trim().strip_suffix(" kB"));
        kilobytes.expect("a size").parse().expect("a number")
    }

    #[test]
    fn unmapped_code_can_still_be_executed() {
        let before = mapped_code();
        unmap_code();
        let after = mapped_code();
        assert!(after < before, "{before} kB before, {after} kB after");
    }

    #[test]
    fn only_whole_pages_are_discarded() {
        let mut memory = Box::<[u8]>::new_uninit_slice(4 * PAGE);
        memory.fill(MaybeUninit::new(7));
        let skipped = memory.as_ptr().align_offset(PAGE);
        discard(&mut memory[..3 * PAGE]);
        // SAFETY: written above; discarded pages read as zeros.
        let bytes = unsafe { memory.assume_init() };
        assert!(bytes[..skipped].iter().all(|byte| *byte == 7));
        assert!(bytes[3 * PAGE..].iter().all(|byte| *byte == 7));
        discard(&mut []);
    }
}

//! This process: what the kernel reports about it, and its pages.

use std::fs;

use crate::cgroup::field;

/// Resident memory of this process in bytes (`VmRSS` of proc(5)); `None` without `/proc`.
#[must_use]
pub fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    bytes_of(&status, "VmRSS:")
}

/// Uses small pages for memory from now on. The allocator requests huge ones, which stay whole while
/// anything in them is used: a waiting buffer uses 2 MiB after touching 8 KiB, and a configuration of 18 MB took
/// 30 MB, and 20 in small ones. It has to run before the first allocation, so before `main`: what has been
/// allocated stays in huge pages.
pub extern "C" fn use_small_pages() {
    // An error is seen later, by `uses_small_pages`.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Whether memory is in small pages. Old kernels cannot turn huge ones off.
#[must_use]
pub fn uses_small_pages() -> bool {
    rustix::thread::transparent_huge_pages_are_disabled().unwrap_or_default()
}

/// A size in bytes, from a file of `/proc` that states it in KiB.
pub(crate) fn bytes_of(text: &str, name: &str) -> Option<u64> {
    field(text, name).and_then(|value| value.checked_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::{bytes_of, resident_memory};

    #[test]
    fn sizes_are_in_bytes() {
        assert_eq!(bytes_of("VmRSS:\t 12 kB\n", "VmRSS:"), Some(12 << 10));
        let resident = resident_memory().expect("Linux has it");
        assert!(resident > 1 << 20, "{resident}");
    }
}

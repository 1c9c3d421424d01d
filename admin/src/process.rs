//! What the kernel reports about this process.

use std::fs;

use crate::cgroup::field;

/// Resident memory of this process in bytes (`VmRSS` of proc(5)); `None` without `/proc`.
#[must_use]
pub fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:")
}

/// A size in bytes, from a file of `/proc` that gives it in KiB.
pub(crate) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name).and_then(|value| value.checked_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::{kibibytes, resident_memory};

    #[test]
    fn sizes_are_in_bytes() {
        assert_eq!(kibibytes("VmRSS:\t 12 kB\n", "VmRSS:"), Some(12 << 10));
        let resident = resident_memory().expect("Linux has it");
        assert!(resident > 1 << 20, "{resident}");
    }
}

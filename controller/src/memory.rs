//! Returns free memory to the system.

#![expect(unsafe_code, reason = "a call of the allocator's")]

use std::time::Duration;

use tokio::time::interval;

/// Returns freed memory every 10 seconds, until it is dropped. The allocator does so only when the
/// process frees more, so that an idle controller would keep what its first lists of objects, or
/// thousands of objects that are gone, have used.
pub async fn return_freed() {
    let mut ticks = interval(INTERVAL);
    loop {
        ticks.tick().await;
        // SAFETY: it only affects the allocator's own free memory, on any thread.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
}

/// 10 s: a load of objects has ended by then, and little work is wasted when nothing was freed.
const INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Duration;

    use super::{INTERVAL, return_freed};

    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    /// Resident memory of this process, in KiB.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|it| it.parse().ok()).expect("a number")
    }

    #[tokio::test(start_paused = true)]
    async fn freed_memory_returns_to_the_system() {
        let objects: Vec<_> = (0..400_000).map(|_| Box::new([7_u8; 200])).collect();
        let used = resident();
        drop(black_box(objects));
        let returning = tokio::time::timeout(INTERVAL + Duration::from_secs(1), return_freed());
        assert!(returning.await.is_err(), "it goes on until it is dropped");
        let remaining = resident();
        assert!(
            remaining + 70_000 < used,
            "{used} KiB used, {remaining} KiB kept"
        );
    }
}

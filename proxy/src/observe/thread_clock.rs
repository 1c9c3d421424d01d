//! The CPU time of a shard's thread.

#![expect(
    clippy::disallowed_methods,
    reason = "files of the kernel, not of a disk: read once at the start, then by the admin server"
)]

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A thread's id, with which other threads read its CPU time.
#[derive(Debug, Default)]
pub struct ThreadClock(AtomicU32);

impl ThreadClock {
    /// Records the calling thread.
    pub fn start(&self) {
        // The link has the form `<process>/task/<thread>`.
        let link = fs::read_link("/proc/thread-self").ok();
        let id = link
            .as_ref()
            .and_then(|link| link.file_name()?.to_str()?.parse().ok());
        self.0.store(id.unwrap_or(0), Ordering::Relaxed);
    }

    /// CPU time of the thread; `None` before its start, after its end, and if the kernel does not
    /// account it.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        let id = self.0.load(Ordering::Relaxed);
        if id == 0 {
            return None;
        }
        let text = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?;
        let nanoseconds = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadClock;

    #[test]
    fn a_started_thread_has_a_cpu_clock() {
        let clock = ThreadClock::default();
        assert_eq!(clock.cpu_time(), None);
        clock.start();
        let before = clock.cpu_time().expect("the kernel counts");
        while clock.cpu_time().expect("the kernel counts") == before {}
    }
}

//! When memory that changes of the configuration have used is returned to the system.

use std::time::Instant;

use crate::limits::{TRIM_AFTER_CHANGES, TRIM_WHEN_QUIET, UNMAP_INTERVAL};
use crate::memory;

/// What to return. Single changes use as much of the program as a large load: after many of them its
/// code is mapped again. After a few it stays mapped, since shards take page faults as they use it next;
/// for the same reason it is returned at most once in [`UNMAP_INTERVAL`] after small changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trim {
    /// Free memory of the allocator.
    Memory,
    /// That, and the mapped code of the program.
    MemoryAndCode,
}

impl Trim {
    pub(super) fn run(self) {
        memory::trim();
        if self == Self::MemoryAndCode {
            memory::unmap_code();
        }
    }
}

/// Decides when to trim: right after a large update, or once there has been none for a while.
#[derive(Debug, Default)]
pub(super) struct TrimSchedule {
    /// Resources that changed since the code was last unmapped.
    changed: usize,
    /// When it was.
    unmapped: Option<Instant>,
    due: Option<Instant>,
}

impl TrimSchedule {
    /// Records an update of this many resources. Returns what to return right after it.
    pub(super) fn record(&mut self, resources: usize, now: Instant) -> Option<Trim> {
        self.changed = self.changed.saturating_add(resources);
        if resources < TRIM_AFTER_CHANGES {
            self.due = Some(now + TRIM_WHEN_QUIET);
            return None;
        }
        // The next such load may be days away.
        self.due = None;
        Some(self.trim_all(now))
    }

    /// When the next trim is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What to return now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Trim> {
        self.due.take_if(|due| *due <= now)?;
        if self.changed < TRIM_AFTER_CHANGES {
            return Some(Trim::Memory);
        }
        let next = self.unmapped.map(|at| at + UNMAP_INTERVAL);
        if let Some(next) = next.filter(|next| now < *next) {
            self.due = Some(next);
            return Some(Trim::Memory);
        }
        Some(self.trim_all(now))
    }

    fn trim_all(&mut self, now: Instant) -> Trim {
        self.changed = 0;
        self.unmapped = Some(now);
        Trim::MemoryAndCode
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Trim, TrimSchedule};
    use crate::limits::{TRIM_AFTER_CHANGES, TRIM_WHEN_QUIET, UNMAP_INTERVAL};

    #[test]
    fn a_large_update_returns_everything_at_once() {
        let (mut schedule, now) = (TrimSchedule::default(), Instant::now());
        assert_eq!(schedule.record(1, now), None);
        let large = schedule.record(TRIM_AFTER_CHANGES, now);
        assert_eq!(large, Some(Trim::MemoryAndCode));
        assert_eq!(schedule.due(), None);
        assert_eq!(schedule.record(1, now), None);
        let quiet = now + TRIM_WHEN_QUIET;
        assert_eq!(schedule.take_due(quiet), Some(Trim::Memory));
    }

    #[test]
    fn each_small_update_postpones_a_trim() {
        let (mut schedule, start) = (TrimSchedule::default(), Instant::now());
        let later = start + Duration::from_millis(1);
        assert_eq!(schedule.record(1, start), None);
        assert_eq!(schedule.record(1, later), None);
        assert_eq!(schedule.take_due(start + TRIM_WHEN_QUIET), None);
        assert_eq!(schedule.due(), Some(later + TRIM_WHEN_QUIET));
        let due = schedule.take_due(later + TRIM_WHEN_QUIET);
        assert_eq!((due, schedule.due()), (Some(Trim::Memory), None));
    }

    #[test]
    fn many_small_updates_return_the_code_too() {
        let (mut schedule, start) = (TrimSchedule::default(), Instant::now());
        let mut many = |now: Instant| {
            for _ in 0..TRIM_AFTER_CHANGES {
                assert_eq!(schedule.record(1, now), None);
            }
            let trim = schedule.take_due(now + TRIM_WHEN_QUIET);
            (trim, schedule.due())
        };
        let first = start + TRIM_WHEN_QUIET;
        assert_eq!(many(start), (Some(Trim::MemoryAndCode), None));
        let next = first + UNMAP_INTERVAL;
        assert_eq!(many(first), (Some(Trim::Memory), Some(next)), "too soon");
        assert_eq!(schedule.take_due(next), Some(Trim::MemoryAndCode));
        assert_eq!(schedule.record(1, next), None);
        let quiet = next + TRIM_WHEN_QUIET;
        assert_eq!(schedule.take_due(quiet), Some(Trim::Memory), "only one");
    }
}

//! When memory that changes of the configuration have used is returned to the system.

use std::time::Instant;

use crate::limits::{TRIM_AFTER_CHANGES, TRIM_AFTER_LARGE, TRIM_WHEN_QUIET, UNMAP_INTERVAL};
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

/// Decides when to trim: soon after a large update, or once there has been none for a while. Never before
/// an update is acknowledged, which others wait for.
#[derive(Debug, Default)]
pub(super) struct TrimSchedule {
    /// Resources that changed since the code was last unmapped.
    changed: usize,
    /// When it was.
    unmapped: Option<Instant>,
    /// After the last small update.
    quiet: Option<Instant>,
    /// After the first large update since the last trim, or when the code may be unmapped again.
    large: Option<Instant>,
}

impl TrimSchedule {
    /// Records an update of this many resources.
    pub(super) fn record(&mut self, resources: usize, now: Instant) {
        self.changed = self.changed.saturating_add(resources);
        if resources < TRIM_AFTER_CHANGES {
            self.quiet = Some(now + TRIM_WHEN_QUIET);
        } else {
            // A series of large updates does not postpone it, and the next one may be days away.
            let large = now + TRIM_AFTER_LARGE;
            self.large = Some(self.large.map_or(large, |due| due.min(large)));
        }
    }

    /// When the next trim is due.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.quiet, self.large].into_iter().flatten().min()
    }

    /// What to return now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Trim> {
        self.due().filter(|due| *due <= now)?;
        (self.quiet, self.large) = (None, None);
        if self.changed < TRIM_AFTER_CHANGES {
            return Some(Trim::Memory);
        }
        let next = self.unmapped.map(|at| at + UNMAP_INTERVAL);
        if let Some(next) = next.filter(|next| now < *next) {
            self.large = Some(next);
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
    use crate::limits::{TRIM_AFTER_CHANGES, TRIM_AFTER_LARGE, TRIM_WHEN_QUIET, UNMAP_INTERVAL};

    #[test]
    fn a_large_update_returns_everything_after_it_is_acknowledged() {
        let (mut schedule, now) = (TrimSchedule::default(), Instant::now());
        schedule.record(TRIM_AFTER_CHANGES, now);
        assert_eq!(schedule.take_due(now), None);
        let soon = now + TRIM_AFTER_LARGE;
        assert_eq!(schedule.due(), Some(soon));
        assert_eq!(schedule.take_due(soon), Some(Trim::MemoryAndCode));
        assert_eq!(schedule.due(), None);
        schedule.record(1, soon);
        let quiet = soon + TRIM_WHEN_QUIET;
        assert_eq!(schedule.take_due(quiet), Some(Trim::Memory));
    }

    #[test]
    fn a_series_of_large_updates_unmaps_the_code_once_in_an_interval() {
        let (mut schedule, start) = (TrimSchedule::default(), Instant::now());
        let (mut now, mut trims) = (start, Vec::new());
        // One every 100 ms, for three intervals.
        while now < start + 3 * UNMAP_INTERVAL {
            schedule.record(TRIM_AFTER_CHANGES, now);
            now += Duration::from_millis(100);
            trims.extend(schedule.take_due(now));
        }
        let of_code = trims.iter().filter(|trim| **trim == Trim::MemoryAndCode);
        assert_eq!(of_code.count(), 3);
        let most = 3 * UNMAP_INTERVAL.as_millis() / TRIM_AFTER_LARGE.as_millis();
        assert!(trims.len() as u128 <= most, "{}", trims.len());
    }

    #[test]
    fn each_small_update_postpones_a_trim() {
        let (mut schedule, start) = (TrimSchedule::default(), Instant::now());
        let later = start + Duration::from_millis(1);
        schedule.record(1, start);
        schedule.record(1, later);
        assert_eq!(schedule.take_due(start + TRIM_WHEN_QUIET), None);
        assert_eq!(schedule.due(), Some(later + TRIM_WHEN_QUIET));
        let due = schedule.take_due(later + TRIM_WHEN_QUIET);
        assert_eq!((due, schedule.due()), (Some(Trim::Memory), None));
    }

    #[test]
    fn many_small_updates_return_the_code_too() {
        let (mut schedule, start) = (TrimSchedule::default(), Instant::now());
        let mut many = |now: Instant| {
            (0..TRIM_AFTER_CHANGES).for_each(|_| schedule.record(1, now));
            let trim = schedule.take_due(now + TRIM_WHEN_QUIET);
            (trim, schedule.due())
        };
        let first = start + TRIM_WHEN_QUIET;
        assert_eq!(many(start), (Some(Trim::MemoryAndCode), None));
        let next = first + UNMAP_INTERVAL;
        assert_eq!(many(first), (Some(Trim::Memory), Some(next)), "too soon");
        assert_eq!(schedule.take_due(next), Some(Trim::MemoryAndCode));
        schedule.record(1, next);
        let quiet = next + TRIM_WHEN_QUIET;
        assert_eq!(schedule.take_due(quiet), Some(Trim::Memory), "only one");
    }
}

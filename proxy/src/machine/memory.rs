//! The memory limit of the process and its usage. The supervisor measures; shards read the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use admin::cgroup::MemoryCgroup;
use rustix::system::sysinfo;
use tracing::{info, warn};

use crate::limits::{MEMORY_CHECK_INTERVAL, OVERLOAD_MEMORY_PERCENT};

/// The result of the last measurement, shared by all threads.
#[derive(Debug)]
pub struct MemoryUse {
    /// Limit of the cgroup in bytes; 0 without a limit.
    limit: AtomicU64,
    /// Working set of the cgroup in bytes: usage without inactive file pages.
    working_set: AtomicU64,
    /// Memory of the machine in bytes.
    machine: u64,
}

impl Default for MemoryUse {
    fn default() -> Self {
        let machine = sysinfo();
        Self {
            limit: AtomicU64::new(0),
            working_set: AtomicU64::new(0),
            machine: machine.totalram.saturating_mul(machine.mem_unit.into()),
        }
    }
}

impl MemoryUse {
    /// The result of a first measurement: limits hold from the first request on.
    #[must_use]
    pub(crate) fn measured() -> Arc<Self> {
        let found = Arc::default();
        drop(MemoryWatch::new(Arc::clone(&found)));
        found
    }

    /// Limit of the cgroup in bytes.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Working set of the cgroup in bytes; `None` if the kernel shows no cgroup.
    #[must_use]
    pub fn working_set(&self) -> Option<u64> {
        Some(self.working_set.load(Ordering::Relaxed)).filter(|used| *used > 0)
    }

    /// Memory of the machine in bytes.
    #[must_use]
    pub fn machine(&self) -> u64 {
        self.machine
    }

    /// Usage in percent of the limit; 0 without a limit.
    pub(crate) fn percent(&self) -> usize {
        let used = self.working_set().unwrap_or_default().saturating_mul(100);
        let percent = self.limit().and_then(|limit| used.checked_div(limit));
        percent.map_or(0, |percent| usize::try_from(percent).unwrap_or(usize::MAX))
    }

    /// Limit of buffers in bytes for one of this many shards: half of the memory, divided by them.
    pub(crate) fn for_buffers(&self, shards: usize) -> usize {
        let all = self.limit().unwrap_or(self.machine);
        let share = usize::try_from(all / 2).unwrap_or(usize::MAX);
        share.checked_div(shards).unwrap_or(share)
    }
}

#[derive(Debug)]
pub(crate) struct MemoryWatch {
    cgroup: Option<MemoryCgroup>,
    found: Arc<MemoryUse>,
    measured_at: Instant,
    /// Whether low memory was logged.
    is_logged: bool,
}

impl MemoryWatch {
    /// A watch, after a first measurement.
    pub(crate) fn new(found: Arc<MemoryUse>) -> Self {
        #[cfg(feature = "test-hooks")]
        let cgroup = std::env::var_os("TEST_MEMORY_CGROUP")
            .map(|folder| MemoryCgroup::in_folder(folder.as_ref()))
            .or_else(MemoryCgroup::of_this_process);
        #[cfg(not(feature = "test-hooks"))]
        let cgroup = MemoryCgroup::of_this_process();
        let mut watch = Self {
            cgroup,
            found,
            measured_at: Instant::now(),
            is_logged: false,
        };
        watch.read();
        watch
    }

    /// Time until the next measurement.
    pub(crate) fn interval(&self) -> Duration {
        MEMORY_CHECK_INTERVAL.saturating_sub(self.measured_at.elapsed())
    }

    /// Measures if it is time to.
    pub(crate) fn refresh(&mut self) {
        if self.interval().is_zero() {
            self.measured_at = Instant::now();
            self.read();
        }
    }

    fn read(&mut self) {
        let Some(now) = self.cgroup.as_ref().and_then(MemoryCgroup::read) else {
            return;
        };
        let MemoryUse {
            limit, working_set, ..
        } = &*self.found;
        limit.store(now.limit.unwrap_or_default(), Ordering::Relaxed);
        working_set.store(now.working_set, Ordering::Relaxed);
        let [_, relaxed, refuses, _] = OVERLOAD_MEMORY_PERCENT;
        let percent = self.found.percent();
        let (limit, working_set) = (now.limit.unwrap_or_default(), now.working_set);
        if percent >= refuses && !self.is_logged {
            self.is_logged = true;
            warn!(
                working_set,
                limit,
                "memory is close to the limit: rejecting requests until usage falls; raise the \
                 limit if this happens under normal load"
            );
        } else if percent < relaxed && self.is_logged {
            self.is_logged = false;
            info!(working_set, limit, "memory is no longer close to the limit");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::MemoryUse;

    #[test]
    fn without_a_memory_limit_the_usage_is_zero_percent() {
        let memory = MemoryUse::default();
        memory.working_set.store(1 << 40, Ordering::Relaxed);
        assert_eq!((memory.limit(), memory.percent()), (None, 0));
        assert!(memory.machine > 0 && memory.for_buffers(1) > 0);
    }

    #[test]
    fn shards_share_half_of_the_limit() {
        let memory = MemoryUse::default();
        memory.limit.store(1000, Ordering::Relaxed);
        memory.working_set.store(905, Ordering::Relaxed);
        assert_eq!(memory.percent(), 90);
        assert_eq!(memory.for_buffers(1), 500);
        assert_eq!(memory.for_buffers(4), 125);
    }
}

//! The number of shards and their cores, from the CPU set and cgroup quota of the process.

#![expect(clippy::disallowed_methods, reason = "it runs before any shard does")]
#![expect(unsafe_code, reason = "sysconf(3)")]

use std::io;
use std::num::NonZeroU16;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpus {
    /// The cores in the process's affinity mask.
    pub set: Vec<usize>,
    /// CPU quota of the cgroup in cores; `None` without a quota.
    pub quota: Option<f64>,
}

impl Cpus {
    /// Reads the CPU set of this process and the quota of its cgroup (version 2, then 1).
    #[must_use]
    pub fn of_this_process() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let quota = read("/sys/fs/cgroup/cpu.max")
            .and_then(|text| parse_cpu_max(&text))
            .or_else(|| {
                let quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?;
                let period = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?;
                parse_cpu_max(&format!("{} {}", quota.trim(), period.trim()))
            });
        Self {
            set: affinity(),
            quota,
        }
    }

    /// Whether it is restricted to some of the machine's cores.
    #[must_use]
    pub fn is_part_of_machine(&self) -> bool {
        // SAFETY: sysconf takes and gives plain integers.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        usize::try_from(online).is_ok_and(|online| self.set.len() < online)
    }

    /// The number of shards: a shard throttled by the quota would stall all of its connections, so
    /// there are as many as can run all of the time.
    #[must_use]
    pub fn shards(&self) -> NonZeroU16 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a quota is a small positive number, and `as` saturates"
        )]
        let granted = self
            .quota
            .map_or(usize::MAX, |quota| quota.floor() as usize);
        let shards = self.set.len().min(granted).max(1);
        u16::try_from(shards)
            .ok()
            .and_then(NonZeroU16::new)
            .unwrap_or(NonZeroU16::MAX)
    }
}

/// `max 100000` or `150000 100000`: microseconds of each period.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

fn affinity() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect()
}

/// Pins this thread, and threads it starts, to these cores.
///
/// # Errors
///
/// The cores do not exist, or are not allowed for the process.
pub fn bind_thread(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::{Cpus, affinity, bind_thread, parse_cpu_max};

    #[test]
    fn cpu_affinity_is_inherited_by_child_threads() {
        let before = affinity();
        let last = before[before.len() - 1];
        let there = std::thread::spawn(move || {
            bind_thread(&[last]).expect("its own core");
            std::thread::spawn(affinity).join().expect("it reports")
        });
        assert_eq!(there.join().expect("binds"), [last]);
        assert_eq!(affinity(), before);
        bind_thread(&[]).expect_err("nowhere");
    }

    #[test]
    fn reads_the_quota_of_a_cgroup() {
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("250000 100000\n"), Some(2.5));
        assert_eq!(parse_cpu_max("-1 100000"), None);
        assert_eq!(parse_cpu_max("garbage"), None);
    }

    #[test]
    fn the_number_of_shards_follows_cores_and_cpu_quota() {
        let shards = |cores: usize, quota| {
            Cpus {
                set: (0..cores).collect(),
                quota,
            }
            .shards()
            .get()
        };
        assert_eq!(shards(8, None), 8);
        assert_eq!(shards(8, Some(2.5)), 2);
        assert_eq!(shards(8, Some(0.5)), 1);
        assert_eq!(shards(2, Some(16.0)), 2);
    }
}

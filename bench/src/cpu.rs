//! CPU time of a process tree in nanoseconds, as slices of a fraction of a second need it: the
//! kernel's clock ticks are 10 ms.
//!
//! Each thread reports its time on a core in `/proc/PID/task/TID/schedstat`, until it ends. The
//! time of ended threads is in the ticks: those of a process cover all its threads, and a reaped
//! process is counted by its parent. Only what ended threads did since the last reading is lost, if
//! it is below the resolution of the ticks. [`Meter::verify`] compares the sum with the ticks.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Result, ensure};

use crate::procfs::{self, Stat};
use crate::stats::{count, count64};

/// Sums up what the tree of a process uses.
#[derive(Debug)]
pub(crate) struct Meter {
    root: u32,
    last: Reading,
    /// Nanoseconds since it was started.
    total: u64,
    ticks_before: u64,
}

impl Meter {
    pub(crate) fn start(root: u32) -> Result<Self> {
        let last = Reading::of(root)?;
        let ticks_before = last.ticks();
        Ok(Self {
            root,
            last,
            total: 0,
            ticks_before,
        })
    }

    /// Nanoseconds since it was started.
    pub(crate) fn read(&mut self) -> Result<u64> {
        let now = Reading::of(self.root)?;
        self.total += now.since(&self.last);
        self.last = now;
        Ok(self.total)
    }

    /// An error if the ticks since it was started tell something else.
    pub(crate) fn verify(&mut self) -> Result<()> {
        let sum = count64(self.read()?);
        let ticks = self.last.ticks().saturating_sub(self.ticks_before);
        let by_ticks = count64(ticks * tick());
        // User and system time of each process are rounded apart from each other.
        let rounding = count(2 * (self.last.0.len() + 1)) * count64(tick());
        ensure!(
            (sum - by_ticks).abs() <= by_ticks * LOST + rounding,
            "its threads report {:.0} ms of CPU time, its processes {:.0} ms: too much was lost of \
             what has ended",
            sum / 1e6,
            by_ticks / 1e6
        );
        Ok(())
    }
}

/// CPU time of the processes of a tree so far.
#[derive(Debug, Default, Clone)]
struct Reading(BTreeMap<u32, Process>);

#[derive(Debug, Default, Clone)]
struct Process {
    /// Nanoseconds of each thread that lives.
    threads: BTreeMap<u32, u64>,
    /// Ticks of all its threads.
    ticks: u64,
    /// Ticks of the children it has reaped.
    reaped: u64,
}

impl Reading {
    fn of(root: u32) -> Result<Self> {
        let mut processes = BTreeMap::new();
        for pid in procfs::tree(root)? {
            // It may have ended since it was listed; its parent then holds its time.
            if let Some(stat) = Stat::of(pid) {
                let process = Process {
                    threads: threads(pid),
                    ticks: stat.own_ticks(),
                    reaped: stat.reaped_ticks(),
                };
                processes.insert(pid, process);
            }
        }
        Ok(Self(processes))
    }

    fn ticks(&self) -> u64 {
        let both = |process: &Process| process.ticks + process.reaped;
        self.0.values().map(both).sum()
    }

    /// Nanoseconds from `earlier` to this.
    fn since(&self, earlier: &Self) -> u64 {
        let nothing = Process::default();
        let own = |(pid, process): (&u32, &Process)| {
            process.since(earlier.0.get(pid).unwrap_or(&nothing))
        };
        let reaped = |reading: &Self| reading.0.values().map(|process| process.reaped).sum();
        let reaped: u64 = u64::saturating_sub(reaped(self), reaped(earlier));
        let ended = earlier
            .0
            .iter()
            .filter(|(pid, _)| !self.0.contains_key(pid));
        // A parent's time includes that of reaped children, most of which was counted before.
        let counted: u64 = ended.map(|(_, process)| process.nanoseconds()).sum();
        self.0.iter().map(own).sum::<u64>() + (reaped * tick()).saturating_sub(counted)
    }
}

impl Process {
    fn since(&self, earlier: &Self) -> u64 {
        let thread = |(tid, now): (&u32, &u64)| {
            now.saturating_sub(earlier.threads.get(tid).copied().unwrap_or(0))
        };
        let threads: u64 = self.threads.iter().map(thread).sum();
        let ticks = self.ticks.saturating_sub(earlier.ticks) * tick();
        // User and system time are rounded separately: more than two ticks belong to threads that
        // ended.
        if ticks > threads + 2 * tick() {
            ticks
        } else {
            threads
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.threads.values().sum::<u64>().max(self.ticks * tick())
    }
}

/// Nanoseconds on a core of each thread of a process.
fn threads(pid: u32) -> BTreeMap<u32, u64> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return BTreeMap::new();
    };
    let thread = |task: fs::DirEntry| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((tid, text.split_ascii_whitespace().next()?.parse().ok()?))
    };
    tasks.flatten().filter_map(thread).collect()
}

/// Nanoseconds of a clock tick.
fn tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// Share of the CPU time of a run that may be lost.
const LOST: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    fn process(threads: &[(u32, u64)], ticks: u64, reaped: u64) -> Process {
        Process {
            threads: threads.iter().copied().collect(),
            ticks,
            reaped,
        }
    }

    fn reading(processes: &[(u32, Process)]) -> Reading {
        Reading(processes.iter().cloned().collect())
    }

    #[test]
    fn threads_are_counted_to_the_nanosecond() {
        let early = reading(&[(1, process(&[(1, 500), (2, 1_000)], 0, 0))]);
        let late = reading(&[(1, process(&[(1, 503), (2, 1_000), (3, 40)], 0, 0))]);
        assert_eq!(late.since(&early), 43);
    }

    #[test]
    fn threads_that_ended_between_samples_are_counted_by_ticks() {
        let early = reading(&[(1, process(&[(1, 0)], 0, 0))]);
        let late = reading(&[(1, process(&[(1, 5 * tick())], 9, 0))]);
        assert_eq!(late.since(&early), 9 * tick());
    }

    #[test]
    fn a_process_that_was_reaped_counts_once() {
        let worker = process(&[(2, 70 * tick())], 70, 0);
        let early = reading(&[(1, process(&[(1, 0)], 0, 0)), (2, worker)]);
        let late = reading(&[(1, process(&[(1, 0)], 0, 80))]);
        assert_eq!(late.since(&early), 10 * tick());
        assert_eq!(early.since(&early), 0);
    }

    #[test]
    fn a_meter_counts_the_cpu_time_of_a_process() {
        let mut meter = Meter::start(std::process::id()).expect("starts");
        let mut last = 0;
        while last < 30 * tick() {
            let now = meter.read().expect("reads");
            assert!(now >= last, "it never runs backwards");
            last = now;
        }
        meter.verify().expect("both agree");
    }
}

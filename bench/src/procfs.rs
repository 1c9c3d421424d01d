//! Statistics of processes and cores, read from `/proc`.
//!
//! Parsing is separate from reading, so that it is tested on fixed text.

use std::collections::BTreeMap;
use std::time::Instant;
use std::{fs, io};

use anyhow::{Context, Result};

use crate::stats::{count, count64};

/// Resources used by a proxy so far, summed over its process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// Clock ticks in user mode, those of reaped children included.
    pub(crate) user_ticks: u64,
    /// Clock ticks in the kernel, those of reaped children included.
    pub(crate) system_ticks: u64,
    /// Switches because a thread waited.
    pub(crate) voluntary: u64,
    /// Resident memory in bytes.
    pub(crate) rss: u64,
}

impl Usage {
    /// Of the process `root` and all its descendants.
    pub(crate) fn of_tree(root: u32) -> Result<Self> {
        let mut sum = Self::default();
        for pid in tree(root)? {
            // A worker may leave between the listing and here; the parent then holds its time.
            if let Some(stat) = Stat::of(pid) {
                sum.user_ticks += stat.user + stat.children_user;
                sum.system_ticks += stat.system + stat.children_system;
                sum.rss += stat.rss();
                sum.voluntary += voluntary_switches(pid);
            }
        }
        Ok(sum)
    }

    /// Resources used since `earlier`; the resident bytes are the current ones.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            rss: self.rss,
        }
    }

    /// Adds what was used later; the resident bytes are the later ones.
    pub(crate) fn add(&mut self, later: &Self) {
        self.user_ticks += later.user_ticks;
        self.system_ticks += later.system_ticks;
        self.voluntary += later.voluntary;
        self.rss = later.rss;
    }
}

/// Clock ticks as microseconds.
pub(crate) fn ticks_to_us(ticks: u64) -> f64 {
    count64(ticks) * 1e6 / count64(rustix::param::clock_ticks_per_second())
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, PartialEq)]
pub(crate) struct Stat {
    parent: u32,
    user: u64,
    system: u64,
    children_user: u64,
    children_system: u64,
    rss_pages: u64,
}

impl Stat {
    /// Of a process; none once it has ended.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Ticks of the process itself: all its threads, those that have ended too.
    pub(crate) fn own_ticks(&self) -> u64 {
        self.user + self.system
    }

    /// Ticks of the children it has reaped.
    pub(crate) fn reaped_ticks(&self) -> u64 {
        self.children_user + self.children_system
    }

    /// Resident memory in bytes.
    pub(crate) fn rss(&self) -> u64 {
        self.rss_pages * page_size()
    }

    /// The command's name stands in parentheses and may hold spaces and parentheses itself, so
    /// fields are counted from the last one.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // proc(5) numbers the state as field 3, which is the first one here.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(field(4)?).ok()?,
            user: field(14)?,
            system: field(15)?,
            children_user: field(16)?,
            children_system: field(17)?,
            rss_pages: field(24)?,
        })
    }
}

/// `root` and its descendants that live.
pub(crate) fn tree(root: u32) -> Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        if let Some(stat) = Stat::of(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Result<Vec<u32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")?;
    let number = |task: io::Result<fs::DirEntry>| task.ok()?.file_name().to_str()?.parse().ok();
    Ok(tasks.filter_map(number).collect())
}

/// Over all threads: `/proc/PID/status` counts only the first.
fn voluntary_switches(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .filter_map(|text| status_field(&text, "voluntary_ctxt_switches"))
        .sum()
}

fn status_field(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether a process of the tree holds an io_uring.
pub(crate) fn holds_ring(root: u32) -> Result<bool> {
    Ok(tree(root)?.into_iter().any(|pid| {
        let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        fds.flatten().any(|fd| {
            fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("io_uring"))
        })
    }))
}

/// Time of the whole machine, in clock ticks over all cores. Idle and stolen time are exact to a
/// tick; busy time is only sampled, so it is what the clock leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Machine {
    at: Instant,
    cores: usize,
    idle: u64,
    /// Wanted to run while the hypervisor ran others.
    steal: u64,
}

impl Machine {
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&text, Instant::now()).context("/proc/stat has no line for all cores")
    }

    /// The `cpu` line: user nice system idle iowait irq softirq steal.
    fn parse(text: &str, at: Instant) -> Option<Self> {
        let line = text.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line
            .split_ascii_whitespace()
            .take(8)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let cores = text.lines().filter(|line| line.starts_with("cpu")).count() - 1;
        Some(Self {
            at,
            cores,
            idle: *fields.get(3)? + *fields.get(4)?,
            steal: *fields.get(7)?,
        })
    }

    /// Shares of all time since `earlier`: busy with other than `ours` (nanoseconds), and stolen.
    pub(crate) fn shares_since(&self, earlier: &Self, ours: u64) -> (f64, f64) {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64() * count(self.cores);
        let share = |time: f64| time / seconds.max(f64::MIN_POSITIVE);
        let ticks = |now: u64, then: u64| share(ticks_to_us(now.saturating_sub(then)) / 1e6);
        let (idle, steal) = (
            ticks(self.idle, earlier.idle),
            ticks(self.steal, earlier.steal),
        );
        let foreign = 1.0 - idle - steal - share(count64(ours) / 1e9);
        (foreign.max(0.0), steal)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STAT: &str = "812 (a (b) c) S 7 812 812 0 -1 4194560 500 0 0 0 120 340 5 6 20 0 3 0 \
                        100 9000000 250 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0";

    #[test]
    fn stat_is_parsed_despite_special_characters_in_the_name() {
        let stat = Stat::parse(STAT).expect("parses");
        assert_eq!((stat.parent, stat.user, stat.system), (7, 120, 340));
        assert_eq!(
            (stat.children_user, stat.children_system, stat.rss_pages),
            (5, 6, 250)
        );
    }

    #[test]
    fn truncated_text_is_not_a_stat() {
        assert_eq!(Stat::parse("812 (nginx) S 7 812"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn status_fields_do_not_match_by_suffix() {
        let text = "nonvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t42\n";
        assert_eq!(status_field(text, "voluntary_ctxt_switches"), Some(42));
        assert_eq!(status_field(text, "nonvoluntary_ctxt_switches"), Some(9));
    }

    #[test]
    fn cpu_time_is_split_into_own_foreign_idle_and_stolen() {
        let at = Instant::now();
        let per_second = rustix::param::clock_ticks_per_second();
        let early = Machine::parse("cpu  1 0 1 7 1 0 0 1 0 0\ncpu0 1\ncpu1 1\n", at);
        let (idle, steal) = (7 + per_second, 1 + per_second / 10);
        let text = format!("cpu  5 0 5 {idle} 1 0 0 {steal} 0 0\ncpu0 1\ncpu1 1\n");
        let late = Machine::parse(&text, at + Duration::from_secs(1)).expect("parses");
        // Of two seconds: one idle, a tenth stolen, half ours.
        let (foreign, steal) = late.shares_since(&early.expect("parses"), 500_000_000);
        assert!((foreign - 0.2).abs() < 1e-9 && (steal - 0.05).abs() < 1e-9);
    }

    #[test]
    fn the_own_process_tree_is_listed_and_uses_memory() {
        let usage = Usage::of_tree(std::process::id()).expect("own process");
        assert!(usage.rss > 0);
        assert!(
            tree(std::process::id())
                .expect("lists")
                .contains(&std::process::id())
        );
    }
}

//! `/memory`: where memory is, from within and as the kernel has it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use admin_types::memory::{Cgroup, Memory, Process};

use super::{Asked, Endpoint, READ};
use crate::server::{Answer, ErrorForm, JSON, Refusal, made};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/memory",
    methods: READ,
    parameters: &[],
    usage: "GET /memory",
    errors: ErrorForm::Json,
    answer: |asked| Box::pin(async move { answer(&asked) }),
};

/// On a background thread: the kernel walks the page tables for the proportional size.
fn answer(asked: &Asked<'_>) -> Result<Answer, Refusal> {
    let handles = Arc::clone(&asked.shared.handles);
    Ok(made(asked.slot()?, JSON, asked.encoding, move |out| {
        let report = (handles.allocator)();
        let memory = Memory {
            allocator: report.allocator,
            allocations: report.allocations,
            process: process(),
            cgroup: cgroup(),
            heap_profile: report.heap_profile,
        };
        serde_json::to_writer(&mut *out, &memory)?;
        out.write_all(b"\n")
    }))
}

fn process() -> Process {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (status, rollup) = (read("/proc/self/status"), read("/proc/self/smaps_rollup"));
    let kib = |text: &str, name| field(text, name).and_then(|value| value.checked_mul(1024));
    Process {
        rss: kib(&status, "VmRSS:").unwrap_or_default(),
        pss: kib(&rollup, "Pss:"),
        swap: kib(&status, "VmSwap:").unwrap_or_default(),
        virtual_size: kib(&status, "VmSize:").unwrap_or_default(),
        threads: field(&status, "Threads:").unwrap_or_default(),
        // One is the listing's own.
        fds: fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count().saturating_sub(1) as u64),
        max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
    }
}

/// The number behind a name, in the form of `/proc/self/status`.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

fn cgroup() -> Option<Cgroup> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    version_2(&groups).or_else(|| version_1(&groups))
}

fn version_2(groups: &str) -> Option<Cgroup> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |name| number(folder("/sys/fs/cgroup", path, name)?);
    let usage = number("memory.current")?;
    let stat = fs::read_to_string(folder("/sys/fs/cgroup", path, "memory.stat")?).ok()?;
    Some(Cgroup {
        usage,
        limit: number("memory.max"),
        working_set: usage.saturating_sub(field(&stat, "inactive_file").unwrap_or_default()),
    })
}

fn version_1(groups: &str) -> Option<Cgroup> {
    let lines = groups.lines().filter_map(|line| line.split_once(':'));
    let path = lines
        .filter_map(|(_, rest)| rest.split_once(':'))
        .find_map(|(controllers, path)| {
            controllers
                .split(',')
                .any(|it| it == "memory")
                .then_some(path)
        })?;
    let root = "/sys/fs/cgroup/memory";
    let number = |name| number(folder(root, path, name)?);
    let usage = number("memory.usage_in_bytes")?;
    let stat = fs::read_to_string(folder(root, path, "memory.stat")?).ok()?;
    Some(Cgroup {
        usage,
        limit: number("memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT),
        working_set: usage.saturating_sub(field(&stat, "total_inactive_file").unwrap_or_default()),
    })
}

/// A file of a control group. In a container the group is often mounted where its root would be.
fn folder(root: &str, path: &str, name: &str) -> Option<PathBuf> {
    let inner = PathBuf::from(format!("{root}{}", path.trim_end_matches('/'))).join(name);
    let outer = PathBuf::from(root).join(name);
    [inner, outer].into_iter().find(|file| file.exists())
}

fn number(file: PathBuf) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Without a limit, version 1 says the largest number of pages there can be.
const NO_LIMIT: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::{field, process};

    #[test]
    fn fields_are_found_by_name() {
        let text = "VmRSS:\t  1234 kB\nThreads:\t7\n";
        assert_eq!(field(text, "VmRSS:"), Some(1234));
        assert_eq!(field(text, "Threads:"), Some(7));
        assert_eq!(field(text, "VmSwap:"), None);
        assert_eq!(field("inactive_file 12\n", "inactive_file"), Some(12));
    }

    #[test]
    fn the_process_has_memory_threads_and_descriptors() {
        let process = process();
        assert!(
            process.rss > 0 && process.virtual_size > process.rss,
            "{process:?}"
        );
        assert!(process.threads > 0 && process.fds > 0, "{process:?}");
    }
}

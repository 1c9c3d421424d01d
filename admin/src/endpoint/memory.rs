//! `/memory`: memory usage as seen by the allocator and by the kernel.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use admin_types::memory::{Cgroup, Memory, Process};

use super::handler::{Endpoint, EndpointRequest, READ};
use crate::response::{ErrorFormat, ErrorResponse, JSON, Response, streamed};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/memory",
    methods: READ,
    parameters: &[],
    usage: "GET /memory",
    errors: ErrorFormat::Json,
    handle: |request| Box::pin(async move { handle(&request) }),
};

/// Runs on a background thread: for the proportional size, the kernel walks the page tables.
fn handle(request: &EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let handles = Arc::clone(&request.context.handles);
    Ok(streamed(
        request.slot()?,
        JSON,
        request.encoding,
        move |out| {
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
        },
    ))
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
        // One of them is the directory being listed.
        fds: fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count().saturating_sub(1) as u64),
        max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
    }
}

/// The number after a name, in the format of `/proc/self/status`.
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

/// A file of the cgroup. In a container, the cgroup is often mounted in place of the root.
fn folder(root: &str, path: &str, name: &str) -> Option<PathBuf> {
    let inner = PathBuf::from(format!("{root}{}", path.trim_end_matches('/'))).join(name);
    let outer = PathBuf::from(root).join(name);
    [inner, outer].into_iter().find(|file| file.exists())
}

fn number(file: PathBuf) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Without a limit, cgroup version 1 reports the largest possible number of pages.
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

//! `/memory`: memory usage as seen by the allocator and by the kernel.

use std::fs;
use std::sync::Arc;

use admin_types::memory::{Memory, Process};

use super::handler::{Endpoint, EndpointRequest, READ};
use crate::cgroup::{MemoryCgroup, field};
use crate::process::bytes_of;
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
                cgroup: MemoryCgroup::of_this_process().and_then(|it| it.read()),
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
    Process {
        rss: bytes_of(&status, "VmRSS:").unwrap_or_default(),
        pss: bytes_of(&rollup, "Pss:"),
        swap: bytes_of(&status, "VmSwap:").unwrap_or_default(),
        virtual_size: bytes_of(&status, "VmSize:").unwrap_or_default(),
        threads: field(&status, "Threads:").unwrap_or_default(),
        // One of them is the directory being listed.
        fds: fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count().saturating_sub(1) as u64),
        max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
    }
}

#[cfg(test)]
mod tests {
    use super::process;

    #[test]
    fn memory_threads_and_descriptors_of_the_process_are_reported() {
        let process = process();
        assert!(
            process.rss > 0 && process.virtual_size > process.rss,
            "{process:?}"
        );
        assert!(process.threads > 0 && process.fds > 0, "{process:?}");
    }
}

//! The response of `/memory`.

use serde::{Deserialize, Serialize};

/// Memory usage. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Statistics of the allocator.
    pub allocator: Allocator,
    /// Allocations of the program; None where the allocator does not count them.
    pub allocations: Option<Allocations>,
    /// Statistics of the kernel for the process.
    pub process: Process,
    /// Statistics of the kernel for the memory cgroup; None without one.
    pub cgroup: Option<Cgroup>,
    /// State of the heap profiler.
    pub heap_profile: HeapProfile,
}

/// Statistics of the allocator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocator {
    /// Name of the allocator, such as `mimalloc`.
    pub name: String,
    /// Memory that the allocator has obtained from the kernel.
    pub committed: u64,
    /// Largest committed memory so far.
    pub peak_committed: u64,
    /// Address space reserved by the allocator, committed or not.
    pub reserved: u64,
    /// Resident memory of the process, as the allocator reports it.
    pub rss: u64,
    /// Largest resident memory so far.
    pub peak_rss: u64,
    /// Major page faults, which read from disk.
    pub page_faults: u64,
}

/// Allocations of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocations {
    /// The allocations of all threads together.
    pub total: Allocated,
    /// By shard; live amounts are allocations minus frees on that shard, whichever thread allocated
    /// them.
    pub shards: Vec<Allocated>,
}

/// Counts and bytes of allocations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocated {
    /// Allocations since the start.
    pub count: u64,
    /// Bytes allocated since the start.
    pub bytes: u64,
    /// Allocations not freed yet.
    pub live_count: u64,
    /// Bytes not freed yet.
    pub live_bytes: u64,
}

/// The process, from `/proc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Resident set size (RSS).
    pub rss: u64,
    /// Proportional set size: resident memory with shared pages divided among their processes.
    pub pss: Option<u64>,
    /// Memory that is swapped out.
    pub swap: u64,
    /// Size of the address space (`VmSize`).
    pub virtual_size: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of open file descriptors.
    pub fds: u64,
    /// Limit of open file descriptors; None where unlimited.
    pub max_fds: Option<u64>,
}

/// The memory cgroup of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cgroup {
    /// Memory in use, page cache included.
    pub usage: u64,
    /// Memory limit; None where unlimited.
    pub limit: Option<u64>,
    /// Usage less inactive file pages, which Kubernetes compares with the limit.
    pub working_set: u64,
}

/// State of the heap profiler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeapProfile {
    /// Whether sampling is on.
    pub armed: bool,
    /// Allocations sampled since the start.
    pub sampled: u64,
    /// Sampled allocations not freed yet.
    pub live_samples: u64,
}

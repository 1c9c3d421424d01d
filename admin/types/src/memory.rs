//! The answer of `/memory`.

use serde::{Deserialize, Serialize};

/// Where memory is. Sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// What the allocator says of itself.
    pub allocator: Allocator,
    /// What the program holds; nothing where the allocator does not count it.
    pub allocations: Option<Allocations>,
    /// What the kernel says of the process.
    pub process: Process,
    /// What the kernel says of the control group; nothing outside of one.
    pub cgroup: Option<Cgroup>,
    /// The heap profiler.
    pub heap_profile: HeapProfile,
}

/// The allocator's own numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocator {
    /// Its name and version.
    pub name: String,
    /// Memory it may touch.
    pub committed: u64,
    /// The most it ever could.
    pub peak_committed: u64,
    /// Address space it has taken.
    pub reserved: u64,
    /// Resident memory, as it knows.
    pub rss: u64,
    /// The most that ever was resident.
    pub peak_rss: u64,
    /// Page faults that had to wait for a disk.
    pub page_faults: u64,
}

/// What the program has allocated, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocations {
    /// Of the whole program.
    pub total: Allocated,
    /// Of each shard; what lives of one is what it has allocated less what it has freed.
    pub shards: Vec<Allocated>,
}

/// Counts and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocated {
    /// Allocations ever made.
    pub count: u64,
    /// Bytes ever allocated.
    pub bytes: u64,
    /// Allocations that live.
    pub live_count: u64,
    /// Bytes that live.
    pub live_bytes: u64,
}

/// The process, as `/proc` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Resident memory.
    pub rss: u64,
    /// Resident memory, what is shared with other processes counted by its share.
    pub pss: Option<u64>,
    /// Memory in swap.
    pub swap: u64,
    /// Address space.
    pub virtual_size: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub fds: u64,
    /// Descriptors it may open.
    pub max_fds: Option<u64>,
}

/// The control group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cgroup {
    /// Memory in use.
    pub usage: u64,
    /// The limit; nothing where there is none.
    pub limit: Option<u64>,
    /// Memory in use but for file pages that could go: what Kubernetes compares with the limit.
    pub working_set: u64,
}

/// The heap profiler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeapProfile {
    /// Whether it samples.
    pub armed: bool,
    /// Allocations sampled so far.
    pub sampled: u64,
    /// Sampled allocations that live.
    pub live_samples: u64,
}

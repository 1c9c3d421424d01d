//! Sizes of the rings of io_uring.

/// Operations that a ring takes in one submission: 1024, more than one iteration starts.
pub const RING_ENTRIES: u32 = 1024;
/// Completions that a ring holds at least: 2048, two turns of the loop.
pub const RING_MIN_COMPLETIONS: u32 = 2 * RING_ENTRIES;
/// Completions that a ring holds at most: 65 536; the kernel refuses more.
pub const RING_MAX_COMPLETIONS: u32 = 65_536;
/// Share of the limit of locked memory (`RLIMIT_MEMLOCK`) for the completions of one ring: a 128th, so
/// that 30 proxies with two shards fit into the usual 8 MiB of a node.
pub const RING_SHARE_OF_LOCKED_MEMORY: u64 = 128;
/// Operations in one submission of a ring that has to be smaller because locked memory is limited:
/// 256, which takes 28 KiB.
pub const RING_MIN_ENTRIES: u32 = 256;

//! Resources of the machine: CPUs and scheduling, memory, file descriptors, listening sockets, and the
//! I/O driver of a shard's runtime.

pub mod cpu;
pub mod descriptors;
pub mod driver;
pub mod memory;
pub(crate) mod scheduling;
pub mod sockets;

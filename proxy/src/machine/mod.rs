//! Resources of the machine: CPUs and scheduling, file descriptors, listening sockets, and the I/O
//! driver of a shard's runtime.

pub mod cpu;
pub mod descriptors;
pub mod driver;
pub(crate) mod scheduling;
pub mod sockets;

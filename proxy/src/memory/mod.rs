//! Memory: I/O buffers, free lists, returning memory to the system, and the heap profile.

mod buffer;
pub mod heap;
mod shelf;
mod system;

pub(crate) use buffer::Outgoing;
pub use buffer::{Buffer, BufferPool};
pub(crate) use shelf::Shelf;
pub(crate) use system::{discard, trim};
pub use system::{report, without_huge_pages};

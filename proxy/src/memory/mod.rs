//! Memory: the allocator, I/O buffers, free lists, tables with shared copies, returning memory to the system, and
//! the heap profile.

mod allocator;
mod buffer;
mod cache_line;
mod chunked;
mod free_list;
pub mod heap;
mod kept;
mod system;

pub use allocator::Allocator;
pub(crate) use buffer::Outgoing;
pub use buffer::{Buffer, BufferPool};
pub use cache_line::{CacheLine, zeroed_lines};
pub use chunked::{Chunked, ChunkedEntries};
pub(crate) use free_list::FreeList;
pub use kept::Kept;
pub(crate) use system::{discard, trim};
pub use system::{report, unmap_code};

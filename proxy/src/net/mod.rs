//! Bytes in and out: buffers and sockets as the shards use them. Knows no protocol.

mod buffer;
mod stream;

pub use buffer::{Buffer, BufferPool};
pub use stream::{Canceller, Liveness, Stream};

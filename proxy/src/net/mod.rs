//! Bytes in and out: buffers and sockets as the shards use them. Knows no protocol.

mod buffer;
mod stream;

pub use buffer::{Buffer, BufferPool};
pub use stream::{CancelHandle, Canceller, Liveness, Stream};
pub(crate) use stream::{liveness, shutdown};

//! Bytes in and out: buffers and sockets as the shards use them. Knows no protocol but TLS, so that
//! nobody above it has to.

mod buffer;
mod datagram;
mod secure;
mod splice;
mod stream;

pub use buffer::{Buffer, BufferPool};
pub(crate) use datagram::{Datagrams, Received};
pub use secure::HandshakeError;
pub(crate) use splice::{Pipe, Pipes, never_block};
pub use stream::{CancelHandle, Canceller, Liveness, Stream};
pub(crate) use stream::{liveness, reset, shutdown};

//! Sockets of the shards. Knows no protocol but TLS, so that the modules above need not.

mod datagram;
mod descriptor;
mod secure;
mod splice;
mod stream;

pub(crate) use datagram::{Datagrams, Received};
pub use descriptor::Liveness;
pub(crate) use descriptor::{acknowledged, drop_available, liveness, probe, reset, shutdown};
pub use secure::HandshakeError;
pub(crate) use splice::{NonBlockingGuard, Pipe, Pipes, never_block};
pub use stream::{CancelHandle, Canceller, Stream};

//! HTTP/2 connections of clients on the engine of [`crate::http::engine`]: the socket, the streams, and
//! what is sent once per turn.
//!
//! A [`Session`] is the connection as its driver and its streams share it. The driver reads (`reader`),
//! passes events to the streams, and sends what all of them have written (`outbox`). A [`Stream`] is one
//! exchange, owned by its task. [`Memory`] is shared by the connections of a shard.

mod memory;
mod outbox;
mod reader;
mod session;
mod stream;

#[cfg(test)]
mod tests;

pub(crate) use memory::Memory;
pub(crate) use outbox::Outbox;
pub(crate) use reader::{Arrival, Awaited, Reader};
pub(crate) use session::Session;
pub(crate) use stream::Stream;

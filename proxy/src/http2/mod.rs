//! HTTP/2 connections over the shards' sockets, on the engine of [`crate::http::engine`]: of clients, and to
//! endpoints.
//!
//! A `Session` is the connection as its driver and its streams share it. The driver reads (`reader`),
//! passes events to the streams, and sends what all of them have written, once per turn (`outbox`); what
//! drivers of both roles have in common is a `Link`. A `Stream` is one exchange, owned by its task.
//! `pace` defines timeouts. `Memory` is shared by the connections of a shard.

// Peers cannot cause a panic: no indexing, no overflowing arithmetic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod driver;
mod memory;
mod outbox;
pub(crate) mod pace;
mod reader;
#[cfg(any(test, feature = "test-hooks"))]
pub mod script;
mod session;
mod stream;

#[cfg(test)]
mod tests;

pub(crate) use driver::{Link, Owner, Turn};
pub(crate) use memory::Memory;
pub(crate) use outbox::Outbox;
pub(crate) use reader::Reader;
pub(crate) use session::Session;
pub(crate) use stream::{NoHead, ReadMode, ReceivedHead, Stream, StreamEnd};

//! HTTP/2 connections over the shards' sockets, on top of the `h2` crate, which implements streams,
//! windows and header compression. Conversion of heads and flood limits are in [`crate::http::h2`].
//!
//! `io`, with its `outbox`, is the connection's socket, and `stream` one stream of an exchange.
//! `read_budget` bounds how much of the input is processed per iteration, `pace` and `usage` define
//! timeouts, and `liveness` sends PINGs.

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

pub(crate) mod io;
pub(crate) mod liveness;
mod outbox;
pub(crate) mod pace;
mod read_budget;
#[cfg(any(test, feature = "test-hooks"))]
pub mod script;
pub(crate) mod stream;
pub(crate) mod usage;

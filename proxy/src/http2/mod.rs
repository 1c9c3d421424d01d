//! HTTP/2 connections over the shards' sockets. Those of clients have one of two engines ([`Http2Engine`]):
//! `engine` is on our own, [`crate::http::engine`]. Everything else here, and connections to endpoints, are
//! on the `h2` crate, with conversion of heads and flood limits in [`crate::http::h2`].
//!
//! `stream` is one stream of an exchange, of either engine. On the crate, `library` is the stream, and `io`,
//! with its `outbox`, the connection's socket; `read_budget` bounds how much of the input is processed per
//! iteration, `pace` and `usage` define timeouts, and `liveness` sends PINGs.

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

pub(crate) mod engine;
pub(crate) mod io;
pub(crate) mod library;
pub(crate) mod liveness;
mod outbox;
pub(crate) mod pace;
mod read_budget;
#[cfg(any(test, feature = "test-hooks"))]
pub mod script;
pub(crate) mod stream;
pub(crate) mod usage;

use clap::ValueEnum;

/// The engine of clients' HTTP/2 connections. There are two only until our own has replaced the `h2` crate,
/// so that they can be compared and tested: every test of the program runs on the one that the environment
/// names, as in `GATEWAY_HTTP2_ENGINE=own`. The argument is in no other document, and goes with the crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Http2Engine {
    /// Our own: [`crate::http::engine`].
    #[default]
    Own,
    /// The `h2` crate.
    H2,
}

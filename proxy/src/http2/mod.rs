//! HTTP/2 connections over the shards' sockets, on top of the `h2` crate, which keeps streams, windows
//! and header compression. The forms of heads, and what a peer may make us do, are
//! [`crate::http::h2`]'s.
//!
//! `io`, with the `outbox` behind it, is the connection's socket, and `stream` is one stream as an
//! exchange sees it. The `ration` says how much of what was read one turn hands on, `pace` and `usage`
//! how long a peer may take, and `liveness` asks it for a sign of life.

// What a peer sent never panics: no indexing, no arithmetic that overflows.
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
mod ration;
#[cfg(any(test, feature = "test-hooks"))]
pub mod script;
pub(crate) mod stream;
pub(crate) mod usage;

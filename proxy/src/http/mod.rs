//! HTTP messages as bytes: heads, framing, header names. No I/O.

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

pub mod ascii;
pub mod authority;
pub mod engine;
pub mod grammar;
pub mod grpc;
pub mod grpc_message;
pub mod h1;
pub mod head;
pub mod hop_by_hop;
pub mod known;
pub(crate) mod lines;
pub mod method;
pub mod websocket;

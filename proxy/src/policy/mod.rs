//! What a rule does to a request and its response, beside routing it.
//!
//! Each file compiles one part of the model off the shards, then judges or writes bytes on them:
//! pure functions, no I/O, time and randomness passed in, output appended to the caller's buffer.
//! [`compiled`] puts the parts of a rule together; the request path calls it.

// Everything in here reads what a peer sent.
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

pub mod authorization;
pub mod compiled;
pub mod cors;
pub mod external_auth;
pub mod forwarded;
pub mod headers;
pub mod jwt;
pub mod mirror;
pub mod mutation;
pub mod networks;
pub mod normalise;
pub mod path_edit;
pub mod proxy_protocol;
pub mod redirect;
pub mod request_id;
pub mod rewrite;

#[cfg(test)]
mod sample;

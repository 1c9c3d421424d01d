//! Policies and filters: changes to requests and responses, and decisions about them.
//!
//! Each file compiles one part of the model off the shards, and applies it on them: pure functions,
//! without I/O, with time and randomness passed in and output appended to the caller's buffer.
//! [`compiled`] combines the parts of a rule for the request path.

// Everything in here processes input of peers.
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

pub mod answer;
pub mod api_keys;
pub mod authentication;
pub mod authorization;
pub mod basic_auth;
mod challenge;
pub mod client_networks;
pub mod compiled;
pub mod cors;
pub mod credentials;
pub mod effective_fields;
pub mod external_auth;
pub mod forwarded;
pub mod hash_key;
pub mod headers;
pub mod jwt;
mod key_hasher;
pub mod keyring;
pub mod mirror;
pub mod mutation;
pub mod networks;
pub mod normalise;
pub mod path_edit;
pub mod path_rewrite;
pub mod proxy_protocol;
pub mod rate_limit;
pub mod redirect;
pub mod request_id;
pub mod rewrite;

#[cfg(test)]
mod sample;

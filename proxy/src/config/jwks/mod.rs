//! Fetches issuers' JWKS off the shards: at once, then whenever a response expires, and when a
//! shard meets an unknown key.
//!
//! `key_sets` keeps the keys and schedules fetches; `origin` resolves their location, and `fetch`
//! fetches; `key_requests` is how shards request a fetch. [`Fetcher`] combines them.

mod fetch;
mod fetcher;
mod key_requests;
mod key_sets;
mod origin;

pub use fetcher::Fetcher;

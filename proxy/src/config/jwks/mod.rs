//! Key sets of issuers, fetched off the shards: at once, then whenever an answer's time is over, and
//! when a shard meets a key that it does not know.
//!
//! `key_sets` keeps what is known and decides what is fetched when; `origin` finds out from where,
//! and `fetch` fetches; `bell` is how shards ask. [`Fetcher`] is all of it together.

mod bell;
mod fetch;
mod fetcher;
mod key_sets;
mod origin;

pub use fetcher::Fetcher;

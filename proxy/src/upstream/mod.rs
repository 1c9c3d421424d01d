//! Choosing where a request goes: endpoints, their health, retries, sessions.
//!
//! `balance`, `health`, `retry` and `session` are arithmetic on a shard's own state, with time and
//! randomness passed in; `connect`, `pool`, `room` and `h2` hold the connections.

pub mod balance;
pub(crate) mod connect;
pub(crate) mod h2;
pub mod health;
pub(crate) mod pool;
pub mod retry;
pub(crate) mod room;
pub mod session;

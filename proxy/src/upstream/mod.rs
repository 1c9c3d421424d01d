//! Choosing where a request goes: endpoints, their health, retries, sessions.
//!
//! Everything here is arithmetic on a shard's own state. Time and randomness are passed in; pools
//! and connections live elsewhere.

pub mod balance;
pub mod health;
pub mod retry;
pub mod session;

//! Resolves host names of backends off the shards: at once, then whenever an answer's TTL expires.
//!
//! `names` keeps answers and schedules lookups; `resolver` does them. A changed answer is a change
//! of configuration like any other.

mod names;
mod resolved;
mod resolver;
#[cfg(test)]
pub(in crate::config) mod sample;

pub use names::Names;
pub use resolved::Resolved;
pub use resolver::{Answer, LookupError, Resolver};

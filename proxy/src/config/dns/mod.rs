//! Names of backends, resolved off the shards: at once, then whenever an answer's time is over.
//!
//! `names` keeps what is known and decides what is asked when; `resolver` asks. A change of an
//! answer is a change of configuration like any other.

mod names;
mod resolved;
mod resolver;
#[cfg(test)]
pub(in crate::config) mod sample;

pub use names::Names;
pub use resolved::Resolved;
pub use resolver::{Answer, LookupError, Resolver};

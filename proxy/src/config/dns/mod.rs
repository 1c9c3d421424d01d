//! Names of backends, resolved off the shards: at once, then whenever an answer's time is over.

mod resolved;

pub use resolved::Resolved;

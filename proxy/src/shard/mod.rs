//! What a shard keeps for itself, across changes of configuration.

pub mod interned;
pub mod wheel;

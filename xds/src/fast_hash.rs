//! Hash tables with a hash function that takes a fraction of the time of the standard library's.
//!
//! With the standard library's, hashing names took an eighth of the processor time of a controller that
//! starts. The function is seeded for each process, so that names cannot be chosen in advance to
//! collide. Where equal hashes stand for equal values, use the standard library's function, unless a
//! collision only costs time.

/// A hash function with a seed of its own.
pub type FastHashState = foldhash::fast::RandomState;

/// A map with a fast hash function.
pub type FastHashMap<K, V> = std::collections::HashMap<K, V, FastHashState>;

/// A set with a fast hash function.
pub type FastHashSet<K> = std::collections::HashSet<K, FastHashState>;

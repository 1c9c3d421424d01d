//! Limits of routers.

/// Hosts and paths of a part of a router: 32 on average, what a change of one route compiles again, and
/// some 10 µs.
pub const ROUTER_PLACES_PER_PART: usize = 32;
/// Maximum number of parts of a router: 1024, whose pointers a change copies. With more than 32 768
/// hosts and paths, parts get larger.
pub const ROUTER_PARTS: usize = 1024;
/// Regular expressions of a listener that a shard keeps working memory for: 4096; beyond that, all
/// of it is dropped and built again.
pub const REGEX_CACHES: usize = 4096;

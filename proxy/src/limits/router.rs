//! Limits of routers.

/// Hosts and paths of a part of a router: 32 on average, what a change of one route compiles again, and
/// some 10 µs.
pub const ROUTER_PLACES_PER_PART: usize = 32;
/// Maximum number of parts of a router: 1024, whose pointers a change copies. With more than 32 768
/// hosts and paths, parts get larger.
pub const ROUTER_PARTS: usize = 1024;
/// Working memory of a shard for searches with regular expressions: 8 MiB. An ordinary one takes 1 to
/// 4 KiB, and none more than some 100 KiB; beyond the limit all of it is dropped and built again, which
/// takes some microseconds for each that is used.
pub const REGEX_CACHE_BYTES: usize = 8 << 20;
/// Working memory of a shard for rewrites of paths: 8 MiB, as for matches, and for the same reason.
pub const PATH_REWRITE_CACHE_BYTES: usize = 8 << 20;
/// Work of regular expressions for one request, in steps of about a nanosecond: 4 Mi, some 4 ms, twice what
/// two hundred ordinary expressions take that meet a path of 2 KiB for the first time. The most expensive
/// ones that fit in a route take seconds for one request, during which the shard serves nobody. The rewrite of a path has as much
/// once more.
pub const REGEX_STEPS_PER_REQUEST: u64 = 4 << 20;

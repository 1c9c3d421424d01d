//! Limits of passwords and their checks.

use std::time::Duration;

/// Bytes of a user's name and password together: 1 KiB. Apache's tools take 255 of each.
pub const PASSWORD_BYTES: usize = 1024;
/// Threads that check passwords: 2, started with the first policy that has any. What they do not do, a request waits for.
pub const PASSWORD_THREADS: usize = 2;
/// Niceness of these threads: 10, a tenth of the weight of a shard. With the class for idle threads they would never run
/// on a busy node.
pub const PASSWORD_NICENESS: i32 = 10;
/// Checks that wait for a thread, as time until the last of them is done: 1 s. What does not fit gets 503: a client would
/// not wait for longer.
pub const PASSWORD_WORK_WAITING: Duration = Duration::from_secs(1);
/// Checks that wait for a thread, as a number: 4096, which bounds their memory where each is cheap.
pub const PASSWORD_CHECKS_WAITING: usize = 4096;
/// Nanoseconds of a round of bcrypt until some were measured: 50 µs, of a core of 3 GHz.
pub const BCRYPT_ROUND_NANOS: u64 = 50_000;
/// Rounds of bcrypt that take as long as a check of apr1: 8.
pub const APR1_ROUNDS: u64 = 8;
/// Fewest rounds of a check whose time is measured: 16, the least of bcrypt. Shorter times say more about the clock.
pub const MEASURED_ROUNDS: u64 = 16;
/// Requests of a shard that wait for a check: 256; further ones get 503. Those for routes of one namespace may take half
/// of the places, and no more than it leaves free; of these, those of one client half.
pub const PASSWORDS_WAITING: usize = 256;
/// How long a request waits for a check: 5 s, which only one whose check costs more than it should needs.
pub const PASSWORD_WAIT: Duration = Duration::from_secs(5);
/// Wait before the first look whether a check is done: 5 ms. Threads do not wake shards.
pub const PASSWORD_POLL: Duration = Duration::from_millis(5);
/// Longest interval of these looks, which doubles each time: 20 ms, less than a check takes.
pub const PASSWORD_POLL_MAX: Duration = Duration::from_millis(20);
/// Pairs of user and password that are known to be right: 4096. Of more users at once, those that came longest ago
/// have theirs checked again.
pub const VERIFIED_PASSWORDS: usize = 4096;
/// How long such a pair is remembered after its last use: 5 min.
pub const VERIFIED_PASSWORD_TTL: Duration = Duration::from_mins(5);
/// Sets of pairs that a shard knows to be wrong: 256, of [`WRONG_PASSWORD_WAYS`] each, so 64 KiB.
pub const WRONG_PASSWORD_SETS: usize = 256;
/// Pairs of such a set: 4.
pub const WRONG_PASSWORD_WAYS: usize = 4;
/// How long a pair is refused without a check after it was found wrong: 1 s, doubled each further time.
pub const WRONG_PASSWORD_TTL: Duration = Duration::from_secs(1);
/// Longest such time: 30 s.
pub const WRONG_PASSWORD_TTL_MAX: Duration = Duration::from_secs(30);

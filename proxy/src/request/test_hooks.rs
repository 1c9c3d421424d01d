//! Ways for tests to break things on purpose; compiled with the feature `test-hooks` alone.

#![expect(
    clippy::disallowed_methods,
    reason = "standing still is what the test asks for"
)]

use std::sync::LazyLock;
use std::time::Duration;

use crate::exchange::Exchange;
use crate::limits::{LATE_TICKS, OVERLOAD_LAG};
use crate::shard::Shard;

/// Stands still where the request's path is the one that `GATEWAY_TEST_STALL_PATH` names: for two
/// seconds, or as many as `GATEWAY_TEST_STALL_SECONDS` says.
pub(super) fn stall_if_asked(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_STALL_PATH").ok());
    static SECONDS: LazyLock<u64> = LazyLock::new(|| {
        let said = std::env::var("GATEWAY_TEST_STALL_SECONDS").ok();
        said.and_then(|said| said.parse().ok()).unwrap_or(2)
    });
    if PATH.as_deref() == Some(path) {
        tracing::warn!("stalled on purpose");
        std::thread::sleep(Duration::from_secs(*SECONDS));
    }
}

/// Stands still until another configuration is in force than the request's, where the request's path is
/// the one that `GATEWAY_TEST_CHANGE_PATH` names.
pub(super) fn await_change_if_asked(exchange: &Exchange<'_>, path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_CHANGE_PATH").ok());
    if PATH.as_deref() == Some(path) {
        tracing::warn!("waiting for a change");
        while exchange.shard.config.load().version == exchange.snapshot.version {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// As if ticks had come late for long enough that requests are refused, where the request's path is
/// the one that `GATEWAY_TEST_LATE_PATH` names.
pub(super) fn be_late_if_asked(shard: &Shard, path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_LATE_PATH").ok());
    if PATH.as_deref() == Some(path) {
        (0..LATE_TICKS).for_each(|_| shard.relieve(OVERLOAD_LAG[2]));
    }
}

/// Panics where the request's path is the one that `GATEWAY_TEST_PANIC_PATH` names.
pub(super) fn panic_if_asked(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_PANIC_PATH").ok());
    assert!(PATH.as_deref() != Some(path), "a test asked for this panic");
}

/// Ends the whole shard where the request's path is the one that `GATEWAY_TEST_DEATH_PATH` names.
pub(super) fn end_shard_if_asked(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_DEATH_PATH").ok());
    if PATH.as_deref() == Some(path) {
        // A task without a fence takes its shard with it.
        monoio::spawn(async { panic!("a test asked for the shard's end") });
    }
}

/// Has deadlines see 31 seconds pass at once where the request's path is the one that
/// `GATEWAY_TEST_SKIP_PATH` names: more than a quiet peer gets before it is asked for a sign of
/// life, and more than it then gets to give one.
pub(super) fn skip_time_if_asked(shard: &Shard, path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_SKIP_PATH").ok());
    if PATH.as_deref() == Some(path) {
        shard.skip(Duration::from_secs(31));
    }
}

//! Faults that tests inject; compiled only with the feature `test-hooks`.

#![expect(
    clippy::disallowed_methods,
    reason = "blocking is what the test requires"
)]

use std::sync::LazyLock;
use std::time::Duration;

use crate::exchange::Exchange;
use crate::limits::{LATE_TICKS, OVERLOAD_LAG};
use crate::shard::Shard;

/// Blocks the shard if the request's path is `GATEWAY_TEST_STALL_PATH`: for two seconds, or
/// `GATEWAY_TEST_STALL_SECONDS`.
pub(super) fn stall_if_requested(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_STALL_PATH").ok());
    static SECONDS: LazyLock<u64> =
        LazyLock::new(|| seconds("GATEWAY_TEST_STALL_SECONDS").unwrap_or(2));
    if PATH.as_deref() == Some(path) {
        tracing::warn!("stalled on purpose");
        std::thread::sleep(Duration::from_secs(*SECONDS));
    }
}

/// Blocks until a newer configuration is current than the request's, if its path is
/// `GATEWAY_TEST_CHANGE_PATH`.
pub(super) fn await_change_if_requested(exchange: &Exchange<'_>, path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_CHANGE_PATH").ok());
    if PATH.as_deref() == Some(path) {
        tracing::warn!("waiting for a change");
        let own = exchange.snapshot.as_ref().map(|snapshot| snapshot.version);
        while own == Some(exchange.shard.config.load().version) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Simulates late ticks, so that requests are rejected, if the path is `GATEWAY_TEST_LATE_PATH`.
pub(super) fn delay_if_requested(shard: &Shard, path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_LATE_PATH").ok());
    if PATH.as_deref() == Some(path) {
        (0..LATE_TICKS).for_each(|_| shard.shed_connections(OVERLOAD_LAG[2]));
    }
}

/// Panics if the request's path is `GATEWAY_TEST_PANIC_PATH`.
pub(super) fn panic_if_requested(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_PANIC_PATH").ok());
    assert!(PATH.as_deref() != Some(path), "a test asked for this panic");
}

/// Ends the whole shard if the request's path is `GATEWAY_TEST_DEATH_PATH`.
pub(super) fn end_shard_if_requested(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_DEATH_PATH").ok());
    if PATH.as_deref() == Some(path) {
        // A panic in a task without a fence ends the shard.
        monoio::spawn(async { panic!("a test asked for the shard's end") });
    }
}

/// Advances deadlines at once if the request's path is `GATEWAY_TEST_SKIP_PATH`: by 31 seconds, longer
/// than both the silence before a PING and its timeout, or by `GATEWAY_TEST_SKIP_SECONDS`.
pub(super) fn skip_time_if_requested(shard: &Shard, path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_SKIP_PATH").ok());
    static SECONDS: LazyLock<u64> =
        LazyLock::new(|| seconds("GATEWAY_TEST_SKIP_SECONDS").unwrap_or(31));
    if PATH.as_deref() == Some(path) {
        shard.skip(Duration::from_secs(*SECONDS));
    }
}

fn seconds(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

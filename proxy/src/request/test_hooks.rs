//! A way for tests to break a request on purpose; compiled with the feature `test-hooks` alone.

use std::sync::LazyLock;

/// Panics where the request's path is the one that `GATEWAY_TEST_PANIC_PATH` names.
pub(super) fn panic_if_asked(path: &str) {
    static PATH: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("GATEWAY_TEST_PANIC_PATH").ok());
    assert!(PATH.as_deref() != Some(path), "a test asked for this panic");
}

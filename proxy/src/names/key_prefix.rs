//! The beginning of a key, for logs and metrics, which shares the memory of the key.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The beginning of a key.
#[derive(Clone)]
pub struct KeyPrefix {
    key: Arc<str>,
    bytes: usize,
}

impl KeyPrefix {
    /// The part of the key that `prefix` returns, which the key has to begin with.
    #[must_use]
    pub fn new(key: Arc<str>, prefix: impl FnOnce(&str) -> &str) -> Self {
        let prefix = prefix(&key);
        debug_assert!(key.starts_with(prefix), "`{prefix}` begins `{key}`");
        let bytes = prefix.len();
        Self { key, bytes }
    }
}

impl Deref for KeyPrefix {
    type Target = str;

    fn deref(&self) -> &str {
        self.key.get(..self.bytes).unwrap_or(&self.key)
    }
}

impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

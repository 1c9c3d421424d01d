//! A value that is handed out once when it changes, and not needed afterwards.

use std::cell::RefCell;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;

/// A value until it is taken, and its hash, which later values are compared with.
#[derive(Debug)]
pub(crate) struct TakeOnce<T> {
    hash: u64,
    value: RefCell<Option<T>>,
}

impl<T: Hash> TakeOnce<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            hash: KEYS.hash_one(&value),
            value: RefCell::new(Some(value)),
        }
    }

    /// The value; `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<T> {
        self.value.take()
    }
}

/// By the hash, whether or not the values were taken.
impl<T> PartialEq for TakeOnce<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// Random, so that authors of objects cannot construct two with the same hash.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

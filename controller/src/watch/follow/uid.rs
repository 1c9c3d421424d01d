//! What distinguishes an object from earlier ones of its name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::watch::raw::Raw;

/// The hash of an object's `uid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uid(u64);

impl Uid {
    pub(super) fn of(raw: &Raw) -> Self {
        let mut hasher = DefaultHasher::new();
        raw.head.uid.hash(&mut hasher);
        Self(hasher.finish())
    }
}

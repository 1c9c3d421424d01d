//! Equal values share memory: most routes of a Gateway have the same status.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Weak};

/// The values in use, by hash.
#[derive(Debug)]
pub(crate) struct SharedValues<T: ?Sized> {
    by_hash: HashMap<u64, Weak<T>>,
    hasher: RandomState,
    /// Number of values that were in use when unused ones were last removed.
    used: usize,
}

impl<T: ?Sized> Default for SharedValues<T> {
    fn default() -> Self {
        Self {
            by_hash: HashMap::new(),
            hasher: RandomState::new(),
            used: 0,
        }
    }
}

impl<T: ?Sized + Hash + Eq> SharedValues<T> {
    /// The shared value that equals this one.
    pub(crate) fn share(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        let hash = self.hasher.hash_one(value.borrow());
        let known = self.by_hash.get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == *value.borrow()) {
            return known;
        }
        let shared = value.into();
        self.by_hash.insert(hash, Arc::downgrade(&shared));
        self.forget_unused();
        shared
    }

    /// Removes unused entries, once there may be as many as used ones.
    fn forget_unused(&mut self) {
        if self.by_hash.len() > self.used.saturating_mul(2).max(FEW) {
            self.by_hash.retain(|_, value| value.strong_count() > 0);
            self.used = self.by_hash.len();
        }
    }
}

/// Unused entries that are not worth a search.
const FEW: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{FEW, SharedValues};

    #[test]
    fn equal_values_are_one_while_they_are_in_use() {
        let mut shared = SharedValues::<str>::default();
        let one = shared.share("a");
        assert!(Arc::ptr_eq(&one, &shared.share("a")));
        assert_eq!(&*shared.share("b"), "b");
        for number in 0..10 * FEW {
            drop(shared.share(number.to_string()));
        }
        assert!(shared.by_hash.len() <= FEW + 1);
        assert!(Arc::ptr_eq(&one, &shared.share("a")));
    }
}

//! Equal values share memory: most routes of a Gateway have the same status.

use std::borrow::Borrow;
use std::hash::{BuildHasher as _, Hash};
use std::sync::{Arc, Weak};

use xds::fast_hash::{FastHashMap, FastHashState};

/// The values in use, by hash.
#[derive(Debug)]
pub(crate) struct SharedValues<T: ?Sized> {
    by_hash: FastHashMap<u64, Weak<T>>,
    hasher: FastHashState,
    /// Number of values shared or let go since unused ones were last removed.
    changes: usize,
}

impl<T: ?Sized> Default for SharedValues<T> {
    fn default() -> Self {
        Self {
            by_hash: FastHashMap::default(),
            hasher: FastHashState::default(),
            changes: 0,
        }
    }
}

impl<T: ?Sized + Hash + Eq> SharedValues<T> {
    /// The shared value that equals this one.
    pub(crate) fn share(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        // It may replace another one.
        self.forget_unused();
        let hash = self.hasher.hash_one(value.borrow());
        let known = self.by_hash.get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == *value.borrow()) {
            return known;
        }
        let shared = value.into();
        self.by_hash.insert(hash, Arc::downgrade(&shared));
        shared
    }

    /// Takes note that a value may be unused now. Its text would stay in memory as long as its entry.
    pub(crate) fn released(&mut self) {
        self.forget_unused();
    }

    /// Removes unused entries, once a quarter of them may be: so each change pays for a few.
    fn forget_unused(&mut self) {
        self.changes += 1;
        if self.changes <= (self.by_hash.len() / 4).max(FEW) {
            return;
        }
        self.changes = 0;
        self.by_hash.retain(|_, value| value.strong_count() > 0);
        if self.by_hash.capacity() > 4 * self.by_hash.len() {
            self.by_hash.shrink_to(2 * self.by_hash.len());
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

    #[test]
    fn values_that_are_let_go_are_not_kept() {
        let mut shared = SharedValues::<str>::default();
        let used: Vec<_> = (0..100 * FEW)
            .map(|number| shared.share(number.to_string()))
            .collect();
        assert_eq!(shared.by_hash.len(), 100 * FEW);
        let replaced: Vec<_> = used
            .into_iter()
            .enumerate()
            .map(|(number, _)| shared.share(format!("{number} again")))
            .collect();
        let most = 126 * FEW;
        assert!(shared.by_hash.len() <= most, "{}", shared.by_hash.len());
        let same: Vec<_> = replaced.into_iter().map(|_| shared.share("same")).collect();
        assert!(shared.by_hash.len() <= 26 * FEW, "{}", shared.by_hash.len());
        for value in same {
            drop(value);
            shared.released();
        }
        assert!(shared.by_hash.len() <= 2 * FEW);
        assert!(shared.by_hash.capacity() <= 10 * FEW);
    }
}

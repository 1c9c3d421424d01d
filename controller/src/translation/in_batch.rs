//! The objects of a batch as they are after it, before it is applied.

use std::hash::Hash;

use xds::fast_hash::FastHashMap;

/// Each object that a batch changes, by key; `None` if it is gone. A look-up does not depend on the size of
/// the batch.
#[derive(Debug)]
pub(super) struct InBatch<K, T>(FastHashMap<K, Option<T>>);

impl<K, T> Default for InBatch<K, T> {
    fn default() -> Self {
        Self(FastHashMap::default())
    }
}

impl<K: Eq + Hash, T> InBatch<K, T> {
    /// Records a change.
    pub(super) fn record(&mut self, key: K, after: Option<T>) {
        self.0.insert(key, after);
    }

    /// What the batch makes of an object; the outer `None` if it does not change it.
    #[expect(clippy::option_option, reason = "unchanged is not the same as gone")]
    pub(super) fn change(&self, key: &K) -> Option<Option<&T>> {
        self.0.get(key).map(Option::as_ref)
    }

    /// Begins the next batch.
    pub(super) fn clear(&mut self) {
        // Not `clear`, which would keep the memory of the largest batch.
        self.0 = FastHashMap::default();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::{Hash, Hasher};

    use super::InBatch;

    /// An object that counts how often it is compared.
    #[derive(Debug)]
    struct Counted<'a>(usize, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn the_work_for_a_batch_of_invalid_objects_is_linear() {
        let comparisons = Cell::new(0);
        let mut batch = InBatch::default();
        for number in 0..10_000 {
            assert_eq!(batch.change(&Counted(number, &comparisons)), None);
            batch.record(Counted(number, &comparisons), Some(number));
            let change = batch.change(&Counted(number, &comparisons));
            assert_eq!(change, Some(Some(&number)));
        }
        assert!(comparisons.get() < 30_000, "{}", comparisons.get());
    }
}

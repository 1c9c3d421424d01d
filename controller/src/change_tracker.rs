//! A map that tasks write and one task follows.
//!
//! The follower learns which keys changed, and reads their current values: several changes of a key
//! are seen as one. So the memory is bounded by the number of keys, however slow the follower is.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use xds::fast_hash::{FastHashMap, FastHashSet};

/// The current value of each key, and the keys changed since the follower last took them. There is
/// one follower; any number of tasks may write and read.
#[derive(Debug)]
pub struct ChangeTracker<K, V> {
    entries: Mutex<Entries<K, V>>,
    notify: Notify,
}

#[derive(Debug)]
struct Entries<K, V> {
    /// By hash: keys are long, and there is a value for each object of the cluster.
    current: FastHashMap<K, V>,
    changed: FastHashSet<K>,
}

impl<K, V> Default for ChangeTracker<K, V> {
    fn default() -> Self {
        Self {
            entries: Mutex::new(Entries {
                current: FastHashMap::default(),
                changed: FastHashSet::default(),
            }),
            notify: Notify::new(),
        }
    }
}

impl<K: Hash + Ord + Clone, V: Clone + PartialEq> ChangeTracker<K, V> {
    /// Sets the value of a key, or removes it. Does nothing if that is its value already.
    pub fn set(&self, key: &K, value: Option<V>) {
        self.set_all([(key.clone(), value)]);
    }

    /// [`ChangeTracker::set`] for several keys, which the follower sees together.
    pub fn set_all(&self, values: impl IntoIterator<Item = (K, Option<V>)>) {
        let mut entries = self.entries();
        let mut is_changed = false;
        for (key, value) in values {
            match value {
                None => {
                    if entries.current.remove(&key).is_none() {
                        continue;
                    }
                }
                Some(value) => match entries.current.entry(key.clone()) {
                    Entry::Occupied(entry) if *entry.get() == value => continue,
                    entry => drop(entry.insert_entry(value)),
                },
            }
            entries.changed.insert(key);
            is_changed = true;
        }
        drop(entries);
        if is_changed {
            self.notify.notify_one();
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        self.entries().current.get(key).cloned()
    }

    /// All keys with a value, in any order.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        self.entries().current.keys().cloned().collect()
    }

    /// For the follower: waits until keys have changed, and takes them, in their order. Cancel-safe.
    pub async fn changed(&self) -> BTreeSet<K> {
        loop {
            let changed = self.take_changed();
            if !changed.is_empty() {
                return changed;
            }
            self.notify.notified().await;
        }
    }

    /// For the follower: takes the changed keys, if any.
    pub fn take_changed(&self) -> BTreeSet<K> {
        let changed = std::mem::take(&mut self.entries().changed);
        changed.into_iter().collect()
    }

    /// For the follower: forgets which keys have changed.
    pub fn discard_changes(&self) {
        let changed = std::mem::take(&mut self.entries().changed);
        // Without the lock: there may be a name for each object of the cluster.
        drop(changed);
    }

    fn entries(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::ChangeTracker;

    #[tokio::test]
    async fn the_subscriber_receives_each_change_once() {
        let board = ChangeTracker::default();
        board.set(&"a", Some(1));
        board.set(&"a", Some(2));
        board.set(&"b", Some(1));
        let changed = board.changed().await;
        assert_eq!(changed.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(board.get(&"a"), Some(2));
        board.set(&"a", Some(2));
        assert!(board.take_changed().is_empty(), "nothing changed");
        board.set(&"a", None);
        assert!(board.changed().await.contains("a"));
        assert_eq!(board.get(&"a"), None);
    }
}

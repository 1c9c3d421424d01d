//! An index of objects by what they reference: a set of names for each key.

use std::hash::Hash;

use xds::fast_hash::FastHashMap;
use xds::small_map::SmallMap;

use super::api::Text;

/// A label that a Pod of a namespace has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodLabel {
    pub(crate) namespace: Text,
    pub(crate) key: Text,
    pub(crate) value: Text,
}

/// Sets of names by key. A key without names is not kept.
#[derive(Debug)]
pub(crate) struct Index<K, V>(FastHashMap<K, SmallMap<V>>);

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self(FastHashMap::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone + Ord> Index<K, V> {
    /// Moves a name from one key to another; returns the keys whose sets changed.
    pub(crate) fn replace(&mut self, name: &V, old: Option<K>, new: Option<K>) -> Vec<K> {
        if old == new {
            return Vec::new();
        }
        if let Some(key) = &old
            && let Some(names) = self.0.get_mut(key)
        {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(key);
            }
        }
        if let Some(key) = &new {
            let names = self.0.entry(key.clone()).or_default();
            names.insert(name.clone(), ());
        }
        old.into_iter().chain(new).collect()
    }

    /// The names at a key, in their order.
    pub(crate) fn at(&self, key: &K) -> impl Iterator<Item = &V> + use<'_, K, V> {
        self.0.get(key).into_iter().flat_map(SmallMap::keys)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

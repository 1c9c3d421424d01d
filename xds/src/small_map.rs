//! Sorted maps that nearly always have one entry, in large numbers: a [`BTreeMap`] allocates room
//! for eleven with its first entry.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::iter::Chain;
use std::option;

/// A sorted map whose first entry needs no allocation. As a set, its values are `()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallMap<K, V = ()>(Entries<K, V>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entries<K, V> {
    None,
    One(K, V),
    #[expect(
        clippy::box_collection,
        reason = "it would make every other map larger"
    )]
    Many(Box<BTreeMap<K, V>>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Entries::None)
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Whether the map has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Entries::None)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::None => 0,
            Entries::One(..) => 1,
            Entries::Many(many) => many.len(),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match &self.0 {
            Entries::One(only, value) if only.borrow() == key => Some(value),
            Entries::Many(many) => many.get(key),
            Entries::None | Entries::One(..) => None,
        }
    }

    /// The mutable value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.0 {
            Entries::One(only, value) if only == key => Some(value),
            Entries::Many(many) => many.get_mut(key),
            Entries::None | Entries::One(..) => None,
        }
    }

    /// Inserts an entry; returns the previous value of its key.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(before) = self.get_mut(&key) {
            return Some(std::mem::replace(before, value));
        }
        self.0 = match std::mem::replace(&mut self.0, Entries::None) {
            Entries::None => Entries::One(key, value),
            Entries::One(only, its) => {
                Entries::Many(Box::new(BTreeMap::from([(only, its), (key, value)])))
            }
            Entries::Many(mut many) => {
                many.insert(key, value);
                Entries::Many(many)
            }
        };
        None
    }

    /// Removes an entry; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match std::mem::replace(&mut self.0, Entries::None) {
            Entries::One(only, value) if only == *key => Some(value),
            Entries::Many(mut many) => {
                let value = many.remove(key);
                self.0 = if many.len() > 1 {
                    Entries::Many(many)
                } else {
                    let last = many.pop_first();
                    last.map_or(Entries::None, |(key, value)| Entries::One(key, value))
                };
                value
            }
            others => {
                self.0 = others;
                None
            }
        }
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let (one, many) = match &self.0 {
            Entries::None => (None, None),
            Entries::One(key, value) => (Some((key, value)), None),
            Entries::Many(many) => (None, Some(many.iter())),
        };
        one.into_iter().chain(many.unwrap_or_default())
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + use<'_, K, V> {
        self.iter().map(|(key, _)| key)
    }
}

/// The entries of a [`SmallMap`].
pub type Iter<'a, K, V> = Chain<option::IntoIter<(&'a K, &'a V)>, btree_map::Iter<'a, K, V>>;

impl<'a, K: Ord, V> IntoIterator for &'a SmallMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Ord, V> Extend<(K, V)> for SmallMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut few = Self::default();
        few.extend(entries);
        few
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::SmallMap;

    proptest! {
        #[test]
        fn a_small_map_agrees_with_a_btree_map(
            steps in proptest::collection::vec((any::<bool>(), 0..4_u8, any::<u8>()), 0..40),
        ) {
            let (mut few, mut map) = (SmallMap::default(), BTreeMap::new());
            for (puts_in, key, value) in steps {
                if puts_in {
                    prop_assert_eq!(few.insert(key, value), map.insert(key, value));
                } else {
                    prop_assert_eq!(few.remove(&key), map.remove(&key));
                }
                prop_assert!(few.iter().eq(map.iter()));
                prop_assert_eq!(few.len(), map.len());
                prop_assert_eq!(few.is_empty(), map.is_empty());
                prop_assert_eq!(few.get(&key), map.get(&key));
                prop_assert_eq!(few.get_mut(&key), map.get_mut(&key));
            }
        }
    }
}

//! Sorted maps that nearly always have one entry or a few, in large numbers: a [`BTreeMap`] allocates
//! room for eleven with its first entry.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::iter::{Chain, Map};
use std::slice;

/// A sorted map whose first entry needs no allocation. As a set, its values are `()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallMap<K, V = ()>(Entries<K, V>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entries<K, V> {
    None,
    One((K, V)),
    /// Sorted, from two to [`FEW`].
    Few(Box<[(K, V)]>),
    #[expect(
        clippy::box_collection,
        reason = "it would make every other map larger"
    )]
    Many(Box<BTreeMap<K, V>>),
}

/// Entries that a list holds: it is copied as they are added.
const FEW: usize = 8;

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Entries::None)
    }
}

impl<K: Ord, V> Entries<K, V> {
    /// All entries, unless they are many.
    fn list(&self) -> &[(K, V)] {
        match self {
            Self::None | Self::Many(_) => &[],
            Self::One(only) => slice::from_ref(only),
            Self::Few(few) => few,
        }
    }

    /// At most [`FEW`] entries, which are sorted.
    fn of_list(mut list: Vec<(K, V)>) -> Self {
        if list.len() > 1 {
            return Self::Few(list.into_boxed_slice());
        }
        list.pop().map_or(Self::None, Self::One)
    }

    fn of_map(map: BTreeMap<K, V>) -> Self {
        if map.len() > FEW {
            Self::Many(Box::new(map))
        } else {
            Self::of_list(map.into_iter().collect())
        }
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
            Entries::Many(many) => many.len(),
            few => few.list().len(),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if let Entries::Many(many) = &self.0 {
            return many.get(key);
        }
        let mut list = self.0.list().iter();
        list.find(|(other, _)| other.borrow() == key)
            .map(|(_, value)| value)
    }

    /// The mutable value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let list = match &mut self.0 {
            Entries::None => return None,
            Entries::One(only) => slice::from_mut(only),
            Entries::Few(few) => few,
            Entries::Many(many) => return many.get_mut(key),
        };
        let found = list.iter_mut().find(|(other, _)| other == key);
        found.map(|(_, value)| value)
    }

    /// Inserts an entry; returns the previous value of its key.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Entries::Many(many) = &mut self.0 {
            return many.insert(key, value);
        }
        if let Some(before) = self.get_mut(&key) {
            return Some(std::mem::replace(before, value));
        }
        self.0 = match self.take() {
            Entries::None => Entries::One((key, value)),
            Entries::One(only) => {
                let mut both = vec![only, (key, value)];
                both.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                Entries::of_list(both)
            }
            Entries::Few(few) if few.len() < FEW => {
                let mut list = few.into_vec();
                let at = list.partition_point(|(other, _)| *other < key);
                list.insert(at, (key, value));
                Entries::of_list(list)
            }
            Entries::Few(few) => {
                let all = few.into_iter().chain([(key, value)]);
                Entries::of_map(all.collect())
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
        if let Entries::Many(many) = &mut self.0 {
            let value = many.remove(key);
            if many.len() <= FEW {
                self.0 = Entries::of_map(std::mem::take(many));
            }
            return value;
        }
        let at = self.0.list().iter().position(|(other, _)| other == key)?;
        let mut list = match self.take() {
            Entries::None | Entries::Many(_) => Vec::new(),
            Entries::One(only) => vec![only],
            Entries::Few(few) => few.into_vec(),
        };
        let (_, value) = list.remove(at);
        self.0 = Entries::of_list(list);
        Some(value)
    }

    fn take(&mut self) -> Entries<K, V> {
        std::mem::replace(&mut self.0, Entries::None)
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let many = match &self.0 {
            Entries::Many(many) => many.iter(),
            _ => btree_map::Iter::default(),
        };
        let pair: Pair<'_, K, V> = |(key, value)| (key, value);
        self.0.list().iter().map(pair).chain(many)
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + use<'_, K, V> {
        self.iter().map(|(key, _)| key)
    }
}

/// The entries of a [`SmallMap`].
pub type Iter<'a, K, V> =
    Chain<Map<slice::Iter<'a, (K, V)>, Pair<'a, K, V>>, btree_map::Iter<'a, K, V>>;

/// Turns an entry of a list into one of a map.
type Pair<'a, K, V> = fn(&'a (K, V)) -> (&'a K, &'a V);

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
            steps in proptest::collection::vec((any::<bool>(), 0..12_u8, any::<u8>()), 0..80),
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

//! Sums over units, updated by the difference between each unit's old and new contribution.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::{ListenerKey, ObjectName};
use xds::small_map::SmallMap;

use crate::store::ObjectRef;
use crate::upstream::Upstream;

/// All counts that units contribute to.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Routes attached to each listener.
    pub(crate) routes: Count<ListenerKey, ()>,
    /// ListenerSets attached to each Gateway.
    pub(crate) sets: Count<ObjectName, ()>,
    /// References to each upstream, by Gateway.
    pub(crate) users: Count<Upstream, ObjectName>,
    /// References to Services of endpoint pickers, by Gateway.
    pub(crate) picker_users: Count<Upstream, ObjectName>,
    /// The policies that do not apply to each Gateway because their statuses have no room for it.
    pub(crate) left_out: Count<ObjectName, ObjectRef>,
    /// The objects of this controller that carry requests, by namespace: kind and name.
    pub(crate) ours: Count<Arc<str>, (&'static str, ObjectName)>,
}

/// A multiset of values for each key. Values with count 0 are not kept.
#[derive(Debug)]
pub(crate) struct Count<K, V>(FastHashMap<K, SmallMap<V, u32>>);

impl<K, V> Default for Count<K, V> {
    fn default() -> Self {
        Self(FastHashMap::default())
    }
}

impl<K: Clone + Ord + Hash, V: Clone + Ord> Count<K, V> {
    /// Replaces a unit's contribution. Returns the keys at which it changed, and whether a value
    /// appeared or disappeared there.
    pub(crate) fn replace(
        &mut self,
        old: impl Iterator<Item = (K, V)>,
        new: impl Iterator<Item = (K, V)>,
    ) -> BTreeMap<K, bool> {
        let old: BTreeSet<(K, V)> = old.collect();
        let new: BTreeSet<(K, V)> = new.collect();
        let mut changed = BTreeMap::new();
        for (key, value) in old.difference(&new) {
            *changed.entry(key.clone()).or_default() |= self.remove(key, value);
        }
        for (key, value) in new.difference(&old) {
            let is_first = self.add(key, value);
            *changed.entry(key.clone()).or_default() |= is_first;
        }
        changed
    }

    /// Returns whether it is the first.
    fn add(&mut self, key: &K, value: &V) -> bool {
        let values = self.0.entry(key.clone()).or_default();
        let Some(count) = values.get_mut(value) else {
            values.insert(value.clone(), 1);
            return true;
        };
        *count += 1;
        false
    }

    /// Returns whether it was the last.
    fn remove(&mut self, key: &K, value: &V) -> bool {
        let Some(values) = self.0.get_mut(key) else {
            return false;
        };
        let Some(count) = values.get_mut(value) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            values.remove(value);
        }
        if values.is_empty() {
            self.0.remove(key);
        }
        last
    }

    /// The values of a key.
    pub(crate) fn at(&self, key: &K) -> impl Iterator<Item = &V> + use<'_, K, V> {
        self.0.get(key).into_iter().flat_map(SmallMap::keys)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Eq + Hash> Count<K, ()> {
    /// How many units count at a key.
    pub(crate) fn total(&self, key: &K) -> u32 {
        let counts = self.0.get(key);
        counts.and_then(|it| it.get(&())).copied().unwrap_or(0)
    }
}

#[cfg(test)]
impl Counts {
    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty()
            && self.sets.is_empty()
            && self.users.is_empty()
            && self.picker_users.is_empty()
            && self.left_out.is_empty()
            && self.ours.is_empty()
    }
}

//! Sums over units, updated by the difference between each unit's old and new contribution.

use std::hash::Hash;
use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::{ListenerKey, ObjectName, PolicyTarget, ServiceKey};
use xds::small_map::SmallMap;

use crate::backend::upstream::{PortOfService, Upstream};
use crate::objects::object_ref::ObjectRef;

/// All counts that units contribute to.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Routes attached to each listener.
    pub(crate) routes: Count<ListenerKey, ()>,
    /// ListenerSets attached to each Gateway.
    pub(crate) sets: Count<ObjectName, ()>,
    /// References to each upstream, by Gateway.
    pub(crate) users: Count<Upstream, ObjectName>,
    /// References to each port of a Service.
    pub(crate) ports: Count<ServiceKey, PortOfService>,
    /// References to Services of endpoint pickers, by Gateway.
    pub(crate) picker_users: Count<Upstream, ObjectName>,
    /// What stands in for refused policies at each Gateway.
    pub(crate) closing_policies: FastHashMap<ObjectName, u64>,
    /// The policies that do not apply to each Gateway because their statuses have no room for it.
    pub(crate) left_out: Count<ObjectName, ObjectRef>,
    /// The targets of each Gateway with policies that take precedence over others.
    pub(crate) overriding: Count<ObjectName, Arc<PolicyTarget>>,
    /// The objects of this controller that carry requests, by namespace.
    pub(crate) ours: Count<Arc<str>, ObjectRef>,
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
    /// Replaces a unit's contribution. Returns the keys at which it changed, in their order, and whether
    /// a value appeared or disappeared there.
    pub(crate) fn replace(
        &mut self,
        old: impl Iterator<Item = (K, V)>,
        new: impl Iterator<Item = (K, V)>,
    ) -> Vec<(K, bool)> {
        let (old, new) = (sorted(old), sorted(new));
        let mut changed = Vec::new();
        for entry in &old {
            if new.binary_search(entry).is_err() {
                let (key, value) = entry;
                changed.push((key.clone(), self.remove(key, value)));
            }
        }
        for entry in &new {
            if old.binary_search(entry).is_err() {
                let (key, value) = entry;
                changed.push((key.clone(), self.add(key, value)));
            }
        }
        changed.sort_by(|(one, _), (other, _)| one.cmp(other));
        changed.dedup_by(|(later, later_has), (kept, kept_has)| {
            let is_same = later == kept;
            *kept_has |= is_same && *later_has;
            is_same
        });
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

/// Each entry once, in order.
fn sorted<T: Ord>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let mut entries: Vec<T> = entries.collect();
    entries.sort_unstable();
    entries.dedup();
    entries
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
            && self.ports.is_empty()
            && self.picker_users.is_empty()
            && self.closing_policies.is_empty()
            && self.left_out.is_empty()
            && self.overriding.is_empty()
            && self.ours.is_empty()
    }
}

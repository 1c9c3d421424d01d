//! The ids of everything for which shards keep state across configurations.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use xds::model::{ListenerKey, RouteKey, Transport};

use super::tls::SettingsId;
use crate::config::Address;
use crate::config::held::{Held, HeldIds};
use crate::names::{Interned, Interner};

#[derive(Debug, Default)]
pub(super) struct Ids {
    pub(super) binds: BindIds,
    pub(super) listeners: IdTable<ListenerKey>,
    pub(super) rules: IdTable<PlacedKey>,
    pub(super) clusters: IdTable<Arc<str>>,
    /// By cluster: the health of an endpoint of two services is tracked for each on its own. And by
    /// TLS settings: connections are not shared between different ones.
    pub(super) endpoints: IdTable<EndpointKey>,
}

impl Ids {
    /// Ids released from now on are not used by the snapshot of this version.
    pub(super) fn begin(&mut self, version: u64) {
        self.listeners.version = version;
        self.rules.version = version;
        self.clusters.version = version;
        self.endpoints.version = version;
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
            && self.rules.is_empty()
            && self.clusters.is_empty()
            && self.endpoints.is_empty()
    }

    /// Frees the ids that neither a snapshot from version `oldest` on uses nor what shards hold.
    pub(super) fn release(&mut self, oldest: u64, held: &[Held]) {
        let held: HeldIds = if self.has_gone() {
            held.iter().collect()
        } else {
            HeldIds::default()
        };
        self.listeners
            .release(oldest, |_, id| held.listeners.contains(&id));
        self.rules.release(oldest, |_, id| held.rules.contains(&id));
        self.clusters
            .release(oldest, |_, id| held.clusters.contains(&id));
        let of_cluster = |key: &EndpointKey, _| held.clusters.contains(&key.0);
        self.endpoints.release(oldest, of_cluster);
    }

    fn has_gone(&self) -> bool {
        !(self.listeners.gone.is_empty()
            && self.rules.gone.is_empty()
            && self.clusters.gone.is_empty()
            && self.endpoints.gone.is_empty())
    }
}

/// Identifies a rule at a listener, whether it came once for the listener or once for its Gateway.
#[derive(Debug, Clone)]
pub(super) struct PlacedKey {
    pub(super) route: RouteKey,
    pub(super) listener: ListenerKey,
}

impl PartialEq for PlacedKey {
    fn eq(&self, other: &Self) -> bool {
        self.listener == other.listener && self.route.rule() == other.route.rule()
    }
}

impl Eq for PlacedKey {}

impl Hash for PlacedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.route.rule().hash(state);
        self.listener.hash(state);
    }
}

/// Identifies an endpoint: its cluster, its TLS settings, its address.
pub(super) type EndpointKey = (Interned, Option<SettingsId>, Address);

/// Reference-counted ids of one kind. A released id is freed once no snapshot uses it.
#[derive(Debug)]
pub(super) struct IdTable<K> {
    interner: Interner<K>,
    uses: Vec<UseCount>,
    /// Released keys, with the version of the first snapshot without them.
    gone: VecDeque<(u64, K)>,
    version: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct UseCount {
    count: u32,
    /// The version of the first snapshot without it, if the count is zero.
    gone: u64,
}

impl<K> Default for IdTable<K> {
    fn default() -> Self {
        Self {
            interner: Interner::default(),
            uses: Vec::new(),
            gone: VecDeque::new(),
            version: 0,
        }
    }
}

impl<K: Eq + Hash + Clone> IdTable<K> {
    /// Acquires the id of a key, adding a reference.
    pub(super) fn acquire(&mut self, key: &K) -> Interned {
        let id = self.interner.intern(key);
        let index = id.index as usize;
        if self.uses.len() <= index {
            self.uses.resize(index + 1, UseCount::default());
        }
        self.uses[index].count += 1;
        id
    }

    /// Releases one reference to a key.
    pub(super) fn remove_reference(&mut self, key: &K) {
        let Some(id) = self.interner.get(key) else {
            debug_assert!(false, "what is given back was acquired");
            return;
        };
        let uses = &mut self.uses[id.index as usize];
        uses.count -= 1;
        if uses.count == 0 {
            uses.gone = self.version;
            self.gone.push_back((self.version, key.clone()));
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.interner.iter().next().is_none()
    }

    fn release(&mut self, oldest: u64, is_held: impl Fn(&K, Interned) -> bool) {
        let mut held = Vec::new();
        while let Some((version, key)) = self.gone.pop_front_if(|(version, _)| *version <= oldest) {
            let Some(id) = self.interner.get(&key) else {
                continue;
            };
            // It may have been acquired and released again since.
            let uses = self.uses[id.index as usize];
            if uses.count > 0 || uses.gone != version {
                continue;
            }
            if is_held(&key, id) {
                held.push((version, key));
            } else {
                self.interner.remove(&key);
            }
        }
        for one in held.into_iter().rev() {
            self.gone.push_front(one);
        }
    }
}

/// Ids of binds. An id belongs to an address, whichever Gateway has it: when a Gateway replaces
/// another, sockets and clients' connections stay. It is never reused for another address, because
/// connections outlive their bind. The number of addresses that a proxy ever has is small.
#[derive(Debug, Default)]
pub(super) struct BindIds(HashMap<(Transport, SocketAddr), u32>);

impl BindIds {
    /// The id of the bind of an address.
    pub(super) fn intern(&mut self, transport: Transport, address: SocketAddr) -> u32 {
        let next = u32::try_from(self.0.len()).expect("binds are objects that somebody wrote");
        *self.0.entry((transport, address)).or_insert(next)
    }

    /// Number of ids ever given out.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Numbers for entries of a table, lowest free one first. A released number is free from the next
/// version on, so that it is not used twice while a version is compiled.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: Vec<usize>,
    given_back: Vec<usize>,
    next: usize,
}

impl Slots {
    pub(super) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(super) fn remove_reference(&mut self, slot: usize) {
        self.given_back.push(slot);
    }

    pub(super) fn begin(&mut self) {
        self.free.append(&mut self.given_back);
    }
}

#[cfg(test)]
mod tests {
    use super::IdTable;

    /// A request may last for days, and counts for its rule.
    #[test]
    fn an_id_that_a_request_holds_is_not_reused() {
        let mut table = IdTable::default();
        let held = table.acquire(&"held");
        table.version = 1;
        table.remove_reference(&"held");
        table.release(1, |key, id| (*key, id) == ("held", held));
        let other = table.acquire(&"other");
        assert_eq!((other.index, other.generation), (1, 0));
        table.release(1, |_, _| false);
        let next = table.acquire(&"next");
        assert_eq!((next.index, next.generation), (held.index, 1));
    }
}

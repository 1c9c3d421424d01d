//! The resources that one Gateway's proxies need, as a log: sequence numbers to keys, each key
//! once, at its last change. Removed keys stay as tombstones until every connection has received
//! them.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use super::batch::{Batch, Entry};
use super::digest::Digest;
use super::encoded::Encoded;
use crate::limits::TOMBSTONES;
use crate::model::{Kind, ResourceKey};

#[derive(Debug, Default)]
pub(super) struct View {
    entries: BTreeMap<ResourceKey, LogEntry>,
    log: BTreeMap<u64, ResourceKey>,
    /// The sequence number of the last change.
    head: u64,
    /// Sequence numbers of removed keys.
    tombstones: BTreeSet<u64>,
    /// Tombstones up to this number are dropped: connections with older cursors must resynchronise.
    forgotten: u64,
    /// Cursors of the connections, by session.
    cursors: BTreeMap<u64, u64>,
    /// The batch of everything, while a connection is receiving it: proxies often start together.
    whole: Weak<Batch>,
    /// Batches up to the head by their starting point, while a connection may still take them.
    batches: BTreeMap<u64, Arc<Batch>>,
    /// Number of batches built.
    batches_built: u64,
    /// Digests of the current resources, of the kinds that proxies have reported one of.
    digests: BTreeMap<Kind, Digest>,
}

#[derive(Debug)]
struct LogEntry {
    sequence: u64,
    value: Option<Arc<Encoded>>,
}

/// The starting point of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchStart {
    /// The receiver holds nothing.
    Nothing,
    Sequence(u64),
}

impl View {
    /// An empty view whose log begins after this position: earlier cursors have to resynchronise.
    pub(super) fn starting_after(position: u64) -> Self {
        Self {
            head: position,
            forgotten: position,
            ..Self::default()
        }
    }

    /// Logs a change of a key, unless the view has that value already. Returns whether it changed.
    pub(super) fn set(&mut self, key: &ResourceKey, value: Option<Arc<Encoded>>) -> bool {
        let version = |value: &Option<Arc<Encoded>>| value.as_ref().map(|it| it.version);
        let sequence = self.head.saturating_add(1);
        let is_removed = value.is_none();
        match self.entries.entry(key.clone()) {
            Occupied(entry) if version(&entry.get().value) == version(&value) => {
                return false;
            }
            Vacant(_) if is_removed => return false,
            Vacant(entry) => drop(entry.insert(LogEntry { sequence, value })),
            Occupied(mut entry) => {
                let before = entry.insert(LogEntry { sequence, value });
                self.log.remove(&before.sequence);
                self.tombstones.remove(&before.sequence);
            }
        }
        self.head = sequence;
        self.log.insert(sequence, key.clone());
        if is_removed {
            self.tombstones.insert(sequence);
        }
        self.batches.clear();
        self.whole = Weak::new();
        self.digests.remove(&key.kind);
        true
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// The resource of this key, if present.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Arc<Encoded>> {
        self.entries.get(key)?.value.as_ref()
    }

    /// The sequence number of this key's last change, if present.
    pub(super) fn changed(&self, key: &ResourceKey) -> Option<u64> {
        let logged = self.entries.get(key)?;
        logged.value.as_ref().map(|_| logged.sequence)
    }

    /// The resources of a kind, by key.
    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<Encoded>> {
        let first = ResourceKey {
            kind,
            key: "".into(),
        };
        let entries = self.entries.range(first..);
        let entries = entries.take_while(move |(key, _)| key.kind == kind);
        entries.filter_map(|(_, logged)| logged.value.as_ref())
    }

    /// The digest of the resources of a kind: computed once for all proxies that reconnect.
    pub(super) fn digest(&mut self, kind: Kind) -> Digest {
        if let Some(digest) = self.digests.get(&kind) {
            return *digest;
        }
        let resources = self.of_kind(kind);
        let digest = Digest::of(resources.map(|it| (&*it.key.key, Some(it.version))));
        self.digests.insert(kind, digest);
        digest
    }

    /// The resources of a kind whose keys begin so.
    pub(super) fn starting_with<'a>(
        &'a self,
        kind: Kind,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Encoded>> {
        let first = ResourceKey {
            kind,
            key: prefix.into(),
        };
        let entries = self.entries.range(first..);
        let own =
            entries.take_while(move |(key, _)| key.kind == kind && key.key.starts_with(prefix));
        own.filter_map(|(_, logged)| logged.value.as_ref())
    }

    /// All resources.
    pub(super) fn all(&self) -> impl Iterator<Item = Entry> {
        let all = Kind::ALL.into_iter().flat_map(|kind| self.of_kind(kind));
        all.map(|encoded| (encoded.key.clone(), Some(Arc::clone(encoded))))
    }

    /// The changes after a position in the log.
    pub(super) fn since(&self, sequence: u64) -> impl Iterator<Item = Entry> {
        let later = (Bound::Excluded(sequence), Bound::Unbounded);
        let keys = self.log.range(later).map(|(_, key)| key);
        keys.map(|key| (key.clone(), self.get(key).cloned()))
    }

    /// Whether a connection with this cursor can continue.
    pub(super) fn covers(&self, cursor: u64) -> bool {
        cursor >= self.forgotten
    }

    /// All changes up to the head, for a connection that subscribes to everything: one for all of them, which
    /// the first encodes.
    pub(super) fn batch(&mut self, after: BatchStart) -> Arc<Batch> {
        let known = match after {
            BatchStart::Nothing => self.whole.upgrade(),
            BatchStart::Sequence(cursor) => self.batches.get(&cursor).cloned(),
        };
        if let Some(batch) = known {
            return batch;
        }
        self.batches_built = self.batches_built.saturating_add(1);
        match after {
            BatchStart::Nothing => {
                let batch = Arc::new(Batch::new(self.head, self.all().collect(), &Kind::ALL));
                self.whole = Arc::downgrade(&batch);
                batch
            }
            BatchStart::Sequence(cursor) => {
                let changed = self.since(cursor).collect();
                let batch = Arc::new(Batch::new(self.head, changed, &[]));
                self.batches.insert(cursor, Arc::clone(&batch));
                batch
            }
        }
    }

    /// Number of batches built for connections that subscribe to everything.
    pub(super) fn batches_built(&self) -> u64 {
        self.batches_built
    }

    /// Records that a connection was sent everything up to the head.
    pub(super) fn advance(&mut self, session: u64) {
        self.advance_to(session, self.head);
    }

    /// Records that a connection was sent everything up to a position.
    pub(super) fn advance_to(&mut self, session: u64, position: u64) {
        self.cursors.insert(session, position);
        self.forget_batches();
        self.forget_tombstones();
    }

    pub(super) fn disconnect(&mut self, session: u64) {
        self.cursors.remove(&session);
        self.forget_batches();
    }

    /// Drops the batches that no connection will take.
    fn forget_batches(&mut self) {
        let cursors = &self.cursors;
        let is_at = |sequence: &u64| cursors.values().any(|cursor| cursor == sequence);
        self.batches.retain(|after, _| is_at(after));
    }

    /// Drops the tombstones that no connection needs, and those beyond the limit.
    pub(super) fn forget_tombstones(&mut self) {
        let passed = self.cursors.values().min().copied().unwrap_or(self.head);
        let max = self.log.len().saturating_sub(self.tombstones.len());
        let max = max.saturating_add(TOMBSTONES);
        while let Some(oldest) = self.tombstones.first().copied()
            && (oldest <= passed || self.tombstones.len() > max)
        {
            self.tombstones.remove(&oldest);
            if let Some(key) = self.log.remove(&oldest) {
                self.entries.remove(&key);
            }
            self.forgotten = oldest;
        }
    }

    /// Whether it is empty and unused.
    pub(super) fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.cursors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ObjectName, Resource, Service, ServiceKey, SessionAffinity};

    fn service(number: usize) -> Arc<Encoded> {
        let key = ServiceKey::new(&ObjectName::new("a", &number.to_string()));
        let service = Service {
            key,
            vips: Vec::new(),
            ports: Vec::new(),
            session_affinity: SessionAffinity::None,
        };
        Arc::new(Encoded::new(&Resource::from(service)))
    }

    fn add(view: &mut View, number: usize) -> ResourceKey {
        let service = service(number);
        assert!(view.set(&service.key, Some(Arc::clone(&service))));
        service.key.clone()
    }

    #[test]
    fn the_log_holds_only_the_last_change_of_a_key() {
        let mut view = View::default();
        let (first, second) = (add(&mut view, 1), add(&mut view, 2));
        view.advance(1);
        view.set(&first, None);
        add(&mut view, 1);
        let keys: Vec<ResourceKey> = view.since(0).map(|(key, _)| key).collect();
        assert_eq!(keys, [second, first]);
        assert!(
            !view.set(&service(1).key, Some(service(1))),
            "nothing changed"
        );
    }

    #[test]
    fn tombstones_are_removed_once_every_connection_has_passed_them() {
        let mut view = View::default();
        let key = add(&mut view, 1);
        view.advance(1);
        view.advance(2);
        view.set(&key, None);
        view.advance(1);
        assert_eq!(
            view.tombstones.len(),
            1,
            "the second connection must receive it"
        );
        view.advance(2);
        assert_eq!(view.tombstones.len(), 0);
        assert!(view.entries.is_empty() && view.log.is_empty());
        assert!(view.covers(view.head()));
    }

    #[test]
    fn tombstones_needed_only_by_an_ended_connection_are_removed() {
        let mut view = View::default();
        let key = add(&mut view, 1);
        view.advance(1);
        view.set(&key, None);
        view.disconnect(1);
        view.forget_tombstones();
        assert!(view.is_unused());
    }

    #[test]
    fn a_stalled_connection_keeps_a_bounded_number_of_tombstones() {
        let mut view = View::default();
        add(&mut view, 0);
        view.advance(1);
        let cursor = view.head();
        for number in 1..=TOMBSTONES {
            let key = add(&mut view, number);
            view.set(&key, None);
            view.forget_tombstones();
        }
        assert!(view.covers(cursor));
        for number in 1..=2 {
            let key = add(&mut view, number);
            view.set(&key, None);
            view.forget_tombstones();
        }
        for number in 0..2 {
            let key = add(&mut view, TOMBSTONES + 10 + number);
            view.set(&key, None);
            view.forget_tombstones();
        }
        assert!(!view.covers(cursor));
        assert!(view.tombstones.len() <= TOMBSTONES + 1);
    }
}

//! Which units read which facts.
//!
//! There are more facts than anything else in a translator, so none is kept: a fact is known by its
//! hash, under keys of this process. A collision of two hashes only causes needless runs of
//! readers.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use xds::fast_hash::{FastHashMap, FastHashState};

use super::registry::UnitId;
use crate::reader::{Fact, ObjectIndex};

/// 40 bits of the hash of a fact: with a unit's number of 24 bits they fit in one number of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FactId([u8; 5]);

/// A fact and one of its readers, in the order of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge(u64);

impl Edge {
    fn new(fact: FactId, unit: UnitId) -> Self {
        Self(fact.number() << UnitId::BITS | u64::from(unit.number()))
    }

    fn unit(self) -> UnitId {
        let [.., high, middle, low] = self.0.to_be_bytes();
        UnitId::of_number(u32::from_be_bytes([0, high, middle, low]))
    }
}

impl FactId {
    fn of_hash(hash: u64) -> Self {
        let [.., first, second, third, fourth, fifth] = hash.to_be_bytes();
        Self([first, second, third, fourth, fifth])
    }

    fn number(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[3..].copy_from_slice(&self.0);
        u64::from_be_bytes(bytes)
    }
}

/// Facts and their readers. A fact without readers has no id.
#[derive(Debug, Default)]
pub(super) struct Edges {
    keys: FastHashState,
    /// One set of all pairs: a map of sets takes twice the memory.
    readers: BTreeSet<Edge>,
    /// Facts without readers, for which something has to be dropped.
    kept: FastHashMap<FactId, Fact>,
    /// A kind of fact that is not recorded, so that tests can show that they would notice.
    #[cfg(test)]
    pub(super) ignored: Option<&'static str>,
}

impl Edges {
    /// Replaces `old`, the sorted facts that a unit read, by those that it reads now. Returns these, and
    /// the facts that lost their last reader and for whose readers something was kept.
    pub(super) fn replace(
        &mut self,
        unit: UnitId,
        old: &[FactId],
        facts: Vec<Fact>,
    ) -> (Box<[FactId]>, Vec<Fact>) {
        let mut read: Vec<(FactId, Fact)> = Vec::with_capacity(facts.len());
        for fact in facts {
            #[cfg(test)]
            if self.ignored == Some(fact.kind()) {
                continue;
            }
            read.push((self.id(&fact), fact));
        }
        // Units look up many facts more than once, and mostly the same ones as the last time.
        read.sort_unstable_by_key(|(id, _)| *id);
        read.dedup_by_key(|(id, _)| *id);
        let new: Box<[FactId]> = read.iter().map(|(id, _)| *id).collect();
        for (id, fact) in read {
            if old.binary_search(&id).is_err() {
                self.enter(unit, id, fact);
            }
        }
        let left = old.iter().filter(|id| new.binary_search(id).is_err());
        let forgotten = left.filter_map(|id| self.leave(unit, *id)).collect();
        (new, forgotten)
    }

    /// The readers of a fact.
    pub(super) fn readers(&self, fact: &Fact) -> impl Iterator<Item = UnitId> + '_ {
        self.readers_of(self.id(fact))
    }

    fn readers_of(&self, id: FactId) -> impl Iterator<Item = UnitId> + '_ {
        let first = Edge::new(id, UnitId::MIN);
        let readers = self.readers.range(first..=Edge::new(id, UnitId::MAX));
        readers.map(|edge| edge.unit())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.kept.is_empty()
    }

    fn id(&self, fact: &Fact) -> FactId {
        FactId::of_hash(self.keys.hash_one(fact))
    }

    fn enter(&mut self, unit: UnitId, id: FactId, fact: Fact) {
        self.readers.insert(Edge::new(id, unit));
        if ObjectIndex::keeps_for_readers(&fact) {
            self.kept.insert(id, fact);
        }
    }

    /// Returns the fact if this was its last reader, and something was kept for it.
    fn leave(&mut self, unit: UnitId, id: FactId) -> Option<Fact> {
        self.readers.remove(&Edge::new(id, unit));
        if self.readers_of(id).next().is_some() {
            return None;
        }
        self.kept.remove(&id)
    }
}

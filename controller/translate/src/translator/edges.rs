//! Which units read which facts.
//!
//! There are more facts than anything else in a translator, so none is kept: a fact is known by its
//! hash, under keys of this process. A collision of two hashes only causes needless runs of
//! readers.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use super::registry::UnitId;
use crate::reader::{Fact, ObjectIndex};

/// The hash of a fact. As bytes: a pair with a unit takes twelve, where a number of 64 bits would be
/// aligned to sixteen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FactId([u8; 8]);

/// Facts and their readers. A fact without readers has no id.
#[derive(Debug, Default)]
pub(super) struct Edges {
    keys: RandomState,
    /// One set of all pairs: a map of sets takes twice the memory.
    readers: BTreeSet<(FactId, UnitId)>,
    /// Facts without readers, for which something has to be dropped.
    kept: HashMap<FactId, Fact>,
    /// A kind of fact that is not recorded, so that tests can show that they would notice.
    #[cfg(test)]
    pub(super) ignored: Option<&'static str>,
}

impl Edges {
    /// Replaces `old`, the facts that a unit read, by those that it reads now. Returns these, and
    /// the facts that lost their last reader and for whose readers something was kept.
    pub(super) fn replace(
        &mut self,
        unit: UnitId,
        old: &[FactId],
        facts: Vec<Fact>,
    ) -> (Box<[FactId]>, Vec<Fact>) {
        let mut new: Vec<FactId> = Vec::with_capacity(facts.len());
        for fact in facts {
            #[cfg(test)]
            if self.ignored == Some(fact.kind()) {
                continue;
            }
            new.push(self.read(unit, fact));
        }
        new.sort_unstable();
        new.dedup();
        let left = old.iter().filter(|id| new.binary_search(id).is_err());
        let forgotten = left.filter_map(|id| self.leave(unit, *id)).collect();
        (new.into(), forgotten)
    }

    /// The readers of a fact.
    pub(super) fn readers(&self, fact: &Fact) -> impl Iterator<Item = UnitId> + '_ {
        self.readers_of(self.id(fact))
    }

    fn readers_of(&self, id: FactId) -> impl Iterator<Item = UnitId> + '_ {
        let readers = self.readers.range((id, UnitId::MIN)..=(id, UnitId::MAX));
        readers.map(|(_, unit)| *unit)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.kept.is_empty()
    }

    fn id(&self, fact: &Fact) -> FactId {
        FactId(self.keys.hash_one(fact).to_ne_bytes())
    }

    fn read(&mut self, unit: UnitId, fact: Fact) -> FactId {
        let id = self.id(&fact);
        self.readers.insert((id, unit));
        if ObjectIndex::keeps_for_readers(&fact) {
            self.kept.insert(id, fact);
        }
        id
    }

    /// Returns the fact if this was its last reader, and something was kept for it.
    fn leave(&mut self, unit: UnitId, id: FactId) -> Option<Fact> {
        self.readers.remove(&(id, unit));
        if self.readers_of(id).next().is_some() {
            return None;
        }
        self.kept.remove(&id)
    }
}

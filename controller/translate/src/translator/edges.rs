//! Which units read which facts.

use std::collections::{BTreeSet, HashMap};

use super::roster::UnitId;
use crate::reader::Fact;

/// A fact that some unit reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FactId(u32);

/// Facts and their readers. A fact that nobody reads is not kept.
#[derive(Debug, Default)]
pub(super) struct Edges {
    ids: HashMap<Fact, FactId>,
    slots: Vec<Option<Slot>>,
    free: Vec<FactId>,
    /// A kind of fact that is not recorded, so that tests can show that they would notice.
    #[cfg(test)]
    pub(super) ignored: Option<&'static str>,
}

#[derive(Debug)]
struct Slot {
    fact: Fact,
    readers: Readers,
}

/// Nearly every fact has a single reader.
#[derive(Debug)]
enum Readers {
    One(UnitId),
    Many(BTreeSet<UnitId>),
}

impl Edges {
    /// Replaces `old`, what a unit read, by what it reads now. Returns that, and the facts that
    /// nobody reads any more.
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
        let slot = self.ids.get(fact).and_then(|id| self.slot(*id));
        let (one, many) = match slot.map(|slot| &slot.readers) {
            Some(Readers::One(unit)) => (Some(*unit), None),
            Some(Readers::Many(units)) => (None, Some(units)),
            None => (None, None),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.slots.iter().all(Option::is_none)
    }

    fn slot(&self, id: FactId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    fn read(&mut self, unit: UnitId, fact: Fact) -> FactId {
        if let Some(&id) = self.ids.get(&fact) {
            if let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) {
                slot.readers.insert(unit);
            }
            return id;
        }
        let slot = Slot {
            fact: fact.clone(),
            readers: Readers::One(unit),
        };
        let id = if let Some(id) = self.free.pop() {
            self.slots[id.0 as usize] = Some(slot);
            id
        } else {
            let next = u32::try_from(self.slots.len()).expect("fewer facts than bytes");
            self.slots.push(Some(slot));
            FactId(next)
        };
        self.ids.insert(fact, id);
        id
    }

    /// Returns the fact if this was its last reader.
    fn leave(&mut self, unit: UnitId, id: FactId) -> Option<Fact> {
        let slot = self.slots.get_mut(id.0 as usize)?;
        if !slot.as_mut()?.readers.remove(unit) {
            return None;
        }
        let Slot { fact, .. } = slot.take()?;
        self.ids.remove(&fact);
        self.free.push(id);
        Some(fact)
    }
}

impl Readers {
    fn insert(&mut self, unit: UnitId) {
        match self {
            Self::One(other) if *other == unit => {}
            Self::One(other) => *self = Self::Many(BTreeSet::from([*other, unit])),
            Self::Many(units) => {
                units.insert(unit);
            }
        }
    }

    /// Returns whether nobody is left.
    fn remove(&mut self, unit: UnitId) -> bool {
        match self {
            Self::One(other) => *other == unit,
            Self::Many(units) => {
                units.remove(&unit);
                if let (1, Some(last)) = (units.len(), units.first()) {
                    *self = Self::One(*last);
                }
                false
            }
        }
    }
}

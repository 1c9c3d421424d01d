//! Which units read which facts.
//!
//! There are more facts than anything else in a translator, so none is kept: a fact is known by its
//! hash, under keys of this process. A collision of two hashes only causes needless runs of
//! readers.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xds::fast_hash::{FastHashMap, FastHashState};

use super::fact::Fact;
use super::ids::{FactId, UnitId};
use crate::objects::object_index::ObjectIndex;

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

    fn fact(self) -> FactId {
        let [first, second, third, fourth, fifth, ..] = self.0.to_be_bytes();
        FactId([first, second, third, fourth, fifth])
    }
}

/// Facts and their readers. A fact without readers has no id.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    keys: FastHashState,
    /// One reader of each fact that has any. Most have no other one.
    first: HashTable<Edge>,
    /// The other readers. One set of all pairs: a map of sets takes twice the memory.
    others: BTreeSet<Edge>,
    /// Facts with readers, for which something has to be dropped once the last one leaves.
    kept: FastHashMap<FactId, Fact>,
    /// A kind of fact that is not recorded, so that tests can show that they would notice.
    #[cfg(test)]
    pub(crate) ignored: Option<&'static str>,
}

impl Edges {
    /// Replaces `old`, the sorted facts that a unit read, by those that it reads now. Returns these, and
    /// the facts that lost their last reader and for whose readers something was kept.
    pub(crate) fn replace(
        &mut self,
        unit: UnitId,
        old: &[FactId],
        facts: Vec<Fact>,
    ) -> (Box<[FactId]>, Vec<Fact>) {
        let mut new = Vec::with_capacity(facts.len());
        for fact in facts {
            #[cfg(test)]
            if self.ignored == Some(fact.kind()) {
                continue;
            }
            let id = self.id(&fact);
            new.push(id);
            if ObjectIndex::keeps_for_readers(&fact) {
                self.kept.insert(id, fact);
            }
        }
        // Units look up many facts more than once, and mostly the same ones as the last time.
        new.sort_unstable();
        new.dedup();
        for id in &new {
            if old.binary_search(id).is_err() {
                self.enter(unit, *id);
            }
        }
        let left = old.iter().filter(|id| new.binary_search(id).is_err());
        let forgotten = left.filter_map(|id| self.leave(unit, *id)).collect();
        (new.into(), forgotten)
    }

    /// The readers of a fact.
    pub(crate) fn readers(&self, fact: &Fact) -> impl Iterator<Item = UnitId> + '_ {
        self.readers_of(self.id(fact))
    }

    fn readers_of(&self, id: FactId) -> impl Iterator<Item = UnitId> + '_ {
        let first = self.first.find(id.hash(), |edge| edge.fact() == id);
        let others = first.into_iter().flat_map(move |_| self.others_of(id));
        first.into_iter().chain(others).map(|edge| edge.unit())
    }

    /// All readers but the first one.
    fn others_of(&self, id: FactId) -> impl Iterator<Item = &Edge> + '_ {
        let first = Edge::new(id, UnitId::MIN);
        self.others.range(first..=Edge::new(id, UnitId::MAX))
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.others.is_empty() && self.kept.is_empty()
    }

    fn id(&self, fact: &Fact) -> FactId {
        FactId::of_hash(self.keys.hash_one(fact))
    }

    fn enter(&mut self, unit: UnitId, id: FactId) {
        let edge = Edge::new(id, unit);
        let is_same = |other: &Edge| other.fact() == id;
        let entry = self
            .first
            .entry(id.hash(), is_same, |edge| edge.fact().hash());
        match entry {
            Entry::Vacant(entry) => drop(entry.insert(edge)),
            Entry::Occupied(_) => drop(self.others.insert(edge)),
        }
    }

    /// Returns the fact if this was its last reader, and something was kept for it.
    fn leave(&mut self, unit: UnitId, id: FactId) -> Option<Fact> {
        let edge = Edge::new(id, unit);
        if self.others.remove(&edge) {
            return None;
        }
        let next = self.others_of(id).next().copied();
        let first = self.first.find_entry(id.hash(), |other| *other == edge);
        let mut first = first.ok()?;
        if let Some(next) = next {
            *first.get_mut() = next;
            self.others.remove(&next);
            return None;
        }
        first.remove();
        self.kept.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use xds::model::ObjectName;

    use super::*;
    use crate::backend::api::Service;
    use crate::objects::api::Secret;
    use crate::objects::object_ref::ObjectRef;

    fn readers(edges: &Edges, fact: &Fact) -> BTreeSet<UnitId> {
        edges.readers(fact).collect()
    }

    #[test]
    fn a_fact_has_the_readers_that_are_left() {
        let name = ObjectName::new("a", "b");
        let secret = Fact::Object(ObjectRef::of::<Secret>(&name));
        let service = Fact::Object(ObjectRef::of::<Service>(&name));
        let [one, two, three] = [1, 2, 3].map(UnitId::of_number);
        // In any order: one of them is kept apart from the others.
        for order in [[one, two, three], [two, three, one], [three, one, two]] {
            let mut edges = Edges::default();
            let mut reads = Vec::new();
            for unit in [one, two, three] {
                let facts = vec![secret.clone(), service.clone(), secret.clone()];
                let (read, forgotten) = edges.replace(unit, &[], facts);
                assert_eq!((read.len(), forgotten), (2, vec![]));
                reads.push((unit, read));
            }
            let mut left: BTreeSet<UnitId> = [one, two, three].into();
            for unit in order {
                assert_eq!(readers(&edges, &secret), left);
                let (_, read) = reads
                    .iter()
                    .find(|(other, _)| *other == unit)
                    .expect("it read");
                let facts = vec![service.clone()];
                let (read, forgotten) = edges.replace(unit, read, facts);
                left.remove(&unit);
                let is_last = left.is_empty();
                assert_eq!(
                    forgotten,
                    if is_last {
                        vec![secret.clone()]
                    } else {
                        vec![]
                    }
                );
                assert_eq!(readers(&edges, &service), [one, two, three].into());
                assert_eq!(read.len(), 1);
            }
            assert_eq!(readers(&edges, &secret), [].into());
            let service = [edges.id(&service)];
            for unit in order {
                edges.replace(unit, &service, vec![]);
            }
            assert!(edges.is_empty());
        }
    }
}

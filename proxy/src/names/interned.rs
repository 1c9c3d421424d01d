//! Interned ids for everything that is counted or remembered across configurations.
//!
//! An id is an index into the tables of every shard, and a generation that distinguishes the
//! index's current owner from earlier ones. The configuration thread assigns ids when it compiles a
//! snapshot; shards only look them up.

use std::collections::HashMap;
use std::hash::Hash;

/// The id of an endpoint, service, route or listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interned {
    /// Index into the shards' tables.
    pub index: u32,
    /// Number of earlier owners of the index.
    pub generation: u32,
}

impl Interned {
    /// The id of a bind, whose index is never reused.
    #[must_use]
    pub fn bind(index: u32) -> Self {
        Self {
            index,
            generation: 0,
        }
    }
}

/// Assigns ids to keys of one kind.
#[derive(Debug)]
pub struct Interner<K> {
    ids: HashMap<K, Interned>,
    free: Vec<Interned>,
    next: u32,
}

impl<K> Default for Interner<K> {
    fn default() -> Self {
        Self {
            ids: HashMap::new(),
            free: Vec::new(),
            next: 0,
        }
    }
}

impl<K: Eq + Hash + Clone> Interner<K> {
    /// The id of a key, assigned if it has none.
    pub fn intern(&mut self, key: &K) -> Interned {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            let index = self.next;
            self.next += 1;
            Interned {
                index,
                generation: 0,
            }
        });
        self.ids.insert(key.clone(), id);
        id
    }

    /// The id of a key, if it has one.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<Interned> {
        self.ids.get(key).copied()
    }

    /// Releases the id of a key. Call it when the last snapshot that used it is gone from every
    /// shard.
    pub fn remove(&mut self, key: &K) {
        if let Some(id) = self.ids.remove(key) {
            self.free.push(Interned {
                index: id.index,
                generation: id.generation.wrapping_add(1),
            });
        }
    }

    /// The keys and their ids, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, Interned)> {
        self.ids.iter().map(|(key, id)| (key, *id))
    }
}

/// A shard's table by id. Entries of an earlier owner are not found. It is allocated in chunks, as ids
/// are used: of many thousands a shard may use few.
#[derive(Debug)]
pub struct Table<T> {
    chunks: Vec<Option<Box<Chunk<T>>>>,
}

/// Entries with the generations of their owners.
type Chunk<T> = [Option<(u32, T)>; CHUNK];

/// As many as the ids of a service with two ports and two endpoints, of which a shard may use none.
const CHUNK: usize = 4;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Table<T> {
    /// The entry of an id.
    #[must_use]
    pub fn find(&self, id: Interned) -> Option<&T> {
        let index = id.index as usize;
        let chunk = self.chunks.get(index / CHUNK)?.as_ref()?;
        match &chunk[index % CHUNK] {
            Some((generation, entry)) if *generation == id.generation => Some(entry),
            _ => None,
        }
    }

    /// The mutable entry of an id.
    pub fn find_mut(&mut self, id: Interned) -> Option<&mut T> {
        let index = id.index as usize;
        let chunk = self.chunks.get_mut(index / CHUNK)?.as_mut()?;
        match &mut chunk[index % CHUNK] {
            Some((generation, entry)) if *generation == id.generation => Some(entry),
            _ => None,
        }
    }

    /// Iterates over all entries, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Interned, &T)> {
        let chunks = (0..).step_by(CHUNK).zip(&self.chunks);
        let chunks = chunks.filter_map(|(first, chunk)| Some((first, chunk.as_deref()?)));
        let slots = chunks.flat_map(|(first, chunk)| (first..).zip(chunk));
        slots.filter_map(|(index, slot)| {
            let (generation, entry) = slot.as_ref()?;
            let generation = *generation;
            Some((Interned { index, generation }, entry))
        })
    }

    /// Iterates over all entries mutably, in the order of their ids.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots_mut().flatten().map(|(_, entry)| entry)
    }

    /// Removes the entries for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        for slot in self.slots_mut() {
            slot.take_if(|(_, entry)| !keep(entry));
        }
    }

    fn slots_mut(&mut self) -> impl Iterator<Item = &mut Option<(u32, T)>> {
        let chunks = self.chunks.iter_mut().flatten();
        chunks.flat_map(|chunk| chunk.iter_mut())
    }

    /// The entry of an id; created by `new` if there is none, replacing an earlier owner's.
    pub fn find_or_insert(&mut self, id: Interned, new: impl FnOnce() -> T) -> &mut T {
        let index = id.index as usize;
        let number = index / CHUNK;
        if self.chunks.len() <= number {
            self.chunks.resize_with(number + 1, || None);
        }
        let chunk = self.chunks[number].get_or_insert_with(|| Box::new([const { None }; CHUNK]));
        let slot = &mut chunk[index % CHUNK];
        if slot
            .as_ref()
            .is_some_and(|(generation, _)| *generation != id.generation)
        {
            *slot = None;
        }
        &mut slot.get_or_insert_with(|| (id.generation, new())).1
    }
}

#[cfg(test)]
mod tests {
    use super::{Interned, Interner, Table};

    fn id(index: u32, generation: u32) -> Interned {
        Interned { index, generation }
    }

    #[test]
    fn a_key_keeps_its_id() {
        let mut interner = Interner::default();
        assert_eq!(interner.intern(&"a"), id(0, 0));
        assert_eq!(interner.intern(&"b"), id(1, 0));
        assert_eq!(interner.intern(&"a"), id(0, 0));
    }

    #[test]
    fn a_freed_index_is_reused_with_a_new_generation() {
        let mut interner = Interner::default();
        interner.intern(&"a");
        interner.intern(&"b");
        interner.remove(&"a");
        assert_eq!(
            (interner.get(&"a"), interner.get(&"b")),
            (None, Some(id(1, 0)))
        );
        assert_eq!(interner.intern(&"c"), id(0, 1));
        assert_eq!(interner.intern(&"a"), id(2, 0));
        assert_eq!(interner.iter().count(), 3);
    }

    #[test]
    fn a_table_replaces_the_entry_of_an_earlier_generation() {
        let mut table = Table::default();
        *table.find_or_insert(id(3, 0), || 1) += 1;
        assert_eq!(table.find(id(3, 0)), Some(&2));
        assert_eq!(table.find(id(3, 1)), None);
        assert_eq!(table.find_or_insert(id(3, 1), || 7), &7);
        assert_eq!(table.find(id(3, 0)), None);
        assert_eq!(table.find(id(9, 0)), None);
    }

    #[test]
    fn entries_can_be_mutated() {
        let mut table = Table::default();
        for index in [1, 4] {
            table.find_or_insert(id(index, 2), || index);
        }
        table.entries_mut().for_each(|entry| *entry *= 10);
        assert_eq!(table.find_mut(id(4, 2)), Some(&mut 40));
        assert_eq!(table.find_mut(id(4, 3)), None);
    }

    #[test]
    fn a_high_id_allocates_one_chunk() {
        let mut table = Table::default();
        table.find_or_insert(id(40_000, 0), || 1);
        assert_eq!(table.chunks.iter().flatten().count(), 1);
    }

    #[test]
    fn entries_are_listed_by_id_and_removed() {
        let mut table = Table::default();
        for index in [40, 3, 16, 15] {
            table.find_or_insert(id(index, 1), || index);
        }
        table.retain(|entry| *entry != 15);
        let left: Vec<_> = table.iter().map(|(id, entry)| (id, *entry)).collect();
        assert_eq!(left, [(id(3, 1), 3), (id(16, 1), 16), (id(40, 1), 40)]);
        assert_eq!(table.find(id(15, 1)), None);
    }
}

//! The existing units: the facts that each reads, the ones to run, and when outputs expire.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use jiff::Timestamp;
use xds::fast_hash::{FastHashMap, FastHashState};

use super::ids::{FactId, UnitId};
use crate::units::{AnyUnit, STRATA};

#[derive(Debug)]
pub(crate) struct UnitRegistry {
    /// By the hash of the unit, which is in its slot and nowhere else.
    ids: HashTable<UnitId>,
    hasher: FastHashState,
    slots: Vec<Option<Slot>>,
    free: Vec<UnitId>,
    /// Units to compute again, by stratum.
    dirty: [Vec<UnitId>; STRATA],
    /// Of the few units whose output expires, by time and by unit.
    expiries: BTreeSet<(Timestamp, UnitId)>,
    expires: FastHashMap<UnitId, Timestamp>,
}

#[derive(Debug)]
struct Slot {
    unit: AnyUnit,
    reads: Box<[FactId]>,
    is_dirty: bool,
    /// The last batch in which it ran, modulo 2^32.
    ran: u32,
}

const _: () = assert!(size_of::<Option<Slot>>() <= 48, "there are many units");

impl Default for UnitRegistry {
    fn default() -> Self {
        Self {
            ids: HashTable::new(),
            hasher: FastHashState::default(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: [const { Vec::new() }; STRATA],
            expiries: BTreeSet::new(),
            expires: FastHashMap::default(),
        }
    }
}

impl UnitRegistry {
    /// The unit's number, assigned if it is new.
    pub(crate) fn enter(&mut self, unit: AnyUnit) -> UnitId {
        let hash = self.hasher.hash_one(&unit);
        let is_same =
            |id: &UnitId| self.slots[id.0 as usize].as_ref().map(|it| &it.unit) == Some(&unit);
        if let Some(id) = self.ids.find(hash, is_same) {
            return *id;
        }
        let slot = Some(Slot {
            unit,
            reads: Box::default(),
            is_dirty: false,
            ran: 0,
        });
        let id = if let Some(id) = self.free.pop() {
            self.slots[id.0 as usize] = slot;
            id
        } else {
            let next = u32::try_from(self.slots.len()).ok().map(UnitId);
            self.slots.push(slot);
            next.filter(|next| *next <= UnitId::MAX)
                .expect("fewer than 16 million units")
        };
        let (hasher, slots) = (&self.hasher, &self.slots);
        self.ids.insert_unique(hash, id, |id| {
            let slot = slots[id.0 as usize].as_ref();
            hasher.hash_one(&slot.expect("a unit that has a number has a slot").unit)
        });
        id
    }

    /// Removes a unit.
    pub(crate) fn leave(&mut self, id: UnitId) {
        self.set_expiry(id, None);
        if let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::take) {
            let hash = self.hasher.hash_one(&slot.unit);
            if let Ok(entry) = self.ids.find_entry(hash, |other| *other == id) {
                entry.remove();
            }
            self.free.push(id);
        }
    }

    /// Marks a unit to run. Units only depend on earlier strata: `after` is the stratum that marks
    /// it.
    pub(crate) fn mark(&mut self, id: UnitId, after: Option<usize>) {
        let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) else {
            return;
        };
        let stratum = slot.unit.stratum();
        debug_assert!(
            after.is_none_or(|after| after < stratum),
            "stratum {after:?} changes what {:?} has read",
            slot.unit
        );
        if !slot.is_dirty {
            slot.is_dirty = true;
            self.dirty[stratum].push(id);
        }
    }

    /// The next unit to run: one of the first stratum that has any.
    pub(crate) fn pop(&mut self, batch: u32) -> Option<(UnitId, AnyUnit)> {
        let id = self.dirty.iter_mut().find_map(Vec::pop)?;
        let slot = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        slot.is_dirty = false;
        debug_assert_ne!(slot.ran, batch, "{:?} runs twice", slot.unit);
        slot.ran = batch;
        Some((id, slot.unit.clone()))
    }

    /// The facts that a unit read when it last ran.
    pub(crate) fn reads(&mut self, id: UnitId) -> &mut Box<[FactId]> {
        let slot = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        &mut slot.expect("a unit that runs is there").reads
    }

    /// When a unit's output expires.
    pub(crate) fn set_expiry(&mut self, id: UnitId, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.expires.insert(id, at),
            None => self.expires.remove(&id),
        };
        if let Some(before) = before {
            self.expiries.remove(&(before, id));
        }
        self.expiries.extend(at.map(|at| (at, id)));
    }

    /// Marks every unit whose output has expired.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        let over: Vec<UnitId> = (self.expiries.iter())
            .take_while(|(at, _)| *at < now)
            .map(|(_, id)| *id)
            .collect();
        for id in over {
            self.mark(id, None);
        }
    }

    /// When the next output expires.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.slots.iter().all(Option::is_none) && self.expiries.is_empty()
    }
}

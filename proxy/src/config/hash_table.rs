//! The table of a cluster whose requests are spread by hash: Maglev (Eisenbud and others, NSDI 2016, section 3.4).
//!
//! Each endpoint has an order of all slots of its own, and endpoints take turns to occupy the next free slot of
//! theirs. So all get nearly as many slots, and few slots change when one comes or goes. The orders depend on
//! nothing but the endpoints' identities: the table of every replica is the same.

use std::num::NonZeroU32;

use super::endpoints::{EndpointIdentity, EndpointRef};
use crate::limits::HASH_TABLE_STEPS;
use crate::names::Interned;
use crate::policy::hash_key::RequestKey;

/// Endpoints by the hash of a request's key.
#[derive(Debug, PartialEq, Eq)]
pub struct HashTable {
    /// Positions among the serving endpoints. Two bytes are enough: a Service has at most 32 768 of them.
    slots: Box<[u16]>,
}

impl HashTable {
    /// The table of serving endpoints, in this order, with so many slots: a prime number. An endpoint of twice the
    /// weight gets twice as many.
    #[must_use]
    pub fn build(slots: NonZeroU32, endpoints: &[(EndpointIdentity, NonZeroU32)]) -> Self {
        let endpoints = || (0..=u16::MAX).zip(endpoints);
        let Some(heaviest) = endpoints().map(|(_, (_, weight))| weight.get()).max() else {
            return Self {
                slots: Box::default(),
            };
        };
        let mut turns: Vec<Turns> = endpoints()
            .map(|(position, (identity, weight))| Turns::new(position, *identity, *weight, slots))
            .collect();
        let mut table = vec![None; slots.get() as usize];
        let mut left = table.len();
        while left > 0 {
            for endpoint in &mut turns {
                if left > 0 && endpoint.has_turn(heaviest) {
                    endpoint.occupy(&mut table);
                    left -= 1;
                }
            }
        }
        Self {
            slots: table.into_iter().flatten().collect(),
        }
    }

    /// The first of the serving endpoints that `may` allows, from the slot of a key on.
    pub(crate) fn first(
        &self,
        key: RequestKey,
        serving: &[EndpointRef],
        may: impl Fn(usize, Interned) -> bool,
    ) -> Option<Interned> {
        let start = key.slot(self.slots.len());
        let (before, after) = self.slots.split_at_checked(start)?;
        let around = || after.iter().chain(before).map(|at| usize::from(*at));
        let mut last = None;
        for position in around().take(HASH_TABLE_STEPS) {
            let endpoint = serving.get(position)?;
            if last.replace(position) != Some(position) && may(position, endpoint.id) {
                return Some(endpoint.id);
            }
        }
        // Few are left: examine each once.
        let examined = serving.iter().enumerate().cycle().skip(around().next()?);
        let mut examined = examined.take(serving.len());
        let found = examined.find(|(position, endpoint)| may(*position, endpoint.id));
        found.map(|(_, endpoint)| endpoint.id)
    }

    /// The slot of a key, and the number of slots, for traces.
    pub(crate) fn slot(&self, key: RequestKey) -> (usize, usize) {
        (key.slot(self.slots.len()), self.slots.len())
    }

    /// Number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no endpoint serves.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// The turns of an endpoint while a table is built.
struct Turns {
    position: u16,
    weight: NonZeroU32,
    /// What it has of a turn: it gets one for as much as the heaviest has.
    credit: u32,
    /// The next slot of its order, which goes on by `skip` modulo `slots`.
    next: u32,
    skip: u32,
    slots: u32,
}

impl Turns {
    fn new(
        position: u16,
        identity: EndpointIdentity,
        weight: NonZeroU32,
        slots: NonZeroU32,
    ) -> Self {
        let (slots, [first, second]) = (slots.get(), identity.words());
        let remainder = |word: u64, of: u32| {
            // It fits, since the number of slots does.
            u32::try_from(word % u64::from(of.max(1))).unwrap_or_default()
        };
        Self {
            position,
            weight,
            credit: 0,
            next: remainder(first, slots),
            skip: remainder(second, slots - 1) + 1,
            slots,
        }
    }

    fn has_turn(&mut self, heaviest: u32) -> bool {
        let missing = heaviest - self.credit;
        if self.weight.get() < missing {
            self.credit += self.weight.get();
            return false;
        }
        self.credit = self.weight.get() - missing;
        true
    }

    /// Takes the next free slot of its order. There is one.
    fn occupy(&mut self, table: &mut [Option<u16>]) {
        loop {
            let at = self.next;
            let rest = self.slots - self.skip;
            self.next = if at >= rest {
                at - rest
            } else {
                at + self.skip
            };
            let slot = &mut table[at as usize];
            if slot.is_none() {
                *slot = Some(self.position);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;

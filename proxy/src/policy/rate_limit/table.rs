//! The keys of a rule and when their next requests are to arrive: a table of atomics that all shards share,
//! without a lock.
//!
//! A key is a word of 64 bits: 24 bits of its hash, and 40 bits of time. It is in one of the 8 places of either
//! of its two sets, each a cache line; in the second one if the first was almost full when it came. Changing it
//! is one compare-exchange; who loses it looks again. A new key takes the place of the key with the least debt,
//! which is one without any wherever there is one; of equal ones the older stays. Keys that are being refused
//! have the most debt, so that a flood of keys with one request each replaces only its own kind.
//!
//! What a flood can still push out: keys that owe less than its own do, and, where all keys of two sets are being
//! refused, that of them which owes least. It has its burst again when it returns. All such keys are counted
//! as replaced: the table is too small. With one set for each key, one of 8000 keys would be lost where a fifth
//! of the places have keys that are being refused; with two, none.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{CacheLine, zeroed_lines};

use super::pace::{Pace, TIME_BITS, TIMES};

/// The keys of a rule.
#[derive(Debug)]
pub struct Table {
    /// A power of two.
    sets: Box<[CacheLine]>,
}

/// A hash of a key, with a random seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub(super) u64);

/// A request that was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The debt of its key after it, in units.
    pub debt: u64,
    /// Whether a key that owed something was forgotten for it.
    pub replaced: bool,
}

/// A request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    /// Units until the next one is allowed.
    pub wait: u64,
}

/// The place of a key, or the one that it may have, and what was read there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its number, over all sets.
    at: usize,
    seen: u64,
    /// What the key owes that is there.
    debt: u64,
    /// Whether that is the key.
    is_own: bool,
}

impl KeyHash {
    /// Not 0, which is an empty place.
    fn tag(self) -> u64 {
        (self.0 >> TIME_BITS).max(1)
    }
}

impl Table {
    /// A table of this many keys, rounded up to a power of two. Its memory is used as it fills.
    #[must_use]
    pub fn new(keys: u32) -> Self {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let sets = keys.div_ceil(WAYS).max(1);
        Self {
            sets: zeroed_lines(sets.checked_next_power_of_two().unwrap_or(1)),
        }
    }

    /// The table for another pace or another number of keys, with what all keys owe. What shards count in
    /// this one from now on is lost.
    pub(super) fn changed(
        &self,
        keys: u32,
        (from, now): (&Pace, u64),
        (to, then): (&Pace, u64),
    ) -> Self {
        let changed = Self::new(keys);
        let (old, new) = (self.sets.len(), changed.sets.len());
        for (index, set) in self.sets.iter().enumerate() {
            for word in set.words() {
                let seen = word.load(Ordering::Relaxed);
                let debt = from.debt(seen & TIMES, now);
                if seen == 0 || debt == 0 {
                    continue;
                }
                let debt = to.convert(debt, from);
                let word = (seen & !TIMES) | Pace::arrival(debt, then);
                // The hash is not known beyond its place: in a larger table it may be in any of these sets.
                let places = (index.checked_rem(new).unwrap_or_default()..new).step_by(old.max(1));
                for set in places.filter_map(|at| changed.sets.get(at)) {
                    keep(set, word, debt, (to, then));
                    if new <= old {
                        break;
                    }
                }
            }
        }
        changed
    }

    /// The number of keys that fit.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.sets.len().saturating_mul(WAYS)
    }

    /// What a key owes.
    pub(super) fn debt(&self, key: KeyHash, pace: &Pace, now: u64) -> u64 {
        self.find(key, (pace, now)).map_or(0, Place::owed)
    }

    /// Counts a request of a key in the place that was found for it.
    ///
    /// # Errors
    /// There are too many of this key.
    pub(super) fn take(
        &self,
        (key, found): (KeyHash, Option<Place>),
        pace: &Pace,
        now: u64,
    ) -> Result<Taken, Exhausted> {
        let mut found = found;
        for _ in 0..RACES {
            // There are no empty sets.
            let Some(place) = found else { break };
            let debt = pace.step(place.owed()).map_err(|wait| Exhausted { wait })?;
            if self.replace(place, key, Pace::arrival(debt, now)) {
                let replaced = !place.is_own && place.debt > 0;
                return Ok(Taken { debt, replaced });
            }
            found = self.find(key, (pace, now));
        }
        Err(Exhausted {
            wait: pace.one_step(),
        })
    }

    /// Takes a counted request back, unless its key was forgotten since.
    pub(super) fn give_back(&self, key: KeyHash, pace: &Pace, now: u64) {
        for _ in 0..RACES {
            let Some(place) = self.find(key, (pace, now)).filter(|it| it.is_own) else {
                return;
            };
            let debt = pace.step_back(place.debt);
            if self.replace(place, key, Pace::arrival(debt, now)) {
                return;
            }
        }
    }

    /// The sets of a key, by number. The second one follows from the first one and the tag, so that the sets of a key
    /// in a table of another size have the same order.
    fn sets_of(&self, key: KeyHash) -> [usize; 2] {
        let mask = self.sets.len().saturating_sub(1);
        let at = |index: u64| usize::try_from(index & TIMES).unwrap_or_default() & mask;
        // Its low bits are as good as those of a hash: 2^64 divided by the golden ratio (Knuth).
        let spread = key.tag().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> TAG_BITS;
        [at(key.0), at(key.0 ^ spread)]
    }

    fn words(&self, set: usize) -> &[AtomicU64] {
        self.sets.get(set).map_or(&[][..], CacheLine::words)
    }

    /// The place of a key, or the one that it may have.
    pub(super) fn find(&self, key: KeyHash, (pace, now): (&Pace, u64)) -> Option<Place> {
        let [first, second] = self.sets_of(key);
        let tag = key.tag();
        // Most keys are known, and their debts are all that has to be computed.
        let own = |set: usize| {
            let words = self.words(set).iter().enumerate();
            let mut seen = words.map(|(way, word)| (way, word.load(Ordering::Relaxed)));
            let (way, seen) = seen.find(|(_, seen)| seen >> TIME_BITS == tag)?;
            Some(place((set, way), seen, tag, (pace, now)))
        };
        if let Some(own) = own(first).or_else(|| own(second)) {
            return Some(own);
        }
        self.room(first, second, tag, (pace, now))
    }

    /// The place that a new key may have: in the second set if that has more room and the first is almost full, so
    /// that hardly any set is ever full of keys that are being refused.
    fn room(
        &self,
        first: usize,
        second: usize,
        tag: u64,
        (pace, now): (&Pace, u64),
    ) -> Option<Place> {
        let own = search((first, self.words(first)), tag, (pace, now));
        let least = own.least?;
        if least.is_own || own.free > SPARE {
            return Some(least);
        }
        let other = search((second, self.words(second)), tag, (pace, now));
        let Some(in_other) = other.least else {
            return Some(least);
        };
        let is_better = if in_other.is_own {
            true
        } else if least.debt == 0 && in_other.debt == 0 {
            other.free > own.free
        } else {
            in_other.debt < least.debt
        };
        Some(if is_better { in_other } else { least })
    }

    /// Puts a key with the time of its next request into a place. `false` if that has changed meanwhile.
    fn replace(&self, place: Place, key: KeyHash, arrival: u64) -> bool {
        let (set, way) = (place.at >> WAYS.ilog2(), place.at & WAYS.wrapping_sub(1));
        let Some(word) = self.words(set).get(way) else {
            return false;
        };
        let new = (key.tag() << TIME_BITS) | arrival;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        word.compare_exchange(place.seen, new, success, failure)
            .is_ok()
    }
}

impl Place {
    /// What the key owes that looked for it.
    pub(super) fn owed(self) -> u64 {
        if self.is_own { self.debt } else { 0 }
    }
}

/// What was found in a set.
struct Candidates {
    /// The place of the key, which another shard has put there meanwhile, or that of the key with the least debt.
    least: Option<Place>,
    /// Places of keys without a debt: all of them, or one more than [`SPARE`].
    free: usize,
}

/// Looks for the place that a new key of this tag may have in a set.
fn search((set, words): (usize, &[AtomicU64]), tag: u64, (pace, now): (&Pace, u64)) -> Candidates {
    let (mut least, mut free): (Option<Place>, usize) = (None, 0);
    for (way, word) in words.iter().enumerate() {
        let found = place((set, way), word.load(Ordering::Relaxed), tag, (pace, now));
        if found.is_own {
            let least = Some(found);
            return Candidates { least, free };
        }
        // Places are filled from the front, so of equal ones the older is before the other.
        let is_less = least.is_none_or(|least| {
            found.debt < least.debt || found.debt == least.debt && found.debt > 0
        });
        if is_less {
            least = Some(found);
        }
        free = usize::from(found.debt == 0).saturating_add(free);
        if free > SPARE {
            break;
        }
    }
    Candidates { least, free }
}

fn place((set, way): (usize, usize), seen: u64, tag: u64, (pace, now): (&Pace, u64)) -> Place {
    let debt = match seen {
        0 => 0,
        _ => pace.debt(seen & TIMES, now),
    };
    Place {
        at: (set << WAYS.ilog2()) | way,
        seen,
        debt,
        is_own: seen >> TIME_BITS == tag,
    }
}

/// Keeps a word in the place of one that owes less.
fn keep(set: &CacheLine, word: u64, debt: u64, (pace, now): (&Pace, u64)) {
    let owed = |word: &AtomicU64| match word.load(Ordering::Relaxed) {
        0 => 0,
        seen => pace.debt(seen & TIMES, now),
    };
    let least = set.words().iter().min_by_key(|word| owed(word));
    if let Some(least) = least
        && owed(least) < debt
    {
        least.store(word, Ordering::Relaxed);
    }
}

/// Bits of a tag: 24.
const TAG_BITS: u32 = u64::BITS - TIME_BITS;
/// Free places of a set at which a new key looks for more room in its other one: 2 of 8, so that keys are in their
/// first set as long as the table is not crowded.
const SPARE: usize = 2;
/// Keys of a set.
const WAYS: usize = CacheLine::WORDS;
/// Lost compare-exchanges after which a request is refused: 64, more than any processor has contenders for
/// one key at a time.
const RACES: u32 = 64;

#[cfg(test)]
mod tests;

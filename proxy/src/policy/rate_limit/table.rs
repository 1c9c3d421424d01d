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

/// A place in a set, and the word that was read there.
#[derive(Clone, Copy)]
struct Place<'t> {
    word: &'t AtomicU64,
    seen: u64,
    debt: u64,
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
        let words = self.sets_of(key).into_iter().flatten();
        let mut words = words.map(|word| word.load(Ordering::Relaxed));
        let own = words.find(|seen| seen >> TIME_BITS == key.tag());
        own.map_or(0, |seen| pace.debt(seen & TIMES, now))
    }

    /// Counts a request.
    ///
    /// # Errors
    /// There are too many of this key.
    pub(super) fn take(&self, key: KeyHash, pace: &Pace, now: u64) -> Result<Taken, Exhausted> {
        for _ in 0..RACES {
            let (place, is_own) = match self.find(key, pace, now) {
                Some(Found::Own(place)) => (place, true),
                Some(Found::Other(place)) => (place, false),
                // There are no empty sets.
                None => break,
            };
            let owed = if is_own { place.debt } else { 0 };
            let debt = pace.step(owed).map_err(|wait| Exhausted { wait })?;
            if place.replace(key, debt, now) {
                let replaced = !is_own && place.debt > 0;
                return Ok(Taken { debt, replaced });
            }
        }
        Err(Exhausted {
            wait: pace.one_step(),
        })
    }

    /// Takes a counted request back, unless its key was forgotten since.
    pub(super) fn give_back(&self, key: KeyHash, pace: &Pace, now: u64) {
        for _ in 0..RACES {
            let Some(Found::Own(place)) = self.find(key, pace, now) else {
                return;
            };
            let debt = pace.step_back(place.debt);
            if place.replace(key, debt, now) {
                return;
            }
        }
    }

    /// The sets of a key. The second one follows from the first one and the tag, so that the sets of a key in a
    /// table of another size have the same order.
    fn sets_of(&self, key: KeyHash) -> [&[AtomicU64]; 2] {
        let at = |index: u64| {
            let mask = self.sets.len().saturating_sub(1);
            let index = usize::try_from(index & TIMES).unwrap_or_default() & mask;
            self.sets.get(index).map_or(&[][..], CacheLine::words)
        };
        // Its low bits are as good as those of a hash: 2^64 divided by the golden ratio (Knuth).
        let spread = key.tag().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> TAG_BITS;
        [at(key.0), at(key.0 ^ spread)]
    }

    /// The place of a key, or the one that it may have.
    fn find(&self, key: KeyHash, pace: &Pace, now: u64) -> Option<Found<'_>> {
        let [first, second] = self.sets_of(key);
        let first = match search(first, key, (pace, now)) {
            Ok(own) => return Some(Found::Own(own)),
            Err(first) => first,
        };
        match search(second, key, (pace, now)) {
            Ok(own) => Some(Found::Own(own)),
            Err(second) => first.or_second(second).map(Found::Other),
        }
    }
}

/// The places of a set that a new key may have.
#[derive(Clone, Copy)]
struct Candidates<'t> {
    /// That of the key with the least debt.
    least: Option<Place<'t>>,
    /// Places of keys without a debt.
    free: usize,
}

impl<'t> Candidates<'t> {
    /// The place for a new key: in the second set if that has more room and the first is almost full, so that hardly
    /// any set is ever full of keys that are being refused.
    fn or_second(self, second: Self) -> Option<Place<'t>> {
        let (Some(own), Some(other)) = (self.least, second.least) else {
            return self.least;
        };
        let is_better = if own.debt == 0 && other.debt == 0 {
            self.free <= SPARE && second.free > self.free
        } else {
            other.debt < own.debt
        };
        Some(if is_better { other } else { own })
    }
}

/// The place of a key in a set; or those that it may have.
fn search<'t>(
    set: &'t [AtomicU64],
    key: KeyHash,
    (pace, now): (&Pace, u64),
) -> Result<Place<'t>, Candidates<'t>> {
    let tag = key.tag();
    let (mut least, mut free): (Option<Place<'_>>, usize) = (None, 0);
    for word in set {
        let seen = word.load(Ordering::Relaxed);
        let debt = match seen {
            0 => 0,
            _ => pace.debt(seen & TIMES, now),
        };
        let place = Place { word, seen, debt };
        if seen >> TIME_BITS == tag {
            return Ok(place);
        }
        free = usize::from(debt == 0).saturating_add(free);
        // Places are filled from the front, so of equal ones the older is before the other.
        let is_less = least.is_none_or(|least| debt < least.debt || debt == least.debt && debt > 0);
        if is_less {
            least = Some(place);
        }
    }
    Err(Candidates { least, free })
}

/// Where a key is, or may be.
enum Found<'t> {
    Own(Place<'t>),
    /// In the place of another.
    Other(Place<'t>),
}

impl Place<'_> {
    /// Puts a key here. `false` if the place has changed meanwhile.
    fn replace(self, key: KeyHash, debt: u64, now: u64) -> bool {
        let word = (key.tag() << TIME_BITS) | Pace::arrival(debt, now);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let exchanged = self
            .word
            .compare_exchange(self.seen, word, success, failure);
        exchanged.is_ok()
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

//! How many connections are open by key, over all shards: a client's address at a port, or an endpoint.
//!
//! A table of atomics without a lock. An entry is a word of 64 bits, 44 of its key's hash and 20 of its count,
//! in one of the 8 places of its set, a cache line; a count of 0 frees the place. Places are four times as
//! many as connections can be open, so that a set with more than 8 keys is rare (one key in 4000 if all
//! connections are open and each has a key of its own). The connections of a key without a place are not
//! counted. Clients cannot choose such keys, since the hash has a random seed.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{CacheLine, zeroed_lines};
use crate::names::Interned;

/// Counts of open connections by key.
#[derive(Debug)]
pub struct OpenConnections {
    seed: RandomState,
    /// A power of two.
    sets: Box<[CacheLine]>,
}

/// What connections are counted by: the hash of an address or endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionKey(NonZeroU64);

/// Whether a connection may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It was counted.
    Counted,
    /// The key has as many as it may have.
    Full,
    /// There is no place for its key.
    Uncounted,
}

impl OpenConnections {
    /// Counts of at most this many connections. Its memory is used by page as keys come, and kept.
    #[must_use]
    pub fn new(connections: usize) -> Self {
        let sets = connections.saturating_mul(PLACES_PER_CONNECTION) / CacheLine::WORDS;
        Self {
            seed: RandomState::new(),
            sets: zeroed_lines(sets.clamp(1, MAX_SETS).next_power_of_two()),
        }
    }

    /// The key of a client at a port. Addresses of IPv6 are counted by their /64, which one customer has.
    pub(crate) fn client(&self, bind: u32, address: IpAddr) -> ConnectionKey {
        let address = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)),
        };
        self.key((bind, address))
    }

    /// The key of an endpoint.
    pub(crate) fn endpoint(&self, endpoint: Interned) -> ConnectionKey {
        self.key(endpoint)
    }

    fn key(&self, value: impl Hash) -> ConnectionKey {
        let hash = self.seed.hash_one(value);
        ConnectionKey(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// Counts a connection, unless its key has `max` already. [`Self::leave`] ends it.
    pub(crate) fn enter(&self, key: ConnectionKey, max: u32) -> Entry {
        let max = u64::from(max).min(COUNT);
        for _ in 0..RACES {
            let (own, free) = self.find(key);
            let done = match (own, free) {
                (Some((_, seen)), _) if seen & COUNT >= max => return Entry::Full,
                (Some((word, seen)), _) => exchange(word, seen, seen + 1),
                (None, _) if max == 0 => return Entry::Full,
                (None, Some(word)) => exchange(word, 0, key.tag() | 1) && self.is_alone(key, word),
                (None, None) => return Entry::Uncounted,
            };
            if done {
                return Entry::Counted;
            }
        }
        Entry::Uncounted
    }

    /// Ends a counted connection.
    pub(crate) fn leave(&self, key: ConnectionKey) {
        loop {
            let (Some((word, seen)), _) = self.find(key) else {
                return;
            };
            if exchange(word, seen, less(seen)) {
                return;
            }
        }
    }

    /// Number of open connections of a key.
    pub(crate) fn count(&self, key: ConnectionKey) -> u32 {
        let (own, _) = self.find(key);
        own.map_or(0, |(_, seen)| {
            u32::try_from(seen & COUNT).unwrap_or(u32::MAX)
        })
    }

    /// The place of a key with its word, and else the first free place.
    fn find(&self, key: ConnectionKey) -> (Option<(&AtomicU64, u64)>, Option<&AtomicU64>) {
        let mut free = None;
        for word in self.set(key) {
            let seen = word.load(Ordering::SeqCst);
            if seen == 0 {
                free = free.or(Some(word));
            } else if seen & !COUNT == key.tag() {
                return (Some((word, seen)), None);
            }
        }
        (None, free)
    }

    /// Whether the place that was just taken is the key's only one. Two shards may have taken places at the
    /// same time: at least one of them sees the other here, gives its place back and tries again.
    fn is_alone(&self, key: ConnectionKey, taken: &AtomicU64) -> bool {
        let is_other = |word: &&AtomicU64| {
            !std::ptr::eq(*word, taken) && word.load(Ordering::SeqCst) & !COUNT == key.tag()
        };
        let is_alone = self.set(key).iter().find(is_other).is_none();
        if !is_alone {
            // In whichever place: this one may be another key's by now.
            self.leave(key);
        }
        is_alone
    }

    fn set(&self, key: ConnectionKey) -> &[AtomicU64] {
        let mask = self.sets.len() as u64 - 1;
        let index = usize::try_from(key.0.get() & mask).unwrap_or_default();
        self.sets.get(index).map_or(&[], CacheLine::words)
    }
}

impl ConnectionKey {
    fn tag(self) -> u64 {
        self.0.get() & !COUNT
    }
}

fn exchange(word: &AtomicU64, seen: u64, new: u64) -> bool {
    let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
    word.compare_exchange(seen, new, success, failure).is_ok()
}

/// A word with one connection less, which is 0 after the last one.
fn less(seen: u64) -> u64 {
    if seen & COUNT > 1 { seen - 1 } else { 0 }
}

/// The bits of a word that count. The rest is the key's.
const COUNT: u64 = (1 << 20) - 1;
/// Places for each connection that can be open: 4, so that few sets are full.
const PLACES_PER_CONNECTION: usize = 4;
/// Sets of a table: as many as the hash has bits beside those of the word.
const MAX_SETS: usize = 1 << 20;
/// Lost compare-exchanges after which a connection is not counted: 64, more than any processor has contenders
/// for one key at a time.
const RACES: u32 = 64;

#[cfg(test)]
mod tests;

//! A read-only hash table from keys to indices, built for a known set of keys.
//!
//! A slot holds half of the hash and the index, so that a miss costs one load and accesses no key.
//! The caller holds and compares the keys.

use super::hash::Hash;

/// An open-addressing table, at most half full, with linear probing.
#[derive(Debug)]
pub(super) struct Table {
    /// The tag in the upper half, one more than the number in the lower; 0 where empty.
    slots: Box<[u64]>,
}

impl Default for Table {
    fn default() -> Self {
        Self::build(&[])
    }
}

impl Table {
    /// A table that maps the n-th of `hashes` to n.
    pub(super) fn build(hashes: &[Hash]) -> Self {
        let slots = vec![0; (hashes.len() * 2).next_power_of_two().max(2)];
        let mut table = Self {
            slots: slots.into_boxed_slice(),
        };
        for (number, hash) in (1..).zip(hashes) {
            let mut at = table.home(*hash);
            while table.slots[at] != 0 {
                at = table.after(at);
            }
            table.slots[at] = hash.tag() << 32 | u64::from(index_u32(number));
        }
        table
    }

    /// The index with this hash that satisfies `is`.
    pub(super) fn find(&self, hash: Hash, is: impl Fn(usize) -> bool) -> Option<usize> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == hash.tag() {
                let number = usize::try_from(slot & u64::from(u32::MAX)).ok()? - 1;
                if is(number) {
                    return Some(number);
                }
            }
            at = self.after(at);
        }
    }

    fn home(&self, hash: Hash) -> usize {
        hash.position() & (self.slots.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

/// An optional index; half the size of an `Option<usize>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn to(number: usize) -> Self {
        Self(index_u32(number))
    }

    /// This one, or the other one if this is empty.
    pub(super) fn or(self, other: Self) -> Self {
        if self == Self::NONE { other } else { self }
    }

    pub(super) fn target(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

/// Indices in 32 bits, so that more of them fit in a cache line.
pub(super) fn index_u32(number: usize) -> u32 {
    u32::try_from(number)
        .ok()
        .filter(|number| *number != u32::MAX)
        .expect("a listener has less than 4 GiB of routes: xDS messages are far smaller")
}

#[cfg(test)]
mod tests {
    use super::super::hash::Hash;
    use super::Table;

    #[test]
    fn lookup_finds_exactly_the_inserted_keys() {
        for count in [0_usize, 1, 2, 3, 1_000] {
            let keys: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            let hash = |key: &str| Hash::seeded(0).append(key.as_bytes());
            let hashes: Vec<Hash> = keys.iter().map(|key| hash(key)).collect();
            let table = Table::build(&hashes);
            let find = |key: &str| table.find(hash(key), |number| keys[number] == key);
            for (number, key) in keys.iter().enumerate() {
                assert_eq!(find(key), Some(number));
            }
            assert_eq!(find("another"), None);
        }
    }

    #[test]
    fn the_caller_distinguishes_keys_with_the_same_hash() {
        let hash = Hash::seeded(1);
        let table = Table::build(&[hash, hash, hash]);
        assert_eq!(table.find(hash, |number| number == 2), Some(2));
        assert_eq!(table.find(hash, |_| false), None);
    }
}

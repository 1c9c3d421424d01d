//! Units and facts by number, in little memory: there are more of them than of anything else in a translator.

/// A unit by its number, of 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UnitId(pub(super) u32);

impl UnitId {
    pub(crate) const MIN: Self = Self(0);
    pub(crate) const BITS: u32 = 24;
    /// Four million routes, some twenty gigabytes, have so many units.
    pub(crate) const MAX: Self = Self((1 << Self::BITS) - 1);

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// 40 bits of the hash of a fact: with a unit's number of 24 bits they fit in one number of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FactId(pub(super) [u8; 5]);

impl FactId {
    pub(super) fn of_hash(hash: u64) -> Self {
        let [.., first, second, third, fourth, fifth] = hash.to_be_bytes();
        Self([first, second, third, fourth, fifth])
    }

    pub(super) fn number(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[3..].copy_from_slice(&self.0);
        u64::from_be_bytes(bytes)
    }

    /// A hash for a table, which uses the first bits and the last ones.
    pub(super) fn hash(self) -> u64 {
        self.number() << 24 ^ self.number()
    }
}

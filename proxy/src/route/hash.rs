//! An incremental hash, so that all prefixes of a path are hashed in one pass.
//!
//! It need not resist flooding: keys come only from the configuration, every hit is verified by
//! comparing bytes, and a request makes a bounded number of probes.

/// The hash of the parts appended so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash(u64);

impl Hash {
    /// The empty hash, different for each `seed`.
    pub(super) fn seeded(seed: u32) -> Self {
        Self(fold(OFFSET ^ u64::from(seed)))
    }

    /// The hash extended by a part.
    pub(super) fn append(self, part: &[u8]) -> Self {
        let (words, tail) = part.as_chunks::<8>();
        let mut state = self.0;
        for word in words {
            state = fold(state ^ u64::from_le_bytes(*word));
        }
        Self(fold(state ^ tail_word(tail)))
    }

    /// The half that selects a slot.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the half is what is wanted"
    )]
    pub(super) fn position(self) -> usize {
        self.0 as u32 as usize
    }

    /// The half that is stored in the slot.
    pub(super) fn tag(self) -> u64 {
        self.0 >> 32
    }
}

/// Fewer than eight bytes and their number as one word, without a loop.
fn tail_word(tail: &[u8]) -> u64 {
    let length = (tail.len() as u64) << 60;
    let bytes = if let (Some(first), Some(last)) = (tail.first_chunk(), tail.last_chunk()) {
        u64::from(u32::from_le_bytes(*first)) ^ u64::from(u32::from_le_bytes(*last)) << 28
    } else if let (Some(first), Some(last)) = (tail.first(), tail.last()) {
        let middle = tail.get(tail.len() / 2).unwrap_or(first);
        u64::from(*first) | u64::from(*middle) << 8 | u64::from(*last) << 16
    } else {
        0
    };
    length ^ bytes
}

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
fn fold(word: u64) -> u64 {
    let (low, high) = word.carrying_mul(MULTIPLIER, 0);
    low ^ high
}

/// Two constants with their bits spread evenly: the fractions of pi and of the golden ratio.
const OFFSET: u64 = 0x243f_6a88_85a3_08d3;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Hash;

    #[test]
    fn short_inputs_of_every_length_have_distinct_hashes() {
        let mut seen = HashSet::new();
        for length in 0..=24 {
            for byte in b'a'..=b'z' {
                let part = vec![byte; length];
                let hash = Hash::seeded(0).append(&part).0;
                assert!(seen.insert(hash) || length == 0, "{part:?}");
            }
        }
    }

    #[test]
    fn numbered_keys_spread_over_positions_and_tags() {
        let hashes: Vec<Hash> = (0..10_000)
            .map(|n| Hash::seeded(7).append(format!("/route-{n}").as_bytes()))
            .collect();
        let slots: HashSet<usize> = hashes.iter().map(|h| h.position() % 16_384).collect();
        let tags: HashSet<u64> = hashes.iter().map(|h| h.tag()).collect();
        // 10 000 keys at random over 16 384 slots fill 7 485 of them.
        assert!(slots.len() > 7_300, "{}", slots.len());
        assert!(tags.len() > 9_990, "{}", tags.len());
    }
}

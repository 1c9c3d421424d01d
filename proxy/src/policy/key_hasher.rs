//! The hash of keys: SipHash-1-3 (Aumasson and Bernstein, 2012) over words of 64 bits.
//!
//! Equal hashes stand for equal keys, and clients choose what is hashed: so it is a function with a secret, for which
//! nobody finds collisions. The standard library's takes bytes in pieces of any length, which costs three times as
//! much for an address. What is hashed here is a fixed number of parts, each an address or a text with its length, so
//! no two keys are the same words.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// The state of a hash.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) struct KeyHasher([u64; 4]);

impl KeyHasher {
    /// One with the secret of this process, the same for all rules: those with the same key need only one hash.
    pub(in crate::policy) fn new() -> Self {
        static SECRET: LazyLock<[u64; 2]> = LazyLock::new(|| {
            let random = RandomState::new();
            [random.hash_one(0_u8), random.hash_one(1_u8)]
        });
        Self::with(*SECRET)
    }

    /// One that is the same in every process.
    pub(in crate::policy) fn without_secret() -> Self {
        Self::with([0, 0])
    }

    fn with([first, second]: [u64; 2]) -> Self {
        Self([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ])
    }

    pub(in crate::policy) fn word(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    /// An address, as one of IPv6.
    pub(in crate::policy) fn address(&mut self, bits: u128) {
        let [low, high] = halves(bits);
        self.word(low);
        self.word(high);
    }

    /// A text, and its length.
    pub(in crate::policy) fn text(&mut self, text: &[u8]) {
        let (words, rest) = text.as_chunks();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.word(u64::from_le_bytes(last));
        self.word(text.len() as u64);
    }

    pub(in crate::policy) fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        let [v0, v1, v2, v3] = self.0;
        v0 ^ v1 ^ v2 ^ v3
    }

    fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.0;
        v0 = v0.wrapping_add(v1);
        v2 = v2.wrapping_add(v3);
        v1 = v1.rotate_left(13) ^ v0;
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v1);
        v0 = v0.wrapping_add(v3);
        v1 = v1.rotate_left(17) ^ v2;
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.rotate_left(32);
        self.0 = [v0, v1, v2, v3];
    }
}

/// The low and the high half of a number.
fn halves(bits: u128) -> [u64; 2] {
    let bytes = bits.to_le_bytes();
    let (words, _) = bytes.as_chunks();
    let word = |at: usize| words.get(at).map_or(0, |it| u64::from_le_bytes(*it));
    [word(0), word(1)]
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher as _};

    use super::KeyHasher;

    /// The standard library's function, which has zeros for a secret, ends with the number of bytes.
    #[test]
    fn words_are_hashed_as_the_standard_library_hashes_them() {
        for words in [
            &[][..],
            &[0],
            &[1, 2],
            &[u64::MAX, 0x0123_4567_89ab_cdef, 7],
        ] {
            let (mut own, mut standard) = (KeyHasher::with([0, 0]), DefaultHasher::new());
            for word in words {
                own.word(*word);
                standard.write_u64(*word);
            }
            own.word((words.len() as u64 * 8) << 56);
            assert_eq!(own.finish(), standard.finish());
        }
    }

    #[test]
    fn a_text_is_not_one_with_zeros_or_part_of_another() {
        let hash = |texts: &[&str]| {
            let mut own = KeyHasher::with([1, 2]);
            for text in texts {
                own.text(text.as_bytes());
            }
            own.finish()
        };
        let all = [
            hash(&["", ""]),
            hash(&["\0", ""]),
            hash(&["a", ""]),
            hash(&["", "a"]),
            hash(&["12345678", ""]),
            hash(&["12345678\0", ""]),
            hash(&["1234567", "8"]),
            hash(&["123456789", "abc"]),
            hash(&["12345678", "9abc"]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{at}");
        }
    }
}

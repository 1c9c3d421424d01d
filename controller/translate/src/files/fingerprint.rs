//! Compares texts without keeping them.

use std::hash::{BuildHasher as _, RandomState};

/// A 128-bit keyed hash of a text, for which collisions cannot be constructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u64; 2]);

/// The keys of the hash. Only fingerprints with the same keys are comparable.
#[derive(Debug, Clone, Default)]
pub(crate) struct FingerprintKeys([RandomState; 2]);

impl FingerprintKeys {
    /// The fingerprint of a text.
    pub(crate) fn of(&self, text: &str) -> Fingerprint {
        Fingerprint(self.0.each_ref().map(|key| key.hash_one(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::FingerprintKeys;

    #[test]
    fn fingerprints_depend_on_the_text() {
        let keys = FingerprintKeys::default();
        assert_eq!(keys.of("a: 1"), keys.of("a: 1"));
        assert_ne!(keys.of("a: 1"), keys.of("a: 2"));
    }
}

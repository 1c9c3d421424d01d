//! Plaintext of a record that did not fit to where it was wanted. Rare: readers make room for a
//! whole record.

use std::ops::Deref;

use crate::memory::Buffer;

/// Plaintext that is waited for by nobody yet.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    bytes: Vec<u8>,
    /// How many were handed out.
    given: usize,
}

impl Deref for Spilled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.given..).unwrap_or_default()
    }
}

impl Spilled {
    /// Appends a record to `plain`, and keeps what does not fit.
    pub(super) fn put(&mut self, record: &[u8], plain: &mut Buffer) {
        let fits = if self.is_empty() {
            record.len().min(plain.room())
        } else {
            0
        };
        let (now, later) = record.split_at_checked(fits).unwrap_or((&[], record));
        let appended = plain.append(now);
        debug_assert!(appended, "no more than its room was taken");
        self.bytes.extend_from_slice(later);
    }

    /// Appends to `plain` what it has room for; all of it frees the memory.
    pub(super) fn give(&mut self, plain: &mut Buffer) {
        let now = self.get(..self.len().min(plain.room())).unwrap_or_default();
        let (count, appended) = (now.len(), plain.append(now));
        debug_assert!(appended, "no more than its room was taken");
        self.given += count;
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

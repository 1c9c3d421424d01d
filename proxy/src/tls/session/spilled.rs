//! Plaintext of a record that did not fit into the reader's buffer. Rare: readers have space for a
//! whole record.

use std::ops::Deref;

use crate::memory::Buffer;

/// Plaintext not delivered yet.
#[derive(Debug, Default)]
pub(super) struct SpilledPlaintext {
    bytes: Vec<u8>,
    /// Number of bytes already delivered.
    given: usize,
}

impl Deref for SpilledPlaintext {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.given..).unwrap_or_default()
    }
}

impl SpilledPlaintext {
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

    /// Appends to `plain` what fits; frees the memory once empty.
    pub(super) fn drain_into(&mut self, plain: &mut Buffer) {
        let now = self.get(..self.len().min(plain.room())).unwrap_or_default();
        let (count, appended) = (now.len(), plain.append(now));
        debug_assert!(appended, "no more than its room was taken");
        self.given += count;
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

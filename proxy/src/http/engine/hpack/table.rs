//! The dynamic table (RFC 7541 section 2.3.2), of a decoder or of an encoder.
//!
//! The text of all entries is in one buffer, the oldest first, and grows only as it is used. Evicted text
//! stays in front until it is a quarter of the rest; then what remains moves to the front.

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD, NameKind, Validity};

/// A dynamic table.
#[derive(Debug)]
pub struct Table {
    text: Vec<u8>,
    /// The position of the first byte of `text` among all bytes that were ever added, modulo 65 536.
    first: u16,
    /// The newest entry last.
    entries: VecDeque<Entry>,
    /// Bytes of all entries, with their overhead.
    size: usize,
    /// The most bytes that they may have.
    limit: usize,
    /// Number of entries that were ever added, modulo 2³².
    added: u32,
}

/// An entry's place in the text.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Position of its name, as [`Table::first`].
    start: u16,
    name_len: u16,
    value_len: u16,
    kind: NameKind,
    validity: Validity,
}

/// An entry, as it was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// What the name means.
    pub kind: NameKind,
    /// Whether name and value are allowed.
    pub validity: Validity,
}

/// Bytes of the largest table, with the overhead of its entries: what both ends begin with (RFC 9113
/// section 6.5.2). Positions have 16 bits.
pub const TABLE_BYTES: usize = 4096;

impl Table {
    /// An empty table of at most this many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            text: Vec::new(),
            first: 0,
            entries: VecDeque::new(),
            size: 0,
            limit: limit.min(TABLE_BYTES),
            added: 0,
        }
    }

    /// The entry that was added before `newer` later ones.
    #[must_use]
    #[inline]
    pub fn entry(&self, newer: usize) -> Option<TableEntry<'_>> {
        let at = self.entries.len().checked_sub(newer)?.checked_sub(1)?;
        let entry = self.entries.get(at)?;
        let text = self.text.get(self.offset(entry)..)?;
        let (name, rest) = text.split_at_checked(usize::from(entry.name_len))?;
        Some(TableEntry {
            name,
            value: rest.get(..usize::from(entry.value_len))?,
            kind: entry.kind,
            validity: entry.validity,
        })
    }

    /// Number of entries that were ever added, modulo 2³².
    #[must_use]
    pub fn added(&self) -> u32 {
        self.added
    }

    /// The most bytes of its entries, with their overhead.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Adds an entry. One larger than the table empties it (section 4.4).
    pub fn add(&mut self, entry: TableEntry<'_>) {
        let length = entry.name.len().saturating_add(entry.value.len());
        let size = length.saturating_add(ENTRY_OVERHEAD);
        let lengths = (
            u16::try_from(entry.name.len()),
            u16::try_from(entry.value.len()),
        );
        let ((Ok(name_len), Ok(value_len)), Some(rest)) = (lengths, self.limit.checked_sub(size))
        else {
            return self.evict(0);
        };
        self.evict(rest);
        self.make_room(length);
        let start = self.position(self.text.len());
        self.text.extend_from_slice(entry.name);
        self.text.extend_from_slice(entry.value);
        self.entries.push_back(Entry {
            start,
            name_len,
            value_len,
            kind: entry.kind,
            validity: entry.validity,
        });
        self.size = self.size.saturating_add(size);
        self.added = self.added.wrapping_add(1);
    }

    /// Changes the most bytes, and evicts what does not fit any more (section 4.3).
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(TABLE_BYTES);
        self.evict(self.limit);
    }

    /// Evicts the oldest entries until the rest has at most this many bytes.
    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size = self.size.saturating_sub(oldest.size());
        }
        if self.entries.is_empty() {
            self.text.clear();
        }
    }

    /// Makes room for more text.
    fn make_room(&mut self, length: usize) {
        let dead = self.entries.front().map_or(0, |entry| self.offset(entry));
        let room = self.text.capacity().saturating_sub(self.text.len());
        if length <= room {
            return;
        }
        let live = self.text.len().saturating_sub(dead);
        if dead > live / 4 {
            self.first = self.position(dead);
            self.text.drain(..dead);
        }
        let room = self.text.capacity().saturating_sub(self.text.len());
        if length > room {
            self.text.reserve_exact(length.max(GROWTH_BYTES));
        }
    }

    fn offset(&self, entry: &Entry) -> usize {
        usize::from(entry.start.wrapping_sub(self.first))
    }

    /// The position of an offset in the text.
    fn position(&self, offset: usize) -> u16 {
        let [low, high, ..] = offset.to_le_bytes();
        self.first.wrapping_add(u16::from_le_bytes([low, high]))
    }
}

impl Entry {
    fn size(&self) -> usize {
        usize::from(self.name_len)
            .saturating_add(usize::from(self.value_len))
            .saturating_add(ENTRY_OVERHEAD)
    }
}

/// Bytes by which the text grows at least: 256, a sixteenth of a full table, so that a table that is
/// hardly used takes little.
const GROWTH_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::vec;
    use proptest::prelude::{Strategy, prop_oneof, proptest};

    use super::{ENTRY_OVERHEAD, NameKind, TABLE_BYTES, Table, TableEntry, Validity};

    #[derive(Debug, Clone)]
    enum Step {
        Add(Vec<u8>, Vec<u8>),
        Limit(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (vec(b'a'..=b'z', 1..40), vec(0..=u8::MAX, 0..300)).prop_map(|(name, value)| Step::Add(name, value)),
            1 => (0..=TABLE_BYTES + 1).prop_map(Step::Limit),
            1 => (vec(b'a'..=b'z', 1..9), vec(0..=u8::MAX, 3_000..5_000)).prop_map(|(name, value)| Step::Add(name, value)),
        ]
    }

    /// The table as the RFC describes it.
    #[derive(Default)]
    struct Naive {
        entries: VecDeque<(Vec<u8>, Vec<u8>)>,
        limit: usize,
    }

    impl Naive {
        fn evict(&mut self, more: usize) {
            let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
            while !self.entries.is_empty()
                && self.entries.iter().map(size).sum::<usize>() + more > self.limit
            {
                self.entries.pop_back();
            }
        }

        fn apply(&mut self, step: &Step) {
            match step {
                Step::Limit(limit) => {
                    self.limit = (*limit).min(TABLE_BYTES);
                    self.evict(0);
                }
                Step::Add(name, value) => {
                    let size = name.len() + value.len() + ENTRY_OVERHEAD;
                    self.evict(size);
                    if size <= self.limit {
                        self.entries.push_front((name.clone(), value.clone()));
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_table_is_that_of_a_naive_implementation(steps in vec(step(), 0..150)) {
            let mut table = Table::new(TABLE_BYTES);
            let mut naive = Naive { limit: TABLE_BYTES, ..Naive::default() };
            for step in &steps {
                match step {
                    Step::Limit(limit) => table.set_limit(*limit),
                    Step::Add(name, value) => table.add(TableEntry {
                        name,
                        value,
                        kind: NameKind::of(name),
                        validity: Validity::Valid,
                    }),
                }
                naive.apply(step);
                for (newer, (name, value)) in naive.entries.iter().enumerate() {
                    let entry = table.entry(newer).expect("an entry");
                    assert_eq!((entry.name, entry.value), (&**name, &**value));
                }
                assert!(table.entry(naive.entries.len()).is_none());
                assert!(table.text.capacity() <= TABLE_BYTES * 3 / 2, "{}", table.text.capacity());
            }
        }
    }

    #[test]
    fn a_table_takes_memory_as_it_is_used() {
        let mut table = Table::new(TABLE_BYTES);
        assert_eq!(table.text.capacity(), 0);
        table.add(TableEntry {
            name: b"a",
            value: b"b",
            kind: NameKind::of(b"a"),
            validity: Validity::Valid,
        });
        assert_eq!(table.text.capacity(), 256);
    }
}

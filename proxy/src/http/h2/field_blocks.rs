//! Scans field blocks (RFC 7541) for what the `h2` crate does not report of a single stream: it cuts
//! a `:path` at its fragment, which HTTP/1 rejects; it drops a request's pseudo-header fields from a
//! response, which is malformed with them (RFC 9113 section 8.3), and all of them from trailers
//! (section 8.1); and it ends the whole connection for a field that is invalid.
//!
//! A block that uses the dynamic table can only be read after all blocks before it. Of the table's
//! entries, sizes and kinds are kept, and no text. Errors in a block are left to the crate to
//! report.

use std::collections::VecDeque;

use super::huffman;
use crate::http::grammar::is_token;

/// The field blocks of one direction of a connection.
#[derive(Debug)]
pub(super) struct FieldBlocks {
    /// The dynamic table, the newest entry first.
    table: VecDeque<Entry>,
    size: usize,
    most: usize,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name_len: usize,
    size: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Path,
    PathWithFragment,
    /// Another pseudo-header field of a request.
    Request,
    Status,
    Other,
    /// Its name or value is not allowed (RFC 9113 section 8.2.1).
    Invalid,
}

/// The findings in a block.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockFindings {
    /// It has a path with a fragment.
    pub(super) fragment: bool,
    /// It has a pseudo-header field of a request.
    pub(super) request: bool,
    /// It has the pseudo-header field of a response.
    pub(super) status: bool,
    /// It has a field whose name or value is not allowed.
    pub(super) invalid: bool,
}

impl Kind {
    fn of_name(name: &[u8]) -> Self {
        match name {
            b":path" => Self::Path,
            b":method" | b":scheme" | b":authority" | b":protocol" => Self::Request,
            b":status" => Self::Status,
            name if is_token(name) && !name.iter().any(u8::is_ascii_uppercase) => Self::Other,
            _ => Self::Invalid,
        }
    }

    /// The kind of a field that has a name of this kind and this value.
    fn with_value(self, value: &[u8]) -> Self {
        match self {
            Self::Path | Self::PathWithFragment if value.contains(&b'#') => Self::PathWithFragment,
            Self::Path | Self::PathWithFragment => Self::Path,
            Self::Status if !is_status(value) => Self::Invalid,
            Self::Other if !is_field_value(value) => Self::Invalid,
            named => named,
        }
    }
}

impl Default for FieldBlocks {
    fn default() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            most: TABLE_BYTES,
            text: Vec::new(),
        }
    }
}

impl FieldBlocks {
    /// Scans the next block; `None` if it is malformed.
    pub(super) fn read(&mut self, block: &[u8]) -> Option<BlockFindings> {
        let mut rest = block;
        let mut found = BlockFindings::default();
        while let Some((&first, _)) = rest.split_first() {
            let kind = match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    self.entry(index)?.kind
                }
                0x40.. => {
                    let entry = self.literal(&mut rest, 6)?;
                    self.insert(entry);
                    entry.kind
                }
                0x20.. => {
                    self.resize(integer(&mut rest, 5)?)?;
                    Kind::Other
                }
                _ => self.literal(&mut rest, 4)?.kind,
            };
            found.fragment |= kind == Kind::PathWithFragment;
            found.invalid |= kind == Kind::Invalid;
            found.status |= kind == Kind::Status;
            found.request |= matches!(kind, Kind::Path | Kind::PathWithFragment | Kind::Request);
        }
        Some(found)
    }

    /// Reads a literal field, whose name may refer to an entry (section 6.2).
    fn literal(&mut self, rest: &mut &[u8], prefix: u32) -> Option<Entry> {
        let index = integer(rest, prefix)?;
        let (named, name_len) = if index == 0 {
            self.string(rest)?;
            (Kind::of_name(&self.text), self.text.len())
        } else {
            let entry = self.entry(index)?;
            (entry.kind, entry.name_len)
        };
        self.string(rest)?;
        let size = name_len.checked_add(self.text.len())?;
        Some(Entry {
            name_len,
            size: size.checked_add(ENTRY_BYTES)?,
            kind: named.with_value(&self.text),
        })
    }

    /// Reads a string (section 5.2).
    fn string(&mut self, rest: &mut &[u8]) -> Option<()> {
        let is_huffman = rest.first()? & 0x80 != 0;
        let length = integer(rest, 7)?;
        let (bytes, behind) = rest.split_at_checked(length)?;
        *rest = behind;
        self.text.clear();
        if is_huffman {
            huffman::decode(bytes, &mut self.text)
        } else {
            self.text.extend_from_slice(bytes);
            Some(())
        }
    }

    /// The entry at an index, in the static or dynamic table (section 2.3.3).
    fn entry(&self, index: usize) -> Option<Entry> {
        let fixed = index.checked_sub(1)?;
        if let Some(name_len) = STATIC_NAMES.get(fixed) {
            let kind = match index {
                4 | 5 => Kind::Path,
                1..=7 => Kind::Request,
                8..=14 => Kind::Status,
                _ => Kind::Other,
            };
            return Some(Entry {
                name_len: usize::from(*name_len),
                size: 0,
                kind,
            });
        }
        let own = fixed.checked_sub(STATIC_NAMES.len())?;
        self.table.get(own).copied()
    }

    /// Section 4.4: an entry larger than the table empties it.
    fn insert(&mut self, entry: Entry) {
        if entry.size > self.most {
            self.table.clear();
            self.size = 0;
            return;
        }
        self.evict(self.most.saturating_sub(entry.size));
        self.table.push_front(entry);
        self.size = self.size.saturating_add(entry.size);
    }

    fn resize(&mut self, most: usize) -> Option<()> {
        if most > TABLE_BYTES {
            return None;
        }
        self.most = most;
        self.evict(most);
        Some(())
    }

    /// Evicts the oldest entries until at most this many bytes are left.
    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(oldest) = self.table.pop_back()
        {
            self.size = self.size.saturating_sub(oldest.size);
        }
    }
}

/// Three digits (RFC 9110 section 15).
fn is_status(value: &[u8]) -> bool {
    matches!(value, [b'1'..=b'9', rest @ ..] if rest.len() == 2 && rest.iter().all(u8::is_ascii_digit))
}

/// No control characters except tabs (RFC 9110 section 5.5). Without an early return, so that many
/// bytes are checked at once.
fn is_field_value(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    !value
        .iter()
        .fold(false, |found, &byte| found | is_control(byte))
}

/// Reads an integer with a prefix of this many bits (section 5.1).
fn integer(rest: &mut &[u8], prefix: u32) -> Option<usize> {
    let (&first, mut behind) = rest.split_first()?;
    let mask = u8::MAX.unbounded_shr(u8::BITS.checked_sub(prefix)?);
    let mut value = usize::from(first & mask);
    if first & mask == mask {
        for shift in [0, 7, 14, 21] {
            let (&byte, after) = behind.split_first()?;
            behind = after;
            let part = usize::from(byte & 0x7f).unbounded_shl(shift);
            value = value.checked_add(part)?;
            if byte & 0x80 == 0 {
                *rest = behind;
                return Some(value);
            }
        }
        return None;
    }
    *rest = behind;
    Some(value)
}

/// Bytes of the dynamic table (RFC 9113 section 6.5.2); the default is never changed.
const TABLE_BYTES: usize = 4096;

/// Overhead of an entry besides its text (section 4.1).
const ENTRY_BYTES: usize = 32;

/// Lengths of the names in the static table (appendix A); a request's pseudo-header fields are 1 to
/// 7, `:path` is 4 and 5, `:status` 8 to 14.
#[rustfmt::skip]
const STATIC_NAMES: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27,
    3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17,
    13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];

#[cfg(test)]
mod tests {
    use super::{FieldBlocks, STATIC_NAMES, TABLE_BYTES};

    /// A literal field with this first byte; the name follows in full if the byte has no index.
    fn literal(first: &[u8], name: &str, value: &str) -> Vec<u8> {
        let mut block = first.to_vec();
        for text in [name, value].into_iter().filter(|text| !text.is_empty()) {
            block.push(u8::try_from(text.len()).expect("short"));
            block.extend_from_slice(text.as_bytes());
        }
        block
    }

    #[track_caller]
    fn assert_fragment(blocks: &mut FieldBlocks, block: &[u8], expected: Option<bool>) {
        let found = blocks.read(block).map(|found| found.fragment);
        assert_eq!(found, expected, "{block:x?}");
    }

    #[test]
    fn a_fragment_is_detected_in_every_literal_representation() {
        for (first, name) in [
            (&[0x04][..], ""),
            (&[0x14], ""),
            (&[0x44], ""),
            (&[0x05], ""),
            (&[0x00], ":path"),
            (&[0x10], ":path"),
            (&[0x40], ":path"),
        ] {
            let mut blocks = FieldBlocks::default();
            assert_fragment(&mut blocks, &literal(first, name, "/a#b"), Some(true));
            assert_fragment(&mut blocks, &literal(first, name, "/a"), Some(false));
        }
        // In the code of the RFC: `/#` is 011000 111111111010, and padding.
        assert_fragment(
            &mut FieldBlocks::default(),
            b"\x04\x83\x63\xfe\xbf",
            Some(true),
        );
        assert_fragment(
            &mut FieldBlocks::default(),
            &literal(b"\x00", "x-a", "#"),
            Some(false),
        );
    }

    #[test]
    fn a_fragment_is_detected_in_indexed_fields() {
        let mut blocks = FieldBlocks::default();
        assert_fragment(&mut blocks, &literal(&[0x44], "", "/a#b"), Some(true));
        assert_fragment(&mut blocks, &[0xbe], Some(true));
        // By the name of an entry with the name `:path`.
        assert_fragment(&mut blocks, &literal(&[0x7e], "", "/c"), Some(false));
        assert_fragment(&mut blocks, &[0xbe], Some(false));
        assert_fragment(&mut blocks, &[0xbf], Some(true));
        assert_fragment(&mut blocks, &literal(&[0x40], "x-a", "#"), Some(false));
        assert_fragment(&mut blocks, &literal(&[0x7e], "", "#"), Some(false));
        assert_fragment(&mut blocks, &[0xc1], Some(true));
        // An update of the table's size empties it.
        assert_fragment(&mut blocks, &[0x20, 0x3f, 0xe1, 0x1f], Some(false));
        assert_fragment(&mut blocks, &[0xbe], None);
    }

    #[test]
    fn request_pseudo_header_fields_are_detected_in_every_representation() {
        let names = [":path", ":method", ":scheme", ":authority", ":protocol"];
        let literals = names.map(|name| literal(&[0x40], name, "/"));
        let indices = (1..=7).map(|index| vec![0x80 | index]);
        let by_name = (1..=7).map(|index| literal(&[index], "", "/"));
        for block in literals.into_iter().chain(indices).chain(by_name) {
            let block = [&[0x88], &*block].concat();
            let found = FieldBlocks::default().read(&block);
            assert!(found.is_some_and(|found| found.request), "{block:x?}");
        }
        let mut blocks = FieldBlocks::default();
        assert!(blocks.read(&literal(&[0x40], ":scheme", "/")).is_some());
        assert!(
            blocks
                .read(&[0x88, 0xbe])
                .is_some_and(|found| found.request)
        );
        for block in [
            vec![0x88],
            literal(&[0x08], "", "200"),
            literal(&[0x40], ":status", "200"),
        ] {
            let found = blocks.read(&block);
            assert!(found.is_some_and(|found| !found.request), "{block:x?}");
        }
    }

    #[test]
    fn invalid_names_and_values_are_detected() {
        for (name, value, expected) in [
            ("x-a", "b", false),
            ("x-a", "", false),
            ("x-a", "a\tb\u{e9}", false),
            (":status", "204", false),
            ("X-a", "b", true),
            ("x a", "b", true),
            ("", "b", true),
            (":other", "b", true),
            ("x-a", "a\nb", true),
            ("x-a", "\0", true),
            ("x-a", "\u{7f}", true),
            (":status", "20", true),
            (":status", "099", true),
            (":status", "2000", true),
        ] {
            let mut block = vec![0x40];
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("short"));
                block.extend_from_slice(text.as_bytes());
            }
            let mut blocks = FieldBlocks::default();
            let found = blocks.read(&block).expect("a block");
            assert_eq!(found.invalid, expected, "{name:?}: {value:?}");
            // In the dynamic table too.
            let found = blocks.read(&[0xbe]).expect("a block");
            assert_eq!(found.invalid, expected, "{name:?}: {value:?}, indexed");
        }
    }

    #[test]
    fn old_entries_are_evicted_from_the_dynamic_table() {
        let mut blocks = FieldBlocks::default();
        assert_fragment(&mut blocks, &literal(&[0x44], "", "/a#b"), Some(true));
        // Each entry counts 32 bytes and its text: the path is evicted by the last one.
        let each = 32 + 3 + 100;
        let room = TABLE_BYTES - (32 + 5 + 4);
        for number in 0..room / each {
            assert_fragment(
                &mut blocks,
                &literal(&[0x40], "x-a", &"x".repeat(100)),
                Some(false),
            );
            let index = u8::try_from(number).expect("few");
            // The index of the first dynamic entry is 62; encoded in seven bits.
            assert_fragment(&mut blocks, &[0x80 | (63 + index)], Some(true));
        }
        assert_fragment(
            &mut blocks,
            &literal(&[0x40], "x-a", &"x".repeat(100)),
            Some(false),
        );
        let index = u8::try_from(room / each).expect("few");
        assert_fragment(&mut blocks, &[0x80 | (63 + index)], None);
    }

    #[test]
    fn an_invalid_block_is_reported() {
        for block in [
            &b"\x80"[..],
            b"\xff",
            b"\xff\xff\xff\xff\xff\xff",
            b"\x04",
            b"\x04\x05/",
            b"\x04\x81\xff",
            b"\x3f\xe2\x1f",
            b"\xbe",
        ] {
            assert_fragment(&mut FieldBlocks::default(), block, None);
        }
        assert_eq!(
            STATIC_NAMES.iter().map(|len| u32::from(*len)).sum::<u32>(),
            622
        );
    }
}

//! Decodes field blocks (RFC 7541 section 6) into a [`FieldSink`].

use super::table::{TABLE_BYTES, Table, TableEntry};
use super::{
    DecodedField, ENTRY_OVERHEAD, FieldSink, HpackError, NameKind, Validity, huffman, integer,
    static_table,
};

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
}

/// Texts that are decoded from Huffman's code, or referred to while the table changes: working memory,
/// which any number of decoders may share.
#[derive(Debug, Default)]
pub struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            table: Table::new(TABLE_BYTES),
        }
    }
}

/// How a field is represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Literal {
    /// It is added to the table (section 6.2.1).
    Added,
    /// It is not (sections 6.2.2 and 6.2.3).
    Passing,
}

impl Decoder {
    /// Decodes a whole block, of at most `most` bytes: as in the table, each field counts its text and
    /// 32 bytes. What is above is not even copied.
    ///
    /// # Errors
    ///
    /// The connection must end with `COMPRESSION_ERROR`, or `ENHANCE_YOUR_CALM` if it is too large.
    pub fn decode(
        &mut self,
        block: &[u8],
        most: usize,
        scratch: &mut Scratch,
        sink: &mut impl FieldSink,
    ) -> Result<(), HpackError> {
        let mut rest = block;
        let mut left = most;
        // Section 4.2: changes of the table's size come before all fields.
        while let Some(0x20..=0x3f) = rest.first() {
            let limit = integer::decode(&mut rest, 5)?;
            if limit > TABLE_BYTES {
                return Err(HpackError::Malformed);
            }
            self.table.set_limit(limit);
        }
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => {
                    let index = integer::decode(&mut rest, 7)?;
                    let entry = self.entry(index)?;
                    charge(&mut left, entry.name, entry.value)?;
                    sink.field(entry.into());
                }
                0x40.. => self.literal(Literal::Added, &mut rest, &mut left, scratch, sink)?,
                0x20.. => return Err(HpackError::Malformed),
                _ => self.literal(Literal::Passing, &mut rest, &mut left, scratch, sink)?,
            }
        }
        Ok(())
    }

    /// Decodes a literal field, whose name may be that of an entry.
    fn literal(
        &mut self,
        literal: Literal,
        rest: &mut &[u8],
        left: &mut usize,
        scratch: &mut Scratch,
        sink: &mut impl FieldSink,
    ) -> Result<(), HpackError> {
        let bits = match literal {
            Literal::Added => 6,
            Literal::Passing => 4,
        };
        let index = integer::decode(rest, bits)?;
        let (name, kind, named) = if index == 0 {
            let name = string(rest, &mut scratch.name)?;
            let kind = NameKind::of(name);
            (name, kind, Validity::of(kind, name, b""))
        } else {
            let entry = self.entry(index)?;
            let kind = entry.kind;
            // Its value may be what is invalid.
            let validity = match entry.validity {
                Validity::Valid => Validity::Valid,
                Validity::Invalid => Validity::of(kind, entry.name, b""),
            };
            if index <= static_table::LEN {
                (static_name(index)?, kind, validity)
            } else {
                scratch.name.clear();
                scratch.name.extend_from_slice(entry.name);
                (&*scratch.name, kind, validity)
            }
        };
        let value = string(rest, &mut scratch.value)?;
        charge(left, name, value)?;
        let entry = TableEntry {
            name,
            value,
            kind,
            validity: Validity::of_value(named == Validity::Valid, value),
        };
        if literal == Literal::Added {
            self.table.add(entry);
        }
        sink.field(entry.into());
        Ok(())
    }

    /// The entry at an index, in the static or the dynamic table (section 2.3.3).
    #[inline]
    fn entry(&self, index: usize) -> Result<TableEntry<'_>, HpackError> {
        if let Some(entry) = static_table::entry(index) {
            return Ok(TableEntry {
                name: entry.name,
                value: entry.value,
                kind: entry.kind,
                validity: Validity::Valid,
            });
        }
        // Index 0 is none (section 6.1).
        let newer = index.checked_sub(static_table::LEN);
        let newer = newer.and_then(|newer| newer.checked_sub(1));
        newer
            .and_then(|newer| self.table.entry(newer))
            .ok_or(HpackError::Malformed)
    }
}

fn static_name(index: usize) -> Result<&'static [u8], HpackError> {
    let entry = static_table::entry(index);
    entry.map(|entry| entry.name).ok_or(HpackError::Malformed)
}

/// Takes a string (section 5.2) off the front of `rest`; a compressed one is decoded into `room`.
fn string<'a, 'b: 'a>(rest: &mut &'b [u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::decode(rest, 7)?;
    let cut = rest.split_at_checked(length);
    let (text, after) = cut.ok_or(HpackError::Malformed)?;
    *rest = after;
    if !is_huffman {
        return Ok(text);
    }
    room.clear();
    huffman::decode(text, room)?;
    Ok(room)
}

/// Takes a field's size from what is left.
fn charge(left: &mut usize, name: &[u8], value: &[u8]) -> Result<(), HpackError> {
    let size = name.len().saturating_add(value.len());
    let size = size.saturating_add(ENTRY_OVERHEAD);
    *left = left.checked_sub(size).ok_or(HpackError::TooLarge)?;
    Ok(())
}

impl<'a> From<TableEntry<'a>> for DecodedField<'a> {
    fn from(entry: TableEntry<'a>) -> Self {
        Self {
            name: entry.name,
            value: entry.value,
            kind: entry.kind,
            validity: entry.validity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Scratch};
    use crate::http::engine::hpack::{DecodedField, FieldSink, HpackError, Validity};

    #[derive(Default)]
    struct Fields(Vec<(String, Validity)>);

    impl FieldSink for Fields {
        fn field(&mut self, field: DecodedField<'_>) {
            let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
            self.0.push((format!("{name}: {value}"), field.validity));
        }
    }

    fn decode(
        decoder: &mut Decoder,
        block: &[u8],
        most: usize,
    ) -> Result<Vec<(String, Validity)>, HpackError> {
        let mut fields = Fields::default();
        decoder.decode(block, most, &mut Scratch::default(), &mut fields)?;
        Ok(fields.0)
    }

    #[test]
    fn malformed_blocks_are_rejected() {
        for block in [
            &b"\x80"[..],
            b"\xbe",
            b"\xff",
            b"\xff\xff\xff\xff\xff\xff",
            b"\x04",
            b"\x04\x05/",
            b"\x04\x81\xff",
            b"\x3f\xe2\x1f",
            b"\x82\x20",
            b"\x7f\x20\x01x",
        ] {
            let decoded = decode(&mut Decoder::default(), block, 1_000);
            assert_eq!(decoded, Err(HpackError::Malformed), "{block:x?}");
        }
    }

    #[test]
    fn a_change_of_the_tables_size_comes_first() {
        let mut decoder = Decoder::default();
        let fields = decode(&mut decoder, b"\x20\x3f\xe1\x1f\x40\x01a\x01b\xbe", 1_000);
        assert_eq!(fields.map(|fields| fields.len()), Ok(2));
        // It empties the table.
        let fields = decode(&mut decoder, b"\x20\xbe", 1_000);
        assert_eq!(fields, Err(HpackError::Malformed));
    }

    #[test]
    fn validity_is_kept_with_the_entry() {
        let mut decoder = Decoder::default();
        let fields = decode(&mut decoder, b"\x40\x01a\x01\x00\xbe\x0f\x2f\x01c", 1_000);
        let expected = [
            ("a: \\x00", Validity::Invalid),
            ("a: \\x00", Validity::Invalid),
            ("a: c", Validity::Valid),
        ];
        assert_eq!(
            fields,
            Ok(expected
                .map(|(line, validity)| (line.into(), validity))
                .into())
        );
        let fields = decode(&mut decoder, b"\x40\x01A\x01b\x0f\x2f\x01c", 1_000);
        let fields = fields.expect("a block");
        assert!(fields.iter().all(|(_, it)| *it == Validity::Invalid));
    }

    #[test]
    fn a_name_of_an_entry_that_its_field_evicts_is_kept() {
        let mut decoder = Decoder::default();
        let mut block = b"\x40\x01a\x01b".to_vec();
        // 4 000 bytes for the entry that the first one gives its name.
        block.extend_from_slice(b"\x7e\x7f\xa1\x1e");
        block.extend_from_slice(&[b'x'; 4_000]);
        block.extend_from_slice(b"\xbe");
        let fields = decode(&mut decoder, &block, 10_000).expect("a block");
        assert!(fields.iter().all(|(line, _)| line.starts_with("a: ")));
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn a_bomb_of_references_is_stopped_before_it_is_copied() {
        let mut decoder = Decoder::default();
        let mut block = b"\x40\x01a\x7f\xf0\x1d".to_vec();
        block.extend_from_slice(&[b'x'; 3_951]);
        block.extend_from_slice(&[0xbe; 10_000]);
        let mut fields = Fields::default();
        let decoded = decoder.decode(&block, 40_000, &mut Scratch::default(), &mut fields);
        assert_eq!((decoded, fields.0.len()), (Err(HpackError::TooLarge), 10));
    }
}

//! HPACK, the compression of field sections (RFC 7541).
//!
//! [`decoder`] reads a block field by field into a [`FieldSink`], without a map or an allocation per
//! field; [`encoder`] writes one. Both keep a dynamic [`table`], and share [`integer`], [`huffman`] and
//! [`static_table`].

pub mod decoder;
pub mod encoder;
pub mod huffman;
pub mod integer;
pub mod static_table;
pub mod table;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod round_trips;

use super::super::known::KnownHeader;

/// Receives the fields of a block.
pub trait FieldSink {
    /// The next field. After an error of its own a sink ignores the rest: the decoder goes on to the
    /// block's end, so that the tables of both ends stay the same.
    fn field(&mut self, field: DecodedField<'_>);
}

/// A field of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodedField<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// What the name means.
    pub kind: NameKind,
    /// Whether name and value are allowed.
    pub validity: Validity,
}

/// What a field's name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A pseudo-header field.
    Pseudo(Pseudo),
    /// A header field.
    Field(KnownHeader),
}

/// A pseudo-header field (RFC 9113 section 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// `:authority`
    Authority,
    /// `:method`
    Method,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// `:scheme`
    Scheme,
    /// `:status`
    Status,
    /// A name that no specification defines.
    Unknown,
}

/// Whether a field may appear in HTTP/2 (RFC 9113 section 8.2.1). It is checked once, when a literal is
/// decoded, and kept with the entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// The name is a token in lower case, and the value has neither control characters nor
    /// surrounding white space.
    Valid,
    /// It is malformed.
    Invalid,
}

/// A block that cannot be decoded: the connection ends, since the tables are no longer the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// It is not HPACK, or refers to an entry that does not exist.
    Malformed,
    /// It decodes to more bytes than allowed.
    TooLarge,
}

/// Bytes that an entry counts in addition to its name and value (RFC 7541 section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

impl NameKind {
    /// The meaning of a name.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        if name.first() != Some(&b':') {
            return Self::Field(KnownHeader::of(name));
        }
        Self::Pseudo(match name {
            b":authority" => Pseudo::Authority,
            b":method" => Pseudo::Method,
            b":path" => Pseudo::Path,
            b":protocol" => Pseudo::Protocol,
            b":scheme" => Pseudo::Scheme,
            b":status" => Pseudo::Status,
            _ => Pseudo::Unknown,
        })
    }
}

impl Validity {
    /// Of a name with its value.
    fn of(kind: NameKind, name: &[u8], value: &[u8]) -> Self {
        let is_name = match kind {
            NameKind::Pseudo(_) => true,
            NameKind::Field(_) => is_lower_token(name),
        };
        Self::of_value(is_name, value)
    }

    /// Of a value, with a name that is valid or not.
    fn of_value(is_name: bool, value: &[u8]) -> Self {
        if is_name && is_value(value) {
            Self::Valid
        } else {
            Self::Invalid
        }
    }
}

/// Whether a name is a token without upper case.
fn is_lower_token(name: &[u8]) -> bool {
    let is_allowed = |byte: &u8| NAME_BYTES.get(usize::from(*byte)).copied().unwrap_or(false);
    !name.is_empty() && name.iter().all(is_allowed)
}

/// Whether a value has no control characters except tabs (RFC 9110 section 5.5), and neither begins nor
/// ends with white space. Without an early return, so that many bytes are checked at once.
fn is_value(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    let has_control = value
        .iter()
        .fold(false, |found, &byte| found | is_control(byte));
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !has_control && !is_space(value.first()) && !is_space(value.last())
}

/// The bytes of tokens (RFC 9110 section 5.6.2) without upper case.
static NAME_BYTES: [bool; 256] = name_bytes();

#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "carried out by the compiler"
)]
const fn name_bytes() -> [bool; 256] {
    let mut allowed = [false; 256];
    let all = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < all.len() {
        allowed[all[at] as usize] = true;
        at += 1;
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::{NameKind, Validity};
    use crate::http::grammar::is_token;

    #[test]
    fn names_are_tokens_in_lower_case() {
        for byte in 0..=u8::MAX {
            let expected = is_token(&[byte]) && !byte.is_ascii_uppercase();
            let validity = Validity::of(NameKind::of(b"x"), &[byte], b"");
            assert_eq!(validity == Validity::Valid, expected, "{byte}");
        }
        assert_eq!(
            Validity::of(NameKind::of(b""), b"", b"x"),
            Validity::Invalid
        );
    }

    #[test]
    fn values_have_no_control_characters_or_surrounding_white_space() {
        for (value, expected) in [
            (&b""[..], Validity::Valid),
            (b"a b\tc", Validity::Valid),
            (b"caf\xc3\xa9", Validity::Valid),
            (b" a", Validity::Invalid),
            (b"a\t", Validity::Invalid),
            (b"a\rb", Validity::Invalid),
            (b"a\nb", Validity::Invalid),
            (b"\0", Validity::Invalid),
            (b"\x7f", Validity::Invalid),
        ] {
            assert_eq!(Validity::of_value(true, value), expected, "{value:?}");
        }
    }
}

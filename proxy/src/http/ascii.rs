//! ASCII bytes as text.

#![expect(unsafe_code, reason = "what is ASCII is UTF-8")]

/// The bytes as text, if they are ASCII. Checks sixteen bytes at a time; [`std::str::from_utf8`]
/// checks single bytes in texts as short as a host or a path.
#[must_use]
pub fn text(bytes: &[u8]) -> Option<&str> {
    // SAFETY: the bytes are ASCII, and ASCII is UTF-8.
    bytes
        .is_ascii()
        .then(|| unsafe { std::str::from_utf8_unchecked(bytes) })
}

/// Whether two texts are the same, with letters in any case. Compares eight bytes at a time;
/// [`<[u8]>::eq_ignore_ascii_case`] compares single bytes in texts as short as the name of a field.
#[must_use]
#[inline]
pub fn eq_ignore_case(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // Some bytes are compared twice, so that none needs a loop of its own.
    if let (Some(ends), Some(others)) = (one.last_chunk(), other.last_chunk()) {
        let mut words = one.as_chunks().0.iter().zip(other.as_chunks().0);
        words.all(|(one, other)| is_same_word(*one, *other)) && is_same_word(*ends, *others)
    } else if let (Some(one), Some(other)) = (both_ends(one), both_ends(other)) {
        is_same_word(one, other)
    } else {
        one.eq_ignore_ascii_case(other)
    }
}

/// The first and the last four bytes of a short text.
fn both_ends(text: &[u8]) -> Option<[u8; 8]> {
    let first = u32::from_le_bytes(*text.first_chunk()?);
    let last = u32::from_le_bytes(*text.last_chunk()?);
    Some((u64::from(last) << 32 | u64::from(first)).to_le_bytes())
}

fn is_same_word(one: [u8; 8], other: [u8; 8]) -> bool {
    let (one, other) = (u64::from_le_bytes(one), u64::from_le_bytes(other));
    let differs = one ^ other;
    if differs & !CASE != 0 {
        return false;
    }
    // The highest bit of each byte that is a letter: no byte below 0x80 carries into the next one.
    let lower = (one | CASE) & !HIGHEST;
    let is_from_a = lower.wrapping_add(each(0x80 - b'a'));
    let is_beyond_z = lower.wrapping_add(each(0x7f - b'z'));
    let is_letter = is_from_a & !is_beyond_z & !one & HIGHEST;
    (differs << 2) & !is_letter == 0
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The bit that upper case lacks, in each byte.
const CASE: u64 = each(0x20);
const HIGHEST: u64 = each(0x80);

#[cfg(test)]
mod tests {
    use super::{eq_ignore_case, text};

    #[test]
    fn letters_in_any_case_are_the_same_and_nothing_else_is() {
        for length in [1, 3, 4, 7, 8, 9, 16, 19] {
            for at in 0..length {
                let (mut one, mut other) = (vec![b'-'; length], vec![b'-'; length]);
                for byte in 0..=u8::MAX {
                    one[at] = byte;
                    for byte in 0..=u8::MAX {
                        other[at] = byte;
                        assert_eq!(
                            eq_ignore_case(&one, &other),
                            one.eq_ignore_ascii_case(&other),
                            "{one:x?} and {other:x?}"
                        );
                    }
                }
            }
        }
        assert!(eq_ignore_case(b"", b"") && !eq_ignore_case(b"abcd", b"abcde"));
        assert!(eq_ignore_case(b"Content-LENGTH", b"content-length"));
    }

    #[test]
    fn only_ascii_bytes_are_accepted_as_text() {
        for length in 0..70 {
            let mut bytes = vec![b'a'; length];
            assert_eq!(text(&bytes), Some("a".repeat(length).as_str()));
            for at in 0..length {
                bytes[at] = 0x80;
                assert_eq!(text(&bytes), None, "byte {at} of {length}");
                bytes[at] = 0x7f;
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::text;

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

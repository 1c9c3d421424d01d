//! What an entry of a Secret has to be so that it is an API key. Errors never contain it.

use std::collections::BTreeSet;

use xds::model::KeyDigest;

/// The digest of a key that is the content of an entry, or whose SHA-256 that is.
pub(super) fn digest(content: &[u8], is_hashed: bool) -> Result<KeyDigest, &'static str> {
    // Editors and `echo` end texts with a line end.
    let text = content.strip_suffix(b"\n").unwrap_or(content);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.is_empty() {
        return Err(EMPTY);
    }
    if is_hashed {
        return digest_of_hash(text);
    }
    let is_sendable = |byte: &u8| matches!(byte, b' '..=b'~') || *byte >= 0x80;
    if text.starts_with(b" ") || text.ends_with(b" ") || !text.iter().all(is_sendable) {
        return Err(NOT_SENDABLE);
    }
    let different: BTreeSet<&u8> = text.iter().collect();
    if text.len() < LEAST_BYTES || different.len() < LEAST_DIFFERENT {
        return Err(GUESSABLE);
    }
    Ok(KeyDigest::of(text))
}

/// The hash as hexadecimal digits, alone or with the name of the standard input, as `sha256sum` prints it.
fn digest_of_hash(text: &[u8]) -> Result<KeyDigest, &'static str> {
    let digits = { text.strip_suffix(b"  -") }
        .or_else(|| text.strip_suffix(b" *-"))
        .unwrap_or(text);
    let digest = hexadecimal(digits).ok_or(NO_HASH)?;
    // As `printf %s $KEY | sha256sum` prints it without the variable.
    let nothing: [&[u8]; 3] = [b"", b"\n", b"\r\n"];
    if nothing.iter().any(|it| digest == KeyDigest::of(it)) {
        return Err(EMPTY);
    }
    Ok(digest)
}

/// 32 bytes in hexadecimal digits of either case.
fn hexadecimal(text: &[u8]) -> Option<KeyDigest> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.chunks(2)) {
        let digits = str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(digits, 16)
            .ok()
            .filter(|_| !digits.starts_with('+'))?;
    }
    Some(KeyDigest(digest))
}

/// Fewest bytes of a key: 64 bits in hexadecimal digits, which nobody guesses at the rate of a network.
const LEAST_BYTES: usize = 16;
/// Fewest different bytes of a key. One of 10 000 keys of 16 random decimal digits has fewer.
const LEAST_DIFFERENT: usize = 5;

/// What an entry without a key is, or one whose hash is that of nothing.
const EMPTY: &str = "is empty: put a key into it, such as `openssl rand -hex 32` prints";
const NO_HASH: &str =
    "is not a SHA-256: write its 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them";
const NOT_SENDABLE: &str = "has spaces around it or control characters, which no request can carry: write the key in one line";
const GUESSABLE: &str = "can be guessed: a key has at least 16 bytes, five of them different; use one such as \
                         `openssl rand -hex 32` prints";

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const KEY: &str = "0123456789abcdef";
    const HASH: &str = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";

    #[test]
    fn one_line_end_is_no_part_of_a_key() {
        let expected = KeyDigest::of(KEY.as_bytes());
        for end in ["", "\n", "\r\n"] {
            let content = format!("{KEY}{end}");
            assert_eq!(
                digest(content.as_bytes(), false),
                Ok(expected),
                "{content:?}"
            );
        }
        for content in [
            &format!("{KEY}\n\n"),
            "0123456789\nabcdef",
            &format!(" {KEY}"),
            &format!("{KEY} "),
        ] {
            assert_eq!(
                digest(content.as_bytes(), false),
                Err(NOT_SENDABLE),
                "{content:?}"
            );
        }
        for content in ["", "\n", "\r\n"] {
            assert_eq!(digest(content.as_bytes(), false), Err(EMPTY), "{content:?}");
        }
    }

    #[test]
    fn a_key_that_can_be_guessed_is_none() {
        for content in [
            "ok",
            &KEY[1..],
            "hunter2",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "abcdabcdabcdabcdabcd",
        ] {
            assert_eq!(
                digest(content.as_bytes(), false),
                Err(GUESSABLE),
                "{content}"
            );
        }
        assert!(digest(b"abcdeabcdeabcdea", false).is_ok());
    }

    #[test]
    fn a_hashed_key_is_written_in_hexadecimal_digits() {
        let expected = Ok(KeyDigest::of(KEY.as_bytes()));
        let as_printed = [format!("{HASH}  -\n"), format!("{HASH} *-\n")];
        for content in as_printed.into_iter().chain([
            HASH.to_owned(),
            format!("{HASH}\n"),
            HASH.to_uppercase(),
        ]) {
            assert_eq!(digest(content.as_bytes(), true), expected, "{content:?}");
        }
        for content in [
            &HASH[1..],
            &HASH.replace('9', "g"),
            &HASH.replacen("9f", "+f", 1),
            &format!("{HASH}  key.txt"),
        ] {
            assert_eq!(digest(content.as_bytes(), true), Err(NO_HASH), "{content}");
        }
    }

    /// `echo KEY | sha256sum` hashes the line end too: that is the hash of another key.
    #[test]
    fn the_hash_of_a_key_with_its_line_end_is_that_of_no_key() {
        let of_echo = ring::digest::digest(&ring::digest::SHA256, format!("{KEY}\n").as_bytes());
        let text = of_echo
            .as_ref()
            .iter()
            .fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").expect("a string");
                text
            });
        assert_ne!(
            digest(text.as_bytes(), true),
            Ok(KeyDigest::of(KEY.as_bytes()))
        );
    }

    #[test]
    fn the_hash_of_nothing_is_no_key() {
        for nothing in [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b",
        ] {
            for content in [nothing.to_owned(), format!("{}\n", nothing.to_uppercase())] {
                assert_eq!(digest(content.as_bytes(), true), Err(EMPTY), "{content:?}");
            }
        }
    }
}

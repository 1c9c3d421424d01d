//! The notation that makes every byte of a case visible.

/// Bytes of an escaped text.
///
/// # Panics
/// The text is no valid notation; the message says where.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let mut chars = escape.chars();
        rest = match chars.next() {
            Some('{') => {
                let (inside, after) = repetition(escape);
                bytes.extend_from_slice(&inside);
                after
            }
            Some('x') => {
                let hex = escape.get(1..3).unwrap_or_default();
                bytes.push(u8::from_str_radix(hex, 16).unwrap_or_else(|_| broken(escape)));
                &escape[3..]
            }
            Some(letter) => {
                bytes.push(plain(letter).unwrap_or_else(|| broken(escape)));
                chars.as_str()
            }
            None => broken(rest),
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn plain(letter: char) -> Option<u8> {
    match letter {
        'r' => Some(b'\r'),
        'n' => Some(b'\n'),
        't' => Some(b'\t'),
        '0' => Some(0),
        '\\' => Some(b'\\'),
        _ => None,
    }
}

/// Parses `{TEXT*N}`. Returns the bytes that it denotes, and the rest.
fn repetition(escape: &str) -> (Vec<u8>, &str) {
    let (inside, after) = escape[1..]
        .split_once('}')
        .unwrap_or_else(|| broken(escape));
    let (text, count) = inside.rsplit_once('*').unwrap_or_else(|| broken(escape));
    let count = count.parse().unwrap_or_else(|_| broken(escape));
    (unescape(text).repeat(count), after)
}

fn broken(text: &str) -> ! {
    panic!("no valid escape: `\\{text}`");
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn every_escape_is_read() {
        for (text, bytes) in [
            ("", b"".as_slice()),
            ("plain", b"plain"),
            (r"a\r\n\t\0\\b", b"a\r\n\t\0\\b"),
            (r"\x00\xfF!", b"\x00\xff!"),
            (r"<\{ab*3}>", b"<ababab>"),
            (r"\{X: y\r\n*2}", b"X: y\r\nX: y\r\n"),
        ] {
            assert_eq!(unescape(text), bytes, "{text}");
        }
    }
}

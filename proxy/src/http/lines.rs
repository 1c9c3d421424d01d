//! Header fields and trailers as lines of HTTP/1, each terminated by CRLF, that we wrote, or that a decoder
//! let pass.

use super::grammar;

/// Name and value of each line, which ends in CRLF.
pub(crate) fn pairs(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        loop {
            let end = memchr::memchr(b'\n', rest)?;
            let (line, after) = rest.split_at_checked(end)?;
            rest = after.get(1..)?;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(colon) = memchr::memchr(b':', line) {
                let (name, value) = line.split_at_checked(colon)?;
                return Some((name, grammar::trim(value.get(1..)?)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn lines_are_split_into_names_and_values() {
        let lines = b"A: b\r\nc:d:e \r\nno colon\r\nf:\r\n";
        let found: Vec<_> = pairs(lines).collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"A", b"b"), (b"c", b"d:e"), (b"f", b"")];
        assert_eq!(found, expected);
        assert_eq!(pairs(b"").count(), 0);
    }
}

//! Converts trailers between lines after the last chunk and HTTP/2 field blocks.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::h1::encode::field;
use crate::http::hop_by_hop::is_forbidden_trailer;

/// Appends the allowed trailers as lines, each terminated by CRLF.
///
/// Pseudo-header fields make a message malformed here (RFC 9113 section 8.1). The `h2` crate rejects
/// those after another field, but silently drops those in front, which [`super::guard`] finds.
pub fn write_lines(map: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in map {
        let name = name.as_str().as_bytes();
        if !is_forbidden_trailer(name) {
            field(out, name, value.as_bytes());
        }
    }
}

/// Generated or decoded lines as a field block.
#[must_use]
pub fn of_lines(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    push_lines(&mut map, lines);
    map
}

/// Appends lines that we wrote, or that a decoder let pass.
pub(crate) fn push_lines(map: &mut HeaderMap, lines: &[u8]) {
    for (name, value) in pairs(lines) {
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
}

/// Name and value of each line.
pub(crate) fn pairs(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = lines.split(|&byte| byte == b'\n');
    lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some((name, crate::http::grammar::trim(value.get(1..)?)))
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{of_lines, write_lines};

    #[test]
    fn trailers_round_trip_between_http_1_and_http_2() {
        let mut map = HeaderMap::new();
        map.insert("grpc-status", HeaderValue::from_static("0"));
        map.append("x-sum", HeaderValue::from_static("a: b"));
        map.append("x-sum", HeaderValue::from_static(""));
        map.insert("content-length", HeaderValue::from_static("7"));
        let mut lines = Vec::new();
        write_lines(&map, &mut lines);
        assert_eq!(
            lines.escape_ascii().to_string(),
            r"grpc-status: 0\r\nx-sum: a: b\r\nx-sum: \r\n"
        );
        map.remove("content-length");
        assert_eq!(of_lines(&lines), map);
    }
}

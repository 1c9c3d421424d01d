//! Extracts the loggable parts of a rejected head, for finding its sender.

use crate::http::grammar::{is_token, trim};
use crate::http::head::{Outline, Version};

/// Extracts the first words and the first Host of a head, which may be truncated.
#[must_use]
pub fn outline(bytes: &[u8]) -> Outline<'_> {
    let lines = bytes.split(|&byte| byte == b'\n');
    let mut lines = lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .skip_while(|line| line.is_empty());
    let mut words = lines
        .next()
        .unwrap_or_default()
        .splitn(3, |&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    if !is_token(method) {
        // Not HTTP.
        return Outline::default();
    }
    Outline {
        method,
        target: words.next().unwrap_or_default(),
        version: match words.next() {
            Some(b"HTTP/1.0") => Version::Http10,
            _ => Version::Http11,
        },
        host: lines
            .take_while(|line| !line.is_empty())
            .find_map(host)
            .unwrap_or_default(),
    }
}

fn host(line: &[u8]) -> Option<&[u8]> {
    let (name, value) = line.split_at_checked(HOST.len())?;
    name.eq_ignore_ascii_case(HOST).then(|| trim(value))
}

const HOST: &[u8] = b"Host:";

#[cfg(test)]
mod tests {
    use super::outline;
    use crate::http::head::Version;

    #[track_caller]
    fn assert_outline(bytes: &str, method: &str, target: &str, host: &str) {
        let parsed = outline(bytes.as_bytes());
        let parts = [parsed.method, parsed.target, parsed.host];
        assert_eq!(
            parts,
            [method, target, host].map(str::as_bytes),
            "{bytes:?}"
        );
    }

    #[test]
    fn an_outline_holds_the_parts_received_so_far() {
        assert_outline(
            "GET /a?b HTTP/1.1\r\nA: 1\r\nhOST:  a b \r\n\r\n",
            "GET",
            "/a?b",
            "a b",
        );
        assert_outline("\r\nTRACE / HTTP/1.1\nHost: a\n\n", "TRACE", "/", "a");
        assert_outline("GET / HTTP/1.1\r\n\r\nHost: the-body's", "GET", "/", "");
        assert_outline("GET /cut", "GET", "/cut", "");
        assert_outline("GET", "GET", "", "");
        assert_outline("", "", "", "");
        assert_outline(
            "\u{16}\u{3}\u{1} /path HTTP/1.1\r\nHost: a\r\n\r\n",
            "",
            "",
            "",
        );
    }

    #[test]
    fn an_outline_holds_the_version_of_the_response() {
        let version = |version: &str| outline(format!("GET / {version}\r\n").as_bytes()).version;
        assert_eq!(version("HTTP/1.0"), Version::Http10);
        assert_eq!(version("HTTP/1.1"), Version::Http11);
        assert_eq!(version("HTTP/7"), Version::Http11);
    }
}

//! Host and port of a request, from Host or an absolute-form target.
//!
//! RFC 3986 would allow `,`, `;`, `=` and any escaped byte in a host. Only what DNS names and
//! addresses need is accepted: nothing that two parsers could read as two hosts.

use std::net::Ipv6Addr;

use super::head::Span;

/// Longest host: that of DNS in text form with its trailing dot.
pub const MAX_HOST_BYTES: usize = 254;

/// The two parts of a valid authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// Name or address, in any case; an IPv6 address in its brackets.
    pub host: &'a [u8],
    /// The port, where it has one.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Parses `host`, `host:port`, `[v6]` or `[v6]:port`. Rejects user information and an empty host.
    /// An empty port is the same as none (RFC 3986 section 3.2.3).
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (host, rest) = if text.first() == Some(&b'[') {
            let end = text.iter().position(|&byte| byte == b']')?;
            let (host, rest) = text.split_at_checked(end.checked_add(1)?)?;
            (is_ipv6_literal(host).then_some(host)?, rest)
        } else {
            let end = text.iter().position(|&byte| byte == b':');
            let (host, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
            (is_name(host).then_some(host)?, rest)
        };
        let port = match rest.split_first() {
            None | Some((b':', [])) => None,
            Some((b':', digits)) => Some(parse_port(digits)?),
            Some(_) => return None,
        };
        Some(Self { host, port })
    }
}

/// The span of a valid authority, without the colon of an empty port, which is its normal form (RFC 9110
/// section 4.2.3).
#[must_use]
pub fn normal(bytes: &[u8], authority: Span) -> Option<Span> {
    let text = authority.of(bytes);
    Authority::parse(text)?;
    let colon = u16::from(text.last() == Some(&b':'));
    Some(Span {
        end: authority.end.saturating_sub(colon),
        ..authority
    })
}

fn is_ipv6_literal(host: &[u8]) -> bool {
    host.strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"))
        .and_then(|text| std::str::from_utf8(text).ok())
        .is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Labels of letters, digits, `-` and `_` with single dots between; one dot may end it.
fn is_name(host: &[u8]) -> bool {
    // As if preceded by a dot, so that a leading dot counts as an empty label.
    let mut allowed = LABEL;
    for &byte in host {
        let kind = NAME_BYTES.get(usize::from(byte)).copied();
        let kind = kind.unwrap_or_default();
        if kind & allowed == 0 {
            return false;
        }
        allowed = if kind == DOT { LABEL } else { LABEL | DOT };
    }
    !host.is_empty() && host.len() <= MAX_HOST_BYTES
}

const LABEL: u8 = 1;
const DOT: u8 = 2;

/// What a byte is in a name, 0 if nothing. Every request has a name, and a look-up takes fewer instructions
/// than comparisons with the ends of ranges.
#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "evaluated by the compiler"
)]
const NAME_BYTES: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0_u8;
    loop {
        kinds[byte as usize] = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => LABEL,
            b'.' => DOT,
            _ => 0,
        };
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};

fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 {
        return None;
    }
    digits.iter().try_fold(0_u16, |port, &digit| {
        let digit = digit.is_ascii_digit().then(|| digit.wrapping_sub(b'0'))?;
        port.checked_mul(10)?.checked_add(u16::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::Authority;

    #[test]
    fn accepts_names_and_addresses_with_and_without_a_port() {
        for (text, host, port) in [
            ("example.com", "example.com", None),
            ("Example.COM.:8080", "Example.COM.", Some(8080)),
            ("a_b-c", "a_b-c", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("[::1]", "[::1]", None),
            ("a.test:", "a.test", None),
            ("[::1]:", "[::1]", None),
            ("[2001:DB8::1]:65535", "[2001:DB8::1]", Some(65535)),
        ] {
            let parsed = Authority::parse(text.as_bytes());
            let host = host.as_bytes();
            assert_eq!(parsed, Some(Authority { host, port }), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_authorities() {
        let long = "a".repeat(300);
        for text in [
            "",
            ":80",
            ":",
            "a::",
            "a:b",
            "a:65536",
            "a:+1",
            "a:000080",
            "u@a",
            "u:p@a",
            "a/b",
            "a b",
            "a,b",
            "a..b",
            ".a",
            ".",
            "a%41",
            "[::1",
            "::1",
            "[::1]x",
            "[v1.a]",
            "[fe80::1%25eth0]",
            "[]",
            "caf\u{e9}",
            "a?b",
            "a#b",
            "a\\b",
            &long,
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text}");
        }
    }
}

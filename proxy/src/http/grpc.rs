//! The parts of gRPC that a proxy needs: content type, timeout and status.

use std::time::Duration;

use super::h1::encode::field;
use super::lines::pairs;

/// Whether a message of this content type is gRPC: `application/grpc`, alone or with `+` and a
/// subtype. (`application/grpc-web` is plain HTTP to a proxy.)
#[must_use]
pub fn is_grpc(content_type: &[u8]) -> bool {
    let Some((name, rest)) = content_type.split_at_checked(CONTENT_TYPE.len()) else {
        return false;
    };
    name.eq_ignore_ascii_case(CONTENT_TYPE) && matches!(rest, [] | [b'+' | b';' | b' ', ..])
}

/// Parses a `grpc-timeout`: up to eight digits and a unit. `None` if malformed, which means no
/// timeout.
#[must_use]
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count.saturating_mul(3600)),
        b'M' => Duration::from_secs(count.saturating_mul(60)),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Appends a `grpc-timeout` value: in milliseconds if they fit into eight digits, else in seconds.
pub fn write_timeout(timeout: Duration, out: &mut Vec<u8>) {
    const MAX_VALUE: u128 = 99_999_999;
    let (count, unit) = match timeout.as_millis() {
        millis @ 0..=MAX_VALUE => (millis, b'm'),
        _ => (u128::from(timeout.as_secs()).min(MAX_VALUE), b'S'),
    };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.push(unit);
}

/// Parses the value of `grpc-status`: a decimal number.
#[must_use]
pub fn parse_status(value: &[u8]) -> Option<u32> {
    // `parse` would take a sign as well.
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The status in trailers: lines, each terminated by CRLF.
#[must_use]
pub fn status_of_trailers(lines: &[u8]) -> Option<u32> {
    let mut found = pairs(lines).filter(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"));
    parse_status(found.next()?.1)
}

/// Appends the lines that report a failure to a gRPC client, instead of a body and its type.
pub fn write_failure(status: u8, message: &[u8], lines: &mut Vec<u8>) {
    field(lines, b"content-type", CONTENT_TYPE);
    field(
        lines,
        b"grpc-status",
        itoa::Buffer::new().format(status).as_bytes(),
    );
    field(lines, b"grpc-message", message);
}

const CONTENT_TYPE: &[u8] = b"application/grpc";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        is_grpc, parse_status, parse_timeout, status_of_trailers, write_failure, write_timeout,
    };

    #[test]
    fn recognises_grpc_content_types_only() {
        for (value, expected) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grp", false),
            ("", false),
        ] {
            assert_eq!(is_grpc(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_grpc_status_consists_of_digits() {
        let statuses = [
            ("0", Some(0)),
            ("16", Some(16)),
            ("+0", None),
            ("-0", None),
            ("", None),
        ];
        for (value, expected) in statuses {
            assert_eq!(parse_status(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn grpc_timeouts_are_up_to_eight_digits_and_a_unit() {
        for (value, expected) in [
            ("1H", Some(Duration::from_hours(1))),
            ("2M", Some(Duration::from_mins(2))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("0n", Some(Duration::ZERO)),
            ("123456789S", None),
            ("S", None),
            ("-1S", None),
            ("1s", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(parse_timeout(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_formatted_timeout_parses_back() {
        for timeout in [
            Duration::ZERO,
            Duration::from_millis(250),
            Duration::from_hours(27),
            Duration::from_hours(24_000),
        ] {
            let mut value = Vec::new();
            write_timeout(timeout, &mut value);
            assert_eq!(parse_timeout(&value), Some(timeout));
        }
    }

    #[test]
    fn a_formatted_failure_parses_back() {
        let mut lines = Vec::new();
        write_failure(14, b"nobody is there", &mut lines);
        assert_eq!(status_of_trailers(&lines), Some(14));
        assert_eq!(status_of_trailers(b"x: y\r\n"), None);
        assert_eq!(status_of_trailers(b"grpc-status: x\r\n"), None);
    }
}

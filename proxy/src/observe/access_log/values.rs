//! Values of access log lines, written without `core::fmt` (except IPv6 addresses), which takes
//! several times as long. Every request writes a dozen of them.

use std::cell::Cell;
use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// A time in UTC with milliseconds, as in `2026-11-23T10:11:12.345Z` (RFC 3339). A time that has no
/// such form, before 1970 or after the last time of `jiff` (9999-12-30), is written as the start of 1970.
pub(super) fn time(out: &mut Vec<u8>, time: SystemTime) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (second, since) = match to_second(since.as_secs()) {
        Some(second) => (second, since),
        None => (EPOCH, Duration::ZERO),
    };
    out.extend_from_slice(&second);
    out.push(b'.');
    three_digits(out, since.subsec_millis());
    out.push(b'Z');
}

/// Milliseconds, with three decimals.
pub(super) fn millis(out: &mut Vec<u8>, duration: Duration) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    number(out, micros / 1000);
    out.push(b'.');
    // Below 1 000.
    three_digits(out, u32::try_from(micros % 1000).unwrap_or_default());
}

pub(super) fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            number(out, first.into());
            for octet in rest {
                out.push(b'.');
                number(out, octet.into());
            }
        }
        IpAddr::V6(address) => {
            let _ = write!(out, "{address}");
        }
    }
}

/// What must be done to write a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Graphic ASCII, without quotes, backslashes and equals signs.
    Bare,
    /// It may be written as it is, between quotes.
    Quotes,
    /// Some bytes must be escaped, too.
    Escapes,
}

impl Quoting {
    pub(super) fn of(text: &[u8]) -> Self {
        let needs = text
            .iter()
            .fold(0, |needs, &byte| needs | NEEDS[usize::from(byte)]);
        match needs {
            0 => Self::Bare,
            NEEDS_QUOTES => Self::Quotes,
            _ => Self::Escapes,
        }
    }
}

const NEEDS_QUOTES: u8 = 1;
const NEEDS_ESCAPE: u8 = 2;

/// The needs of each byte: a table takes a third of the time of comparisons.
const NEEDS: [u8; 256] = {
    let mut needs = [NEEDS_ESCAPE; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        needs[byte as usize] = match byte {
            b'"' | b'\\' => NEEDS_ESCAPE,
            b' ' | b'=' => NEEDS_QUOTES,
            _ => 0,
        };
        byte += 1;
    }
    needs
};

fn three_digits(out: &mut Vec<u8>, value: u32) {
    let digit = |value: u32| b'0' + u8::try_from(value % 10).unwrap_or_default();
    out.extend_from_slice(&[digit(value / 100), digit(value / 10), digit(value)]);
}

/// The date and time of a second since 1970, without fraction and zone.
type Second = [u8; 19];

const EPOCH: Second = *b"1970-01-01T00:00:00";

/// Formats a second, unless it is the one that this thread formatted last.
fn to_second(seconds: u64) -> Option<Second> {
    thread_local! {
        static LAST: Cell<(u64, Second)> = const { Cell::new((0, EPOCH)) };
    }
    let (last, formatted) = LAST.get();
    if last == seconds {
        return Some(formatted);
    }
    let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    // With its zone; nothing is allocated.
    let mut text = [0; 20];
    write!(&mut text[..], "{time:.0}").ok()?;
    let formatted = *text.first_chunk()?;
    LAST.set((seconds, formatted));
    Some(formatted)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, UNIX_EPOCH};

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::{Quoting, address, millis, time};

    /// About a day before `Timestamp::MAX`.
    const LAST_MILLIS: u64 = 253_402_100_000_000;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn times_outside_the_range_are_written_as_the_epoch() {
        let after_9999 = UNIX_EPOCH + Duration::from_hours(70_389_528);
        for odd in [UNIX_EPOCH - Duration::from_secs(1), after_9999] {
            assert_eq!(written(|out| time(out, odd)), "1970-01-01T00:00:00.000Z");
        }
    }

    #[test]
    fn the_quoting_of_every_byte_is_correct() {
        for byte in 0..=u8::MAX {
            let expected = match byte {
                b'"' | b'\\' => Quoting::Escapes,
                b' ' | b'=' => Quoting::Quotes,
                _ if byte.is_ascii_graphic() => Quoting::Bare,
                _ => Quoting::Escapes,
            };
            for before in [0, 1, 15, 16, 40] {
                let mut text = vec![b'a'; before];
                text.push(byte);
                assert_eq!(
                    Quoting::of(&text),
                    expected,
                    "{byte:#x} after {before} bytes"
                );
            }
        }
        assert_eq!(Quoting::of(b"= \""), Quoting::Escapes);
    }

    proptest! {
        #[test]
        fn times_are_formatted_like_jiff(millis in 0_u64..LAST_MILLIS, later in 0_u64..2_000) {
            for millis in [millis, millis + later] {
                let at = UNIX_EPOCH + Duration::from_millis(millis);
                let expected = Timestamp::try_from(at).expect("in range");
                prop_assert_eq!(written(|out| time(out, at)), format!("{expected:.3}"));
            }
        }

        #[test]
        fn addresses_are_formatted_like_the_standard_library(bytes: [u8; 16]) {
            let [a, b, c, d, ..] = bytes;
            for it in [IpAddr::from(bytes), IpAddr::from([a, b, c, d])] {
                prop_assert_eq!(written(|out| address(out, it)), it.to_string());
            }
        }

        #[test]
        fn milliseconds_have_three_decimals(micros in 0_u64..u64::MAX / 1_000) {
            let expected = format!("{}.{:03}", micros / 1000, micros % 1000);
            prop_assert_eq!(written(|out| millis(out, Duration::from_micros(micros))), expected);
        }
    }
}

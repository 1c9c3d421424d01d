//! Integers of HPACK (RFC 7541 section 5.1): the low bits of a byte, and bytes of seven bits.

use super::HpackError;

/// Takes an integer with a prefix of `bits` bits off the front of `rest`.
///
/// # Errors
///
/// It is incomplete, or has more than four further bytes: no block is as long as 256 MiB.
#[inline]
pub fn decode(rest: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, after) = rest.split_first().ok_or(HpackError::Malformed)?;
    let largest = u8::MAX.unbounded_shr(u8::BITS.saturating_sub(bits));
    *rest = after;
    let prefix = first & largest;
    if prefix < largest {
        return Ok(usize::from(prefix));
    }
    decode_further(rest, usize::from(prefix))
}

fn decode_further(rest: &mut &[u8], prefix: usize) -> Result<usize, HpackError> {
    let mut value = prefix;
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first().ok_or(HpackError::Malformed)?;
        *rest = after;
        let part = usize::from(byte & 0x7f).unbounded_shl(shift);
        value = value.saturating_add(part);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::Malformed)
}

/// Appends an integer with a prefix of `bits` bits, below the bits of `pattern`.
#[inline]
pub fn encode(out: &mut Vec<u8>, pattern: u8, bits: u32, value: usize) {
    let largest = u8::MAX.unbounded_shr(u8::BITS.saturating_sub(bits));
    match u8::try_from(value) {
        Ok(small) if small < largest => out.push(pattern | small),
        _ => {
            out.push(pattern | largest);
            encode_further(out, value.saturating_sub(usize::from(largest)));
        }
    }
}

fn encode_further(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value = value.unbounded_shr(7);
        if value == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::http::engine::hpack::HpackError;

    #[test]
    fn the_examples_of_the_rfc() {
        for (value, bits, bytes) in [
            (10, 5, &[0x0a][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            let mut out = Vec::new();
            encode(&mut out, 0, bits, value);
            assert_eq!(out, bytes);
            assert_eq!(decode(&mut &*out, bits), Ok(value));
        }
    }

    #[test]
    fn integers_round_trip_with_every_prefix() {
        for bits in 1..=8 {
            for value in (0..1000).chain([16_383, 16_384, 1 << 21, (1 << 28) - 1]) {
                let mut out = Vec::new();
                encode(&mut out, 0, bits, value);
                let mut rest = &out[..];
                assert_eq!(decode(&mut rest, bits), Ok(value), "{value} in {bits} bits");
                assert!(rest.is_empty());
                for end in 0..out.len() {
                    let cut = decode(&mut &out[..end], bits);
                    assert_eq!(cut, Err(HpackError::Malformed));
                }
            }
        }
    }

    #[test]
    fn an_integer_without_an_end_is_malformed() {
        let bytes = [0xff; 100];
        assert_eq!(decode(&mut &bytes[..], 7), Err(HpackError::Malformed));
    }
}

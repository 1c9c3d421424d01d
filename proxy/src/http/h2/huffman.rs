//! Decodes the Huffman code of strings in field blocks (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and
//! follow the shorter ones. So the lengths define it.

/// Appends the decoded text. `None` if the bytes are malformed.
pub(super) fn decode(bytes: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let (mut code, mut length) = (0_u32, 0_usize);
    for byte in bytes {
        for bit in (0..u8::BITS).rev() {
            code = code << 1 | u32::from(byte.unbounded_shr(bit) & 1);
            length = length.saturating_add(1);
            if length > MAX_CODE_BITS {
                return None;
            }
            if let Some(symbol) = CODE.symbol(code, length) {
                text.push(symbol);
                (code, length) = (0, 0);
            }
        }
    }
    // The rest is padding: the start of a code of ones, which no symbol has.
    let is_padding = length < 8 && code.count_ones() as usize == length;
    is_padding.then_some(())
}

/// The code, by length.
struct Code {
    /// The first code of each length.
    first: [u32; MAX_CODE_BITS + 1],
    /// Number of codes of each length.
    count: [u32; MAX_CODE_BITS + 1],
    /// Index of the first symbol of each length.
    start: [u32; MAX_CODE_BITS + 1],
    /// The symbols in the order of their codes.
    symbols: [u8; 256],
}

impl Code {
    #[expect(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "carried out by the compiler, on the table below"
    )]
    const fn build() -> Self {
        let mut code = Self {
            first: [0; MAX_CODE_BITS + 1],
            count: [0; MAX_CODE_BITS + 1],
            start: [0; MAX_CODE_BITS + 1],
            symbols: [0; 256],
        };
        let (mut length, mut next, mut placed) = (1, 0, 0);
        while length <= MAX_CODE_BITS {
            next <<= 1;
            code.first[length] = next;
            code.start[length] = placed;
            let mut symbol = 0;
            while symbol < 256 {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[placed as usize] = symbol as u8;
                    placed += 1;
                    next += 1;
                }
                symbol += 1;
            }
            code.count[length] = placed - code.start[length];
            length += 1;
        }
        code
    }

    /// The symbol of a code of this length.
    fn symbol(&self, code: u32, length: usize) -> Option<u8> {
        let at = code.checked_sub(*self.first.get(length)?)?;
        let is_one = at < *self.count.get(length)?;
        let at = self.start.get(length)?.checked_add(at).filter(|_| is_one)?;
        self.symbols.get(usize::try_from(at).ok()?).copied()
    }
}

static CODE: Code = Code::build();

/// Length of the longest code in bits.
const MAX_CODE_BITS: usize = 30;

/// Length of each symbol's code in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

#[cfg(test)]
mod tests {
    use super::decode;

    fn decoded(bytes: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        decode(bytes, &mut text)?;
        String::from_utf8(text).ok()
    }

    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        for (bytes, text) in [
            (
                &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
                "www.example.com",
            ),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"", ""),
        ] {
            assert_eq!(decoded(bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn invalid_huffman_codes_are_rejected() {
        // Invalid: a whole byte of padding, padding with a zero bit, and the end-of-string code.
        for bytes in [&b"\xff"[..], b"\x00\x00", b"\xff\xff\xff\xff"] {
            assert_eq!(decoded(bytes), None, "{bytes:x?}");
        }
    }
}

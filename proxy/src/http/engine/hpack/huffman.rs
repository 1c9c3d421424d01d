//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and
//! follow the shorter ones. So the lengths define it, and the compiler builds both tables from them.
//!
//! Decoding takes four bits at a time: a state is an inner node of the code's tree, of which there are
//! 256, and each of its sixteen transitions emits at most one symbol, since no code has less than five
//! bits.

use super::HpackError;

/// Appends the decoded text.
///
/// # Errors
///
/// The code of the end is in it, or what remains after the last symbol is not a padding of less than
/// eight ones.
pub fn decode(bytes: &[u8], text: &mut Vec<u8>) -> Result<(), HpackError> {
    let mut step = Transition {
        next: ROOT,
        symbol: 0,
        flags: ACCEPTS,
    };
    // The shortest code has five bits.
    text.reserve(bytes.len().saturating_mul(8) / 5);
    for &byte in bytes {
        for nibble in [byte.unbounded_shr(4), byte & 0xf] {
            step = transition(step.next, nibble).ok_or(HpackError::Malformed)?;
            if step.flags & EMITS != 0 {
                text.push(step.symbol);
            }
            if step.flags & FAILS != 0 {
                return Err(HpackError::Malformed);
            }
        }
    }
    let is_padding = step.flags & ACCEPTS != 0;
    is_padding.then_some(()).ok_or(HpackError::Malformed)
}

fn transition(state: u8, nibble: u8) -> Option<Transition> {
    let transitions = TRANSITIONS.get(usize::from(state))?;
    transitions.get(usize::from(nibble)).copied()
}

/// Bytes of a text in this code.
#[must_use]
pub fn encoded_len(text: &[u8]) -> usize {
    let length = |byte: &u8| code_of(*byte).1;
    let bits: u64 = text.iter().map(|byte| u64::from(length(byte))).sum();
    usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX)
}

/// Appends a text in this code.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    // The lowest `held` bits are not written yet.
    let (mut bits, mut held) = (0_u64, 0_u32);
    for &byte in text {
        let (code, length) = code_of(byte);
        bits = bits.unbounded_shl(length) | u64::from(code);
        held = held.saturating_add(length);
        while held >= 8 {
            held = held.saturating_sub(8);
            let [low, ..] = bits.unbounded_shr(held).to_le_bytes();
            out.push(low);
        }
    }
    if held > 0 {
        let padding = 8_u32.saturating_sub(held);
        let ones = u8::MAX.unbounded_shr(held);
        let [low, ..] = bits.unbounded_shl(padding).to_le_bytes();
        out.push(low | ones);
    }
}

/// The code of a byte, and its length in bits.
fn code_of(byte: u8) -> (u32, u32) {
    CODES.get(usize::from(byte)).copied().unwrap_or_default()
}

/// What four bits do in one state.
#[derive(Debug, Clone, Copy)]
struct Transition {
    next: u8,
    symbol: u8,
    flags: u8,
}

/// The transition completes a symbol.
const EMITS: u8 = 1;
/// The text may end after it: what follows the last symbol is a valid padding.
const ACCEPTS: u8 = 2;
/// It passes the code of the end, which no text may have.
const FAILS: u8 = 4;

/// The state before a symbol.
const ROOT: u8 = 0;

static TRANSITIONS: [[Transition; 16]; NODES] = transitions(&tree());

/// Of each byte, its code and the length in bits.
static CODES: [(u32, u32); 256] = codes();

/// Inner nodes of the tree: one less than its leaves, which are the bytes and the end.
const NODES: usize = 256;

/// Number of the symbol of the end.
const END: usize = 256;

/// For each inner node and each bit, the node that follows: an inner one by its number, a leaf as
/// `LEAF` and its symbol.
type Tree = [[u16; 2]; NODES];

const LEAF: u16 = 0x8000;

/// Calls `$visit` with symbol, code and length in bits, in the order of the codes.
macro_rules! for_each_code {
    (|$symbol:ident, $code:ident, $length:ident| $visit:block) => {
        let (mut $length, mut $code) = (1, 0_u32);
        while $length <= MAX_CODE_BITS {
            $code <<= 1;
            let mut $symbol = 0;
            while $symbol <= END {
                if LENGTHS[$symbol] as u32 == $length {
                    $visit
                    $code += 1;
                }
                $symbol += 1;
            }
            $length += 1;
        }
    };
}

#[expect(
    clippy::indexing_slicing,
    reason = "carried out by the compiler, on the table below"
)]
const fn codes() -> [(u32, u32); 256] {
    let mut codes = [(0, 0); 256];
    for_each_code!(|symbol, code, length| {
        if symbol != END {
            codes[symbol] = (code, length);
        }
    });
    codes
}

#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "carried out by the compiler, on the table below"
)]
const fn tree() -> Tree {
    let mut tree = [[0; 2]; NODES];
    let mut nodes = 1;
    for_each_code!(|symbol, code, length| {
        let (mut node, mut bit) = (ROOT as usize, length);
        while bit > 1 {
            bit -= 1;
            let side = (code >> bit & 1) as usize;
            if tree[node][side] == 0 {
                tree[node][side] = nodes;
                nodes += 1;
            }
            node = tree[node][side] as usize;
        }
        tree[node][(code & 1) as usize] = LEAF | symbol as u16;
    });
    tree
}

#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "carried out by the compiler, on a tree of bytes"
)]
const fn transitions(tree: &Tree) -> [[Transition; 16]; NODES] {
    let none = Transition {
        next: ROOT,
        symbol: 0,
        flags: 0,
    };
    let mut transitions = [[none; 16]; NODES];
    let paddings = paddings(tree);
    let mut state = 0;
    while state < NODES {
        let mut nibble = 0;
        while nibble < 16 {
            let (mut node, mut made, mut bit) = (state, none, 4);
            while bit > 0 {
                bit -= 1;
                let next = tree[node][nibble >> bit & 1];
                if next & LEAF == 0 {
                    node = next as usize;
                } else if next == LEAF | END as u16 {
                    made.flags |= FAILS;
                    node = ROOT as usize;
                } else {
                    made.flags |= EMITS;
                    made.symbol = next as u8;
                    node = ROOT as usize;
                }
            }
            made.next = node as u8;
            if paddings[node] {
                made.flags |= ACCEPTS;
            }
            transitions[state][nibble] = made;
            nibble += 1;
        }
        state += 1;
    }
    transitions
}

/// The nodes that up to seven ones lead to from the root.
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "carried out by the compiler, on a tree of bytes"
)]
const fn paddings(tree: &Tree) -> [bool; NODES] {
    let mut paddings = [false; NODES];
    let (mut node, mut ones) = (ROOT as usize, 0);
    while ones < 8 {
        paddings[node] = true;
        node = tree[node][1] as usize;
        ones += 1;
    }
    paddings
}

/// Length of the longest code in bits.
const MAX_CODE_BITS: u32 = 30;

/// Length of each symbol's code in bits; the last one is the end.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
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
    30,
];

#[cfg(test)]
mod tests {
    use super::{decode, encode, encoded_len};
    use crate::http::engine::hpack::HpackError;

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut text = Vec::new();
        decode(bytes, &mut text)?;
        Ok(text)
    }

    #[test]
    fn the_examples_of_the_rfc_round_trip() {
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
            assert_eq!(decoded(bytes), Ok(text.as_bytes().to_vec()));
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!((&*out, encoded_len(text.as_bytes())), (bytes, bytes.len()));
        }
    }

    #[test]
    fn every_pair_of_bytes_round_trips() {
        for one in 0..=u8::MAX {
            for other in 0..=u8::MAX {
                let mut out = Vec::new();
                encode(&[one, other], &mut out);
                assert_eq!(out.len(), encoded_len(&[one, other]));
                assert_eq!(decoded(&out), Ok(vec![one, other]));
            }
        }
    }

    #[test]
    fn invalid_codes_are_rejected() {
        // A whole byte of padding, padding with a zero bit, and the code of the end.
        for bytes in [
            &b"\xff"[..],
            b"\x00\x00",
            b"\xff\xff\xff\xff",
            b"\x07\xff\xff\xff\xff",
            b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\xff",
        ] {
            assert_eq!(decoded(bytes), Err(HpackError::Malformed), "{bytes:x?}");
        }
    }
}

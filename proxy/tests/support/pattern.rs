//! Large bodies that differ at every byte.

/// `length` bytes without a short period, the same every time: a lost, doubled or moved block shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64: good enough to distinguish bytes.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Fails with the first difference, without printing megabytes.
#[track_caller]
pub(crate) fn same_bytes(got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        differs.is_none() && got.len() == expected.len(),
        "{} bytes of {} arrived, the first difference is at {differs:?}",
        got.len(),
        expected.len(),
    );
}

//! Tables of atomics that shards share, in cache lines, whose memory is used as they fill.

use std::sync::atomic::AtomicU64;

/// A cache line of atomics.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CacheLine([AtomicU64; Self::WORDS]);

impl CacheLine {
    /// Words of a cache line: 64 bytes.
    pub const WORDS: usize = 8;

    /// Its words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// This many lines of zeros. The allocator gets such memory from the system, which provides it as it is used.
#[expect(unsafe_code, reason = "memory of zeros")]
#[must_use]
pub fn zeroed_lines(lines: usize) -> Box<[CacheLine]> {
    let lines = Box::<[CacheLine]>::new_zeroed_slice(lines);
    // SAFETY: a line is an array of `AtomicU64`, for which all bits zero are a valid value.
    unsafe { lines.assume_init() }
}

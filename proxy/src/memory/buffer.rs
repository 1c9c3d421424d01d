//! I/O buffers: filled at the end, sent from the front, with headroom.
//!
//! A rewritten head goes into the headroom, in front of the body bytes that arrived with the
//! original one, so that a message is sent in one piece and its body is never copied.
//!
//! Connections wait in small buffers, which grow if more arrives than fits: few large ones are in
//! use, and the processor's cache keeps them. HTTP/2 streams wait without any memory. The pool
//! counts the buffers in use.

#![expect(unsafe_code, reason = "buffers are lent to the kernel")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::rc::Rc;

use monoio::buf::{IoBuf, IoBufMut};

use crate::limits::{BUFFER_BYTES, BUFFER_HEADROOM_BYTES, SMALL_BUFFER_BYTES, SPARE_BUFFERS};
use crate::memory;
use crate::memory::FreeList;

/// Bytes read and not forwarded yet. The memory is untouched until bytes arrive, so a waiting
/// buffer costs only address space.
pub struct Buffer {
    memory: Box<[MaybeUninit<u8>]>,
    /// First byte not consumed.
    start: usize,
    /// One past the last byte read.
    end: usize,
    /// One past the last byte ever written: the memory from the headroom's end to here is
    /// initialised.
    written: usize,
    /// The pool of its memory, if any.
    loan: Option<Loan>,
}

/// Memory lent by a pool, which is counted until it is returned or freed.
pub(super) struct Loan {
    pool: Rc<BufferPool>,
    bytes: usize,
}

impl Loan {
    pub(super) fn of(pool: &Rc<BufferPool>, bytes: usize) -> Self {
        let mut loan = Self {
            pool: Rc::clone(pool),
            bytes: 0,
        };
        loan.resize(bytes);
        loan
    }

    /// The pool that counts it.
    pub(super) fn pool(&self) -> &Rc<BufferPool> {
        &self.pool
    }

    /// Counts this many bytes from now on.
    pub(super) fn resize(&mut self, bytes: usize) {
        let others = self.pool.lent.get().saturating_sub(self.bytes);
        self.pool.lent.set(others.saturating_add(bytes));
        self.bytes = bytes;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl Default for Buffer {
    /// A buffer without memory, a placeholder while the kernel has the actual one.
    fn default() -> Self {
        Self {
            memory: Box::new([]),
            start: 0,
            end: 0,
            written: 0,
            loan: None,
        }
    }
}

/// Space reserved at the end for chunk framing.
const FRAMING_BYTES: usize = 16;

impl Buffer {
    /// An empty buffer with space for a full read, and headroom.
    #[must_use]
    pub fn with_room() -> Self {
        Self::of(BUFFER_BYTES)
    }

    /// An unpooled buffer with these bytes, and space for framing around them.
    fn holding(bytes: &[u8]) -> Self {
        let mut buffer = Self::of(bytes.len() + FRAMING_BYTES);
        let fits = buffer.append(bytes);
        debug_assert!(fits, "it was made for them");
        buffer
    }

    /// An unpooled buffer with these bytes, and no space around them.
    fn holding_only(bytes: &[u8]) -> Self {
        let mut buffer = Self {
            memory: Box::new_uninit_slice(bytes.len()),
            ..Self::default()
        };
        let fits = buffer.append(bytes);
        debug_assert!(fits, "it was made for them");
        buffer
    }

    fn is_large(&self) -> bool {
        self.memory.len() == BUFFER_HEADROOM_BYTES + BUFFER_BYTES
    }

    fn of(room: usize) -> Self {
        Self {
            memory: Box::new_uninit_slice(BUFFER_HEADROOM_BYTES + room),
            start: BUFFER_HEADROOM_BYTES,
            end: BUFFER_HEADROOM_BYTES,
            written: BUFFER_HEADROOM_BYTES,
            loan: None,
        }
    }

    fn is_small(&self) -> bool {
        self.memory.len() == BUFFER_HEADROOM_BYTES + SMALL_BUFFER_BYTES
    }

    /// Moves to a large buffer of the pool, if it is a small one.
    pub fn grow(&mut self) {
        if self.is_small() || self.memory.is_empty() {
            self.change_for(BufferPool::take);
        }
    }

    /// Moves to a small buffer of the pool, if it is large and empty.
    pub fn shrink(&mut self) {
        if !self.is_small() && self.is_empty() {
            self.change_for(BufferPool::take_small);
        }
    }

    /// Ensures space for this many bytes, if a buffer of the pool has it.
    pub fn reserve(&mut self, bytes: usize) {
        if self.room() >= bytes {
            return;
        }
        if self.memory.is_empty() && bytes <= SMALL_BUFFER_BYTES {
            self.change_for(BufferPool::take_small);
        } else {
            self.grow();
        }
    }

    /// Returns its memory to the pool, if it is empty.
    pub fn release(&mut self) {
        if self.is_empty() && !self.memory.is_empty() {
            self.change_for(BufferPool::without_memory);
        }
    }

    /// Moves its bytes to another buffer of the pool.
    fn change_for(&mut self, take: impl FnOnce(&Rc<BufferPool>) -> Self) {
        let Some(loan) = &self.loan else {
            return;
        };
        let pool = Rc::clone(&loan.pool);
        let mut other = take(&pool);
        let fits = other.append(self.filled());
        debug_assert!(fits, "no bytes are moved to a buffer with less room");
        pool.put(std::mem::replace(self, other));
    }

    /// Bytes read and not consumed.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: `start..end` was written by `prepend`, `append` or the kernel, and both stay
        // within the memory (each method that moves one checks it).
        unsafe { self.memory[self.start..self.end].assume_init_ref() }
    }

    /// Bytes read and not consumed, for changes in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `filled`.
        unsafe { self.memory[self.start..self.end].assume_init_mut() }
    }

    /// Number of bytes read and not consumed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether all bytes are consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Drops the first `count` bytes, or all if there are fewer.
    pub fn consume(&mut self, count: usize) {
        self.start += count.min(self.len());
        if self.start == self.end {
            self.clear();
        }
    }

    /// Keeps only the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    /// Drops all bytes, and keeps the memory.
    pub fn clear(&mut self) {
        self.start = BUFFER_HEADROOM_BYTES.min(self.memory.len());
        self.end = self.start;
    }

    /// Writes `bytes` in front of the first byte, over consumed ones. `false` if they do not fit;
    /// then nothing changes.
    #[must_use]
    pub fn prepend(&mut self, bytes: &[u8]) -> bool {
        let Some(start) = self.start.checked_sub(bytes.len()) else {
            return false;
        };
        self.memory[start..self.start].write_copy_of_slice(bytes);
        self.start = start;
        true
    }

    /// Writes `bytes` after the last byte. `false` if they do not fit; then nothing changes.
    #[must_use]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.memory.get_mut(self.end..self.end + bytes.len()) else {
            return false;
        };
        room.write_copy_of_slice(bytes);
        self.end += bytes.len();
        self.written = self.written.max(self.end);
        true
    }

    /// Lets `write` write up to `max` bytes after the last byte; it returns how many it wrote.
    /// `false` if there is not enough space; then it is not called.
    pub fn append_with(&mut self, max: usize, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(room) = self.memory.get_mut(self.end..self.end + max) else {
            return false;
        };
        let initialised = self.written.saturating_sub(self.end).min(max);
        room[initialised..].fill(MaybeUninit::new(0));
        self.written = self.written.max(self.end + max);
        // SAFETY: up to `written` the memory was written before, and behind that just now.
        let room = unsafe { room.assume_init_mut() };
        self.end += write(room).min(max);
        true
    }

    /// Writes `bytes` after the first `end` bytes: over bytes that can be dropped, which are those
    /// before `consumed`, or after the last byte if `end` is there. `false` if they do not fit;
    /// then nothing changes.
    #[must_use]
    pub fn put_behind(&mut self, end: usize, consumed: &mut usize, bytes: &[u8]) -> bool {
        let room = self.filled_mut().get_mut(end..*consumed);
        if let Some(room) = room.and_then(|room| room.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
            return true;
        }
        if *consumed != self.len() {
            return false;
        }
        // Bytes that can be dropped may be overwritten: those before `end` are the last ones
        // needed.
        let before = self.end;
        self.end = self.start + end;
        let fits = self.append(bytes);
        if fits {
            *consumed = self.len();
        } else {
            self.end = before;
        }
        fits
    }

    /// How many bytes a read can return.
    #[must_use]
    pub fn room(&self) -> usize {
        self.memory.len() - self.end
    }

    /// Ensures space after the remaining bytes: moves them to the front, or grows. A buffer without
    /// memory stays so.
    pub fn make_room(&mut self) {
        if self.room() == 0 && self.is_small() && self.start <= BUFFER_HEADROOM_BYTES {
            self.grow();
        }
        if self.room() < self.memory.len() / 4 && self.start > BUFFER_HEADROOM_BYTES {
            let length = self.len();
            self.memory
                .copy_within(self.start..self.end, BUFFER_HEADROOM_BYTES);
            self.start = BUFFER_HEADROOM_BYTES;
            self.end = BUFFER_HEADROOM_BYTES + length;
        }
    }
}

// SAFETY: the memory is boxed, so it stays where it is while the kernel has the buffer, and
// `start..end` is initialised.
unsafe impl IoBuf for Buffer {
    fn read_ptr(&self) -> *const u8 {
        self.filled().as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

// SAFETY: the pointer and length name the memory behind `end`, which nobody else reads before
// `set_init` says how much of it the kernel wrote.
unsafe impl IoBufMut for Buffer {
    fn write_ptr(&mut self) -> *mut u8 {
        self.memory[self.end..].as_mut_ptr().cast()
    }

    fn bytes_total(&mut self) -> usize {
        self.room()
    }

    unsafe fn set_init(&mut self, count: usize) {
        debug_assert!(
            count <= self.room(),
            "the kernel wrote into the room it was given"
        );
        self.end += count;
        self.written = self.written.max(self.end);
    }
}

/// A part of a buffer being sent.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) buffer: Buffer,
    /// The rest to send, relative to the buffer's first byte.
    pub(crate) range: Range<usize>,
}

impl Outgoing {
    /// The bytes to send.
    pub(crate) fn bytes(&self) -> &[u8] {
        let filled = self.buffer.filled();
        filled.get(self.range.clone()).unwrap_or_default()
    }
}

// SAFETY: as for `Buffer`; the range is cut to what the buffer holds.
unsafe impl IoBuf for Outgoing {
    fn read_ptr(&self) -> *const u8 {
        self.bytes().as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.bytes().len()
    }
}

/// The unused buffers of a shard.
#[derive(Default)]
pub struct BufferPool {
    large: FreeList<Buffer>,
    small: FreeList<Buffer>,
    /// Bytes of buffers in use.
    lent: Cell<usize>,
}

impl BufferPool {
    /// An empty buffer, from the free ones if there are any.
    #[must_use]
    pub fn take(self: &Rc<Self>) -> Buffer {
        let buffer = self.large.take().unwrap_or_else(Buffer::with_room);
        self.lend(buffer)
    }

    /// A small empty buffer, for waiting.
    #[must_use]
    pub fn take_small(self: &Rc<Self>) -> Buffer {
        let buffer = self.small.take();
        self.lend(buffer.unwrap_or_else(|| Buffer::of(SMALL_BUFFER_BYTES)))
    }

    /// A buffer that takes memory when bytes arrive, by [`Buffer::reserve`] or [`Buffer::grow`].
    #[must_use]
    pub fn without_memory(self: &Rc<Self>) -> Buffer {
        self.lend(Buffer::default())
    }

    /// A buffer with these bytes, and space for framing around them.
    #[must_use]
    pub fn holding(self: &Rc<Self>, bytes: &[u8]) -> Buffer {
        self.lend(Buffer::holding(bytes))
    }

    /// A buffer with these bytes and no space around them, for those that are kept for long.
    #[must_use]
    pub fn holding_only(self: &Rc<Self>, bytes: &[u8]) -> Buffer {
        self.lend(Buffer::holding_only(bytes))
    }

    fn lend(self: &Rc<Self>, buffer: Buffer) -> Buffer {
        Buffer {
            loan: Some(Loan::of(self, buffer.memory.len())),
            ..buffer
        }
    }

    /// Bytes of buffers in use.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lent.get()
    }

    /// Returns a buffer; its content is dropped.
    pub fn put(&self, mut buffer: Buffer) {
        buffer.clear();
        buffer.loan = None;
        if buffer.is_small() {
            self.small.put(buffer);
        } else if buffer.is_large() {
            self.large.put(buffer);
        }
    }

    /// As [`Self::put`], for a connection that becomes idle: freed if others are free.
    pub fn put_idle(&self, mut buffer: Buffer) {
        if !buffer.is_small() {
            return self.put(buffer);
        }
        buffer.clear();
        buffer.loan = None;
        if let Some(mut buffer) = self.small.put_spare(buffer, SPARE_BUFFERS) {
            memory::discard(&mut buffer.memory);
        }
    }

    /// Frees buffers not used since the last call. Returns how many.
    pub fn trim(&self) -> usize {
        let discard = |mut buffer: Buffer| memory::discard(&mut buffer.memory);
        self.large.trim(discard) + self.small.trim(discard)
    }
}

#[cfg(test)]
mod tests;

//! The buffer that bytes pass through: read at its end, sent from its start, with room in front.
//!
//! A head that we write anew goes into the room in front of the body bytes that arrived with the
//! old one, so that a message is sent in one piece and its body is never copied.
//!
//! What is waited for is waited for in a small buffer, which grows when more comes than it holds:
//! the large ones are few, and the processor's cache keeps them. What needs no memory to be waited for,
//! as the data of an HTTP/2 stream, is waited for without any. The pool counts what it has lent.

#![expect(unsafe_code, reason = "buffers are lent to the kernel")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::rc::Rc;

use monoio::buf::{IoBuf, IoBufMut};

use crate::limits::{BUFFER_BYTES, BUFFER_HEADROOM_BYTES, SMALL_BUFFER_BYTES, SPARE_BUFFERS};
use crate::memory;
use crate::memory::Shelf;

/// Bytes that were read and not sent on yet. Its memory is left untouched until bytes arrive, so
/// a buffer that waits costs address space alone.
pub struct Buffer {
    memory: Box<[MaybeUninit<u8>]>,
    /// First byte that was not consumed.
    start: usize,
    /// One past the last byte that was read.
    end: usize,
    /// One past the last byte that was ever written: from the headroom's end up to here all of the
    /// memory is initialised.
    written: usize,
    /// Where its memory is from, if it is a pool's.
    loan: Option<Loan>,
}

/// Memory that a pool has lent, which counts until it comes back or is freed.
struct Loan {
    pool: Rc<BufferPool>,
    bytes: usize,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let lent = self.pool.lent.get();
        self.pool.lent.set(lent.saturating_sub(self.bytes));
    }
}

impl Default for Buffer {
    /// A buffer without memory, which takes the place of one while the kernel has it.
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

/// Room behind the bytes that a buffer was made for: the end of a chunk, and the last one.
const FRAMING_BYTES: usize = 16;

impl Buffer {
    /// An empty buffer with room for a whole read and for a head in front of it.
    #[must_use]
    pub fn with_room() -> Self {
        Self::of(BUFFER_BYTES)
    }

    /// A buffer of no pool that holds these bytes, with room for framing around them.
    #[must_use]
    pub fn holding(bytes: &[u8]) -> Self {
        let mut buffer = Self::of(bytes.len() + FRAMING_BYTES);
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

    /// Becomes a large buffer with the same bytes, if it is a smaller one of a pool.
    pub fn grow(&mut self) {
        if self.is_small() || self.memory.is_empty() {
            self.change_for(BufferPool::take);
        }
    }

    /// Becomes a small buffer, if it is a large one of a pool and has no bytes.
    pub fn shrink(&mut self) {
        if !self.is_small() && self.is_empty() {
            self.change_for(BufferPool::take_small);
        }
    }

    /// Becomes one that has room for so many bytes, if there are such in its pool and it has not.
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

    /// Gives its memory back to its pool, if it has no bytes.
    pub fn release(&mut self) {
        if self.is_empty() && !self.memory.is_empty() {
            self.change_for(BufferPool::without_memory);
        }
    }

    /// Becomes another buffer of its pool with the same bytes.
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

    /// Bytes that were read and not consumed.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: `start..end` was written by `prepend`, `append` or the kernel, and both stay
        // within the memory (each method that moves one checks it).
        unsafe { self.memory[self.start..self.end].assume_init_ref() }
    }

    /// Bytes that were read and not consumed, to change in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `filled`.
        unsafe { self.memory[self.start..self.end].assume_init_mut() }
    }

    /// How many bytes were read and not consumed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether every byte was consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets the first `count` bytes; all of them where there are fewer.
    pub fn consume(&mut self, count: usize) {
        self.start += count.min(self.len());
        if self.start == self.end {
            self.clear();
        }
    }

    /// Forgets what is behind the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    /// Forgets every byte.
    pub fn clear(&mut self) {
        self.start = BUFFER_HEADROOM_BYTES.min(self.memory.len());
        self.end = self.start;
    }

    /// Writes `bytes` in front of the first byte, over what was consumed. `false` where they do
    /// not fit; then nothing changed.
    #[must_use]
    pub fn prepend(&mut self, bytes: &[u8]) -> bool {
        let Some(start) = self.start.checked_sub(bytes.len()) else {
            return false;
        };
        self.memory[start..self.start].write_copy_of_slice(bytes);
        self.start = start;
        true
    }

    /// Writes `bytes` behind the last byte. `false` where they do not fit; then nothing changed.
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

    /// Lets `write` write behind the last byte, `most` bytes at most; it returns how many it wrote.
    /// `false` where there is no room for so many; then it is not called.
    pub fn append_with(&mut self, most: usize, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(room) = self.memory.get_mut(self.end..self.end + most) else {
            return false;
        };
        let initialised = self.written.saturating_sub(self.end).min(most);
        room[initialised..].fill(MaybeUninit::new(0));
        self.written = self.written.max(self.end + most);
        // SAFETY: up to `written` the memory was written before, and behind that just now.
        let room = unsafe { room.assume_init_mut() };
        self.end += write(room).min(most);
        true
    }

    /// Writes `bytes` behind the first `end` bytes: over bytes that are done with, which are those
    /// before `consumed`, or behind the last byte if that is where `end` is. `false` where they do
    /// not fit; then nothing changed.
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
        // What is done with may go: the bytes before `end` are the last ones that matter.
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

    /// How many bytes one read could bring.
    #[must_use]
    pub fn room(&self) -> usize {
        self.memory.len() - self.end
    }

    /// Sees to it that there is room behind what is left: moves that to the front where there is
    /// little, or grows where there is none. One without memory stays so.
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

/// Part of a buffer, on its way out.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) buffer: Buffer,
    /// What is left to send, counted from the buffer's first byte.
    pub(crate) range: Range<usize>,
}

// SAFETY: as for `Buffer`; the range is cut to what the buffer holds.
unsafe impl IoBuf for Outgoing {
    fn read_ptr(&self) -> *const u8 {
        self.buffer
            .filled()
            .get(self.range.clone())
            .unwrap_or_default()
            .as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.buffer
            .filled()
            .get(self.range.clone())
            .unwrap_or_default()
            .len()
    }
}

/// Buffers that no connection uses at the moment.
#[derive(Default)]
pub struct BufferPool {
    large: Shelf<Buffer>,
    small: Shelf<Buffer>,
    /// Bytes of the buffers that are in use.
    lent: Cell<usize>,
}

impl BufferPool {
    /// An empty buffer.
    #[must_use]
    pub fn take(self: &Rc<Self>) -> Buffer {
        let buffer = self.large.take().unwrap_or_else(Buffer::with_room);
        self.lend(buffer)
    }

    /// An empty buffer to wait in.
    #[must_use]
    pub fn take_small(self: &Rc<Self>) -> Buffer {
        let buffer = self.small.take();
        self.lend(buffer.unwrap_or_else(|| Buffer::of(SMALL_BUFFER_BYTES)))
    }

    /// A buffer that takes its memory when there are bytes for it, by [`Buffer::reserve`] or
    /// [`Buffer::grow`].
    #[must_use]
    pub fn without_memory(self: &Rc<Self>) -> Buffer {
        self.lend(Buffer::default())
    }

    fn lend(self: &Rc<Self>, buffer: Buffer) -> Buffer {
        let bytes = buffer.memory.len();
        self.lent.set(self.lent.get().saturating_add(bytes));
        let pool = Rc::clone(self);
        Buffer {
            loan: Some(Loan { pool, bytes }),
            ..buffer
        }
    }

    /// Bytes of the buffers that are in use.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lent.get()
    }

    /// Gives a buffer back; whatever is in it is forgotten.
    pub fn put(&self, mut buffer: Buffer) {
        buffer.clear();
        buffer.loan = None;
        if buffer.is_small() {
            self.small.put(buffer);
        } else if buffer.is_large() {
            self.large.put(buffer);
        }
    }

    /// As [`Self::put`], of who is not about to need another one: it is freed where some are free.
    pub fn give_up(&self, mut buffer: Buffer) {
        if !buffer.is_small() {
            return self.put(buffer);
        }
        buffer.clear();
        buffer.loan = None;
        if let Some(mut buffer) = self.small.put_spare(buffer, SPARE_BUFFERS) {
            memory::discard(&mut buffer.memory);
        }
    }

    /// Frees what nobody has needed since the last time. How many there were.
    pub fn trim(&self) -> usize {
        let discard = |mut buffer: Buffer| memory::discard(&mut buffer.memory);
        self.large.trim(discard) + self.small.trim(discard)
    }
}

#[cfg(test)]
mod tests;

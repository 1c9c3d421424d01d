//! Bytes of a message that is kept as a whole, counted with the buffers in use.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::buffer::{Buffer, BufferPool, Loan};

/// Bytes whose number is known only at their end.
pub struct Kept {
    bytes: Vec<u8>,
    /// Number of bytes at the start that were consumed.
    consumed: usize,
    loan: Loan,
}

impl Kept {
    /// None yet, counted by this pool.
    #[must_use]
    pub fn new(pool: &Rc<BufferPool>) -> Self {
        Self {
            bytes: Vec::new(),
            consumed: 0,
            loan: Loan::of(pool, 0),
        }
    }

    /// These, counted by this pool from now on.
    #[must_use]
    pub(crate) fn holding(pool: &Rc<BufferPool>, bytes: Vec<u8>) -> Self {
        let loan = Loan::of(pool, bytes.capacity());
        Self {
            bytes,
            consumed: 0,
            loan,
        }
    }

    /// Appends bytes; growth is counted by the pool.
    pub fn append(&mut self, bytes: &[u8]) {
        self.append_with(|all| all.extend_from_slice(bytes));
    }

    /// Lets `write` append bytes; growth is counted by the pool.
    pub fn append_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.loan.resize(self.bytes.capacity());
    }

    /// The bytes as a vector, for a write to a socket. They are counted as before.
    pub fn lend(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.consumed));
        &mut self.bytes
    }

    /// Frees the memory that it does not need, once it is complete.
    pub(crate) fn shrink(&mut self) {
        self.lend().shrink_to_fit();
        self.loan.resize(self.bytes.capacity());
    }

    /// The bytes as a vector, which is no longer counted.
    #[must_use]
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(self.lend())
    }

    /// A copy in a buffer of the same pool, to be sent.
    #[must_use]
    pub(crate) fn to_buffer(&self) -> Buffer {
        self.loan.pool().holding(self)
    }

    /// Drops all bytes, but keeps the memory of up to `capacity` for others. It stays counted.
    pub fn clear(&mut self, capacity: usize) {
        self.bytes.clear();
        self.consumed = 0;
        self.bytes.shrink_to(capacity);
        self.loan.resize(self.bytes.capacity());
    }

    /// Drops the first `count` bytes, or all if there are fewer. Their memory is freed once it is most
    /// of it.
    pub fn consume(&mut self, count: usize) {
        self.consumed += count.min(self.len());
        // Each byte consumed moves at most one other.
        if self.consumed < self.len() {
            return;
        }
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        if self.bytes.capacity() > 4 * self.bytes.len() {
            self.bytes.shrink_to(2 * self.bytes.len());
            self.loan.resize(self.bytes.capacity());
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} bytes)", self.len())
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.consumed..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::Kept;
    use crate::memory::BufferPool;

    #[test]
    fn kept_bytes_are_counted_until_they_are_dropped() {
        let pool = Rc::new(BufferPool::default());
        let mut kept = Kept::new(&pool);
        kept.append(&[1; 1000]);
        kept.append(&[2; 1000]);
        assert_eq!((kept.len(), kept[1500]), (2000, 2));
        assert!(pool.lent() >= 2000, "{}", pool.lent());
        let held = pool.holding(&kept);
        drop(kept);
        assert_eq!(held.filled().len(), 2000);
        assert!(pool.lent() >= 2000, "a copy in a buffer counts too");
        pool.put(held);
        assert_eq!(pool.lent(), 0);
    }

    #[test]
    fn consumed_bytes_are_neither_kept_nor_counted() {
        let pool = Rc::new(BufferPool::default());
        let mut kept = Kept::new(&pool);
        kept.append(&vec![1; 100_000]);
        kept.append(b"the rest");
        kept.consume(40_000);
        assert_eq!((kept.len(), kept[0]), (60_008, 1));
        kept.consume(60_000);
        assert_eq!(&*kept, b"the rest");
        assert!((8..100).contains(&pool.lent()), "{}", pool.lent());
        kept.append(b" and more");
        kept.consume(4);
        assert_eq!(&*kept, b"rest and more");
        kept.consume(1000);
        assert_eq!((kept.len(), pool.lent()), (0, 0));
        kept.append(b"again");
        assert_eq!(&*kept, b"again");
    }

    #[test]
    fn lent_bytes_are_those_not_consumed_and_stay_counted() {
        let pool = Rc::new(BufferPool::default());
        let mut kept = Kept::new(&pool);
        kept.append(b"one, ");
        kept.append_with(|all| all.extend_from_slice(&[b'2'; 1000]));
        kept.consume(5);
        assert_eq!(kept.lend(), &[b'2'; 1000]);
        assert!(pool.lent() >= 1000, "{}", pool.lent());
        kept.lend().clear();
        kept.consume(usize::MAX);
        assert_eq!(pool.lent(), 0);
    }

    #[test]
    fn cleared_memory_is_used_again_and_stays_counted() {
        let pool = Rc::new(BufferPool::default());
        let mut kept = Kept::new(&pool);
        kept.append(&[1; 10_000]);
        let (at, lent) = (kept.as_ptr(), pool.lent());
        for _ in 0..3 {
            kept.consume(1);
            kept.clear(lent);
            assert_eq!((kept.len(), pool.lent()), (0, lent));
            kept.append(&[2; 10_000]);
            assert_eq!((kept.as_ptr(), pool.lent()), (at, lent));
        }
        kept.clear(1000);
        assert!((1000..2000).contains(&pool.lent()), "{}", pool.lent());
    }

    #[test]
    fn complete_bytes_take_no_more_memory_than_they_need() {
        let pool = Rc::new(BufferPool::default());
        let mut kept = Kept::new(&pool);
        for _ in 0..5 {
            kept.append(&[1; 1000]);
        }
        kept.consume(10);
        assert!(pool.lent() > 5000, "{}", pool.lent());
        kept.shrink();
        assert_eq!((kept.len(), pool.lent()), (4990, 4990));
        let bytes = kept.into_vec();
        assert_eq!((bytes.len(), pool.lent()), (4990, 0));
        let again = Kept::holding(&pool, bytes);
        assert_eq!((again.len(), pool.lent()), (4990, 4990));
    }

    #[test]
    fn a_long_stream_is_not_kept() {
        let pool = Rc::new(BufferPool::default());
        let mut kept = Kept::new(&pool);
        for _ in 0..1000 {
            kept.append(&[1; 1000]);
            kept.append(&[2; 10]);
            kept.consume(1000);
            assert_eq!(&*kept, [2; 10]);
            assert!(pool.lent() < 10_000, "{}", pool.lent());
            kept.consume(10);
        }
        assert_eq!(pool.lent(), 0);
    }
}

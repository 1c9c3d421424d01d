//! Bytes of a message that is kept as a whole, counted with the buffers in use.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::buffer::{BufferPool, Loan};

/// Bytes whose number is known only at their end.
pub struct Kept {
    bytes: Vec<u8>,
    loan: Loan,
}

impl Kept {
    /// None yet, counted by this pool.
    #[must_use]
    pub fn new(pool: &Rc<BufferPool>) -> Self {
        Self {
            bytes: Vec::new(),
            loan: Loan::of(pool, 0),
        }
    }

    /// Appends bytes; growth is counted by the pool.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.loan.resize(self.bytes.capacity());
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} bytes)", self.bytes.len())
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
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
}

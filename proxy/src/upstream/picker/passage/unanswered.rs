//! The messages of a body that have no answer yet. Few bytes are kept for each, and counted with the
//! buffers in use: there can be tens of thousands.

use std::rc::Rc;

use crate::memory::{BufferPool, Kept};

/// Messages to a picker without an answer, oldest first.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// The length of each, in four bytes.
    lengths: Kept,
    /// Whether the newest is the last of the body.
    has_last: bool,
}

impl Unanswered {
    /// None, counted by this pool.
    pub(super) fn new(pool: &Rc<BufferPool>) -> Self {
        Self {
            lengths: Kept::new(pool),
            has_last: false,
        }
    }

    /// Adds a message with this many bytes of the body.
    pub(super) fn push(&mut self, length: usize, is_last: bool) {
        // A length that is cut fits no piece of the body, and fails the picker.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.lengths.append(&length.to_be_bytes());
        self.has_last |= is_last;
    }

    /// Removes the oldest: its length, and whether it is the last of the body.
    pub(super) fn pop(&mut self) -> Option<(usize, bool)> {
        let length = *self.lengths.first_chunk()?;
        self.lengths.consume(length.len());
        let is_last = self.has_last && self.is_empty();
        Some((u32::from_be_bytes(length) as usize, is_last))
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.lengths.consume(usize::MAX);
        self.has_last = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lengths.len() / size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::Unanswered;
    use crate::limits::PICKER_BODY_MESSAGES;
    use crate::memory::BufferPool;

    #[test]
    fn messages_leave_in_order_and_count_as_buffers_in_use() {
        let pool = Rc::new(BufferPool::default());
        let mut unanswered = Unanswered::new(&pool);
        for length in 1..PICKER_BODY_MESSAGES {
            unanswered.push(length, false);
        }
        unanswered.push(0, true);
        assert_eq!(unanswered.len(), PICKER_BODY_MESSAGES);
        let counted = pool.lent();
        assert!(counted >= 4 * PICKER_BODY_MESSAGES, "{counted}");
        for length in 1..PICKER_BODY_MESSAGES {
            assert_eq!(unanswered.pop(), Some((length, false)));
        }
        assert_eq!(unanswered.pop(), Some((0, true)));
        assert_eq!((unanswered.pop(), pool.lent()), (None, 0));
        unanswered.push(1, true);
        unanswered.clear();
        assert!(unanswered.is_empty() && pool.lent() == 0);
        unanswered.push(1, false);
        assert_eq!(unanswered.pop(), Some((1, false)));
    }
}

//! Resources that were refused because the compiled expressions of this process had no room for theirs.
//!
//! Most of the room may be taken by earlier configurations, which stay for as long as requests use them,
//! so such a resource may be applicable later although nothing about it has changed.

use std::time::Instant;

use xds::model::Pattern;

use crate::limits::ROOM_CHECK_INTERVAL;

/// A shortage of room, since the last resource that was refused for it.
#[derive(Debug)]
pub(super) struct Shortage {
    /// Bytes of compiled expressions then.
    used: usize,
    check_at: Instant,
}

impl Shortage {
    /// A resource has just been refused while expressions took so many bytes.
    pub(super) fn new(used: usize, now: Instant) -> Self {
        Self {
            used,
            check_at: now + ROOM_CHECK_INTERVAL,
        }
    }

    /// When to call [`Shortage::has_ended`].
    pub(super) fn check_at(&self) -> Instant {
        self.check_at
    }

    /// Whether so much was freed since then that there is room for any expression.
    pub(super) fn has_ended(&mut self, used: usize, now: Instant) -> bool {
        self.check_at = now + ROOM_CHECK_INTERVAL;
        self.used.saturating_sub(used) >= Pattern::MAX_COMPILED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_ends_when_an_expression_of_any_size_has_room() {
        let now = Instant::now();
        let full = Pattern::MAX_PROCESS_BYTES - 10;
        let mut shortage = Shortage::new(full, now);
        let later = shortage.check_at();
        assert_eq!(later, now + ROOM_CHECK_INTERVAL);
        assert!(!shortage.has_ended(full, later));
        assert!(!shortage.has_ended(full - 1000, later));
        assert_eq!(shortage.check_at(), later + ROOM_CHECK_INTERVAL);
        assert!(shortage.has_ended(full - Pattern::MAX_COMPILED_BYTES, later));
    }
}

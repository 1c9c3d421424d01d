//! Flow control (RFC 9113 section 5.2): how many bytes of DATA each side may send, on a stream and on
//! the connection.

use super::error::Violation;
use crate::limits::MAX_H2_WINDOW_BYTES;

/// How much we may send. It can be negative after the peer has lowered its initial window (section
/// 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i32);

impl SendWindow {
    /// A window of the size that the peer's settings give; they are checked.
    pub(super) fn new(bytes: u32) -> Self {
        Self(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// Bytes that may be sent.
    pub(super) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Records sent bytes, which are within the room.
    pub(super) fn spend(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.room(), "more was sent than is allowed");
        self.0 = i32::try_from(bytes).map_or(0, |bytes| self.0.saturating_sub(bytes));
    }

    /// Adds the increment of a `WINDOW_UPDATE`, or the change of the peer's initial window.
    pub(super) fn change(&mut self, by: i64) -> Result<(), Violation> {
        let changed = i64::from(self.0).saturating_add(by);
        self.0 = i32::try_from(changed).map_err(|_| Violation::Window)?;
        Ok(())
    }
}

/// How much the peer may send, and how much of what it has sent is to be returned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// Bytes that the peer may still send: less than none if it has sent them before it knew of a smaller
    /// initial window.
    open: i64,
    /// Bytes that were received and not sent on.
    held: u32,
    /// Bytes that were sent on, and that no update has returned yet.
    owed: u32,
}

impl ReceiveWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            open: bytes.into(),
            held: 0,
            owed: 0,
        }
    }

    /// Changes the window by an update that is not due for what was sent on, or by a setting.
    pub(super) fn change(&mut self, by: i64) {
        self.open = self.open.saturating_add(by);
    }

    /// Records a received frame.
    pub(super) fn receive(&mut self, bytes: u32) -> Result<(), Violation> {
        let left = self.open.saturating_sub(bytes.into());
        if left < 0 && bytes > 0 {
            return Err(Violation::Window);
        }
        self.open = left;
        self.held = self.held.saturating_add(bytes);
        Ok(())
    }

    /// Records that received bytes were sent on. Returns how many of them were held.
    pub(super) fn give_back(&mut self, bytes: u32) -> u32 {
        let returned = bytes.min(self.held);
        self.held = self.held.saturating_sub(returned);
        self.owed = self.owed.saturating_add(returned);
        returned
    }

    /// Bytes that were received and not sent on.
    pub(super) fn held(self) -> u32 {
        self.held
    }

    /// Takes the increment to announce, if it is time for one: when half of a window of `target` bytes
    /// can be opened.
    pub(super) fn take_update(&mut self, target: u32) -> Option<u32> {
        let target = target.min(MAX_H2_WINDOW_BYTES);
        let missing = i64::from(target).saturating_sub(self.open);
        let increment = self.owed.min(u32::try_from(missing).unwrap_or(0));
        if increment == 0 || increment < target / 2 {
            return None;
        }
        self.owed = self.owed.saturating_sub(increment);
        self.open = self.open.saturating_add(increment.into());
        Some(increment)
    }
}

/// The state of the memory that received bytes are held in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Within the budget: windows have their full size.
    #[default]
    None,
    /// Above the soft limit: windows of streams and connections are opened to a small size only. They are
    /// never closed for good, since what fills the memory may belong to others, who keep it.
    Soft,
    /// Above the hard limit: no new streams either.
    Hard,
}

#[cfg(test)]
mod tests {
    use super::{ReceiveWindow, SendWindow, Violation};

    #[test]
    fn a_window_may_become_negative_but_not_too_large() {
        let mut window = SendWindow::new(100);
        window.spend(60);
        assert_eq!(window.change(-50), Ok(()));
        assert_eq!(window.room(), 0);
        assert_eq!(window.change(11), Ok(()));
        assert_eq!(window.room(), 1);
        assert_eq!(window.change(i64::from(i32::MAX) - 1), Ok(()));
        assert_eq!(window.change(1), Err(Violation::Window));
    }

    #[test]
    fn an_update_is_due_when_half_of_the_window_was_returned() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.receive(80), Ok(()));
        assert_eq!(window.give_back(49), 49);
        assert_eq!(window.take_update(100), None);
        assert_eq!(window.give_back(1), 1);
        assert_eq!(window.take_update(100), Some(50));
        assert_eq!(window.receive(71), Err(Violation::Window));
        assert_eq!(window.receive(70), Ok(()));
    }

    #[test]
    fn a_smaller_target_keeps_the_rest_owed() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.receive(100), Ok(()));
        assert_eq!(window.give_back(1_000), 100, "no more than is held");
        assert_eq!(window.take_update(20), Some(20));
        assert_eq!(window.take_update(20), None);
        assert_eq!(window.take_update(100), Some(80));
        assert_eq!(window.take_update(100), None);
    }
}

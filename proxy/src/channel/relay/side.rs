//! One side of a relay: a channel with its timeouts.

use std::time::{Duration, Instant};

use crate::channel::Channel;
use crate::shard::deadline::{Deadline, Expiry};

/// One side of a relay.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) stream: &'a Channel,
    pub(crate) deadline: &'a Deadline,
    /// Idle timeout for its reads and writes.
    pub(crate) idle: Option<Duration>,
    /// Deadline of the whole transfer.
    pub(crate) until: Option<Instant>,
}

impl<'a> Side<'a> {
    /// A side without timeouts.
    pub(crate) fn of(stream: &'a Channel, deadline: &'a Deadline) -> Self {
        Self {
            stream,
            deadline,
            idle: None,
            until: None,
        }
    }

    /// Starts the timeout of the next write, with a minimum rate for the receiver.
    pub(crate) fn arm_write(&self) {
        self.deadline.arm_write(self.idle, self.left());
    }

    fn left(&self) -> Option<Duration> {
        let until = self.until?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Starts the timeout of the next operation.
    pub(crate) fn arm(&self, expiry: Expiry) {
        let left = self.left();
        let after = match (self.idle, left) {
            (Some(idle), Some(left)) => Some(idle.min(left)),
            (idle, left) => idle.or(left),
        };
        self.deadline.arm(after, expiry);
    }
}
